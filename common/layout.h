#ifndef PARAPET_COMMON_LAYOUT_H_
#define PARAPET_COMMON_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace parapet {

// The unit of deterministic sums, in elements. Its boundaries depend on the
// layout alone.
inline constexpr int64_t kLeafElements = 16 * 1024;

// How the initial values of a tensor are drawn. Element e of a tensor is a pure
// function of (seed, position of the tensor in the layout, e), so a server
// makes just the chunks that it owns.
struct Initializer {
  enum class Kind : uint8_t { kZero, kUniform };
  Kind kind = Kind::kZero;
  double bound = 0;  // kUniform: uniform over [-bound, bound)
};

// A tensor as a model declares it. An empty shape is a scalar; a zero dimension
// an empty tensor.
struct TensorSpec {
  std::string name;  // PyTorch's names, e.g. "fc1.weight"
  std::vector<int64_t> shape;
  Initializer init;
};

// A tensor in its place: elements [offset, offset + elements) of the flat
// vector, row-major.
struct Tensor : TensorSpec {
  int64_t offset = 0;
  int64_t elements = 0;
};

// A range of elements of the flat vector, [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// The ordered list of named tensors, flattened into one vector of float32
// parameters. Immutable.
class Layout {
 public:
  static constexpr int64_t kMaxTensors = 1'000'000;
  static constexpr int64_t kMaxElements = int64_t{1} << 48;

  // Refuses duplicate or empty names, negative dimensions, no element at all,
  // and more than the limits above (InvalidArgument).
  static absl::StatusOr<Layout> Create(std::vector<TensorSpec> specs);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  int64_t elements() const { return elements_; }
  // Of names, order and shapes: equal layouts have equal hashes on every
  // machine.
  uint64_t hash() const { return hash_; }
  // Index of the tensor that holds an element (never an empty one). 0 <=
  // element < elements().
  int TensorAt(int64_t element) const;
  // Name of the tensor that holds an element, with the index in it:
  // "fc1.weight[17]".
  std::string Describe(int64_t element) const;

 private:
  std::vector<Tensor> tensors_;
  int64_t elements_ = 0;
  uint64_t hash_ = 0;
};

// Writes the initial weights of `range` to `out` (range.size() floats).
void Initialize(const Layout& layout, uint64_t seed, Range range, float* out);

// Which elements are in which chunk, and which server owns it: chunk c lives on
// server c mod S, so that all servers are busy all through a backward pass and
// no two differ by more than one chunk.
class ShardMap {
 public:
  // `chunk` = 0 chooses clamp(d / 8S, 64 Ki, 256 Ki), but not above d / S (each
  // server has a share) and rounded down to whole leaves, one at least;
  // otherwise it must be a positive multiple of `leaf`. Tests may make leaves
  // smaller than kLeafElements.
  static absl::StatusOr<ShardMap> Create(int64_t elements, int servers,
                                         int64_t chunk = 0,
                                         int64_t leaf = kLeafElements);

  int64_t elements() const { return elements_; }
  int servers() const { return servers_; }
  int64_t chunk_elements() const { return chunk_; }
  int64_t leaf_elements() const { return leaf_; }
  int64_t chunks() const { return chunks_; }
  int64_t leaves() const { return (elements_ + leaf_ - 1) / leaf_; }

  Range ChunkRange(int64_t chunk) const;
  int64_t ChunkAt(int64_t element) const { return element / chunk_; }
  int OwnerOf(int64_t chunk) const {
    return static_cast<int>(chunk % servers_);
  }
  // How many chunks, and elements, a server owns. Both may be 0.
  int64_t ChunksOf(int server) const;
  int64_t ElementsOf(int server) const;
  // A server's chunks counted from 0: chunk = server + local * S, and back.
  int64_t ChunkOf(int server, int64_t local) const {
    return server + local * servers_;
  }
  int64_t LocalOf(int64_t chunk) const { return chunk / servers_; }
  // The canonical order of pushes to one server is that of backpropagation: its
  // highest chunk first. Turn k of `server` is the chunk that is pushed to it
  // as the k-th.
  int64_t TurnOf(int64_t chunk) const {
    return ChunksOf(OwnerOf(chunk)) - 1 - LocalOf(chunk);
  }
  int64_t LocalAtTurn(int server, int64_t turn) const {
    return ChunksOf(server) - 1 - turn;
  }

 private:
  int64_t elements_ = 0, chunk_ = 0, leaf_ = 0, chunks_ = 0;
  int servers_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_LAYOUT_H_
