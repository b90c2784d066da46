#include "common/layout.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/rng.h"

namespace parapet {
namespace {

// Smaller chunks overlap more and cost more: a message is a dozen wake-ups of
// threads, which is what a round of a small model is made of.
constexpr int64_t kMinChunk = 64 * 1024;
constexpr int64_t kMaxChunk = 256 * 1024;

// Product of the dimensions, or -1 if one is negative or the product passes
// Layout::kMaxElements.
int64_t CountElements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dimension : shape) {
    if (dimension < 0 || dimension > Layout::kMaxElements) return -1;
    if (dimension != 0 && count > Layout::kMaxElements / dimension) return -1;
    count *= dimension;
  }
  return count;
}

uint64_t HashTensor(uint64_t seed, const Tensor& tensor) {
  uint64_t hash = HashBytes(tensor.name.data(), tensor.name.size(), seed);
  return HashBytes(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t),
                   hash);
}

float DrawUniform(uint64_t key, double bound, int64_t index) {
  const auto block = Philox(key, 0, static_cast<uint64_t>(index) / 4);
  const double unit = block[index % 4] * 0x1p-32;
  return static_cast<float>(bound * (2.0 * unit - 1.0));
}

void InitializeTensor(const Tensor& tensor, uint64_t key, Range range,
                      float* out) {
  const bool zero = tensor.init.kind == Initializer::Kind::kZero;
  for (int64_t e = range.begin; e < range.end; ++e) {
    *out++ =
        zero ? 0.0f : DrawUniform(key, tensor.init.bound, e - tensor.offset);
  }
}

}  // namespace

absl::StatusOr<Layout> Layout::Create(std::vector<TensorSpec> specs) {
  if (static_cast<int64_t>(specs.size()) > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("a layout has at most ", kMaxTensors, " tensors"));
  }
  Layout layout;
  absl::flat_hash_set<std::string> names;
  for (TensorSpec& spec : specs) {
    Tensor tensor{std::move(spec), layout.elements_, 0};
    tensor.elements = CountElements(tensor.shape);
    if (tensor.name.empty() || !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", layout.tensors_.size(),
                       " has no name of its own: '", tensor.name, "'"));
    }
    if (tensor.elements < 0 ||
        tensor.elements > kMaxElements - layout.elements_) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", tensor.name,
                       "' has a negative dimension or too many elements"));
    }
    layout.elements_ += tensor.elements;
    layout.hash_ = HashTensor(layout.hash_, tensor);
    layout.tensors_.push_back(std::move(tensor));
  }
  if (layout.elements_ == 0)
    return absl::InvalidArgumentError("the model has no parameter");
  return layout;
}

int Layout::TensorAt(int64_t element) const {
  // The last tensor that begins at or before the element is not empty, since an
  // empty one begins where the next one does.
  auto after = std::upper_bound(
      tensors_.begin(), tensors_.end(), element,
      [](int64_t e, const Tensor& tensor) { return e < tensor.offset; });
  int index = static_cast<int>(after - tensors_.begin()) - 1;
  while (tensors_[index].elements == 0) --index;
  return index;
}

std::string Layout::Describe(int64_t element) const {
  const Tensor& tensor = tensors_[TensorAt(element)];
  return absl::StrCat(tensor.name, "[", element - tensor.offset, "]");
}

void Initialize(const Layout& layout, uint64_t seed, Range range, float* out) {
  if (range.size() <= 0) return;
  int64_t at = range.begin;
  for (int index = layout.TensorAt(at); at < range.end; ++index) {
    const Tensor& tensor = layout.tensors()[index];
    const Range part{at, std::min(range.end, tensor.offset + tensor.elements)};
    InitializeTensor(tensor, MixKey(seed, index), part,
                     out + (at - range.begin));
    at = part.end;
  }
}

absl::StatusOr<ShardMap> ShardMap::Create(int64_t elements, int servers,
                                          int64_t chunk, int64_t leaf) {
  if (elements <= 0 || servers <= 0 || leaf <= 0) {
    return absl::InvalidArgumentError(
        "a shard map needs elements, servers and a leaf above 0");
  }
  if (chunk == 0) {
    const int64_t share = elements / servers;
    const int64_t wanted =
        std::min(share, std::clamp(share / 8, kMinChunk, kMaxChunk));
    chunk = std::max(leaf, wanted / leaf * leaf);
  }
  if (chunk < 0 || chunk % leaf != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--chunk=", chunk, " must be a positive multiple of ",
                     leaf, " elements"));
  }
  ShardMap map;
  map.elements_ = elements;
  map.servers_ = servers;
  map.chunk_ = chunk;
  map.leaf_ = leaf;
  map.chunks_ = (elements + chunk - 1) / chunk;
  return map;
}

Range ShardMap::ChunkRange(int64_t chunk) const {
  return {chunk * chunk_, std::min(elements_, (chunk + 1) * chunk_)};
}

int64_t ShardMap::ChunksOf(int server) const {
  return server >= chunks_ ? 0 : (chunks_ - 1 - server) / servers_ + 1;
}

int64_t ShardMap::ElementsOf(int server) const {
  const int64_t count = ChunksOf(server);
  if (count == 0) return 0;
  return (count - 1) * chunk_ + ChunkRange(ChunkOf(server, count - 1)).size();
}

}  // namespace parapet
