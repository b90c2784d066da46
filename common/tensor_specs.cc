#include "common/tensor_specs.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/disk.h"
#include "common/json_parse.h"
#include "common/rng.h"
#include "common/safetensors.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr int64_t kMaxFile = int64_t{64} << 20;
constexpr int kMaxDepth = 16;
constexpr uint64_t kRanks = 0x72616e6b73;

absl::StatusOr<std::vector<TensorSpec>> FromSafetensors(
    Disk& disk, const std::string& path) {
  PARAPET_ASSIGN_OR_RETURN(const SafetensorsReader reader,
                           SafetensorsReader::Open(disk, path));
  std::vector<TensorSpec> specs;
  for (const SafeTensor& tensor : reader.tensors())
    specs.push_back({tensor.name, tensor.shape, {}});
  return specs;
}

absl::StatusOr<std::vector<TensorSpec>> FromJson(Disk& disk,
                                                 const std::string& path) {
  PARAPET_ASSIGN_OR_RETURN(const std::string text,
                           ReadWholeFile(disk, path, kMaxFile));
  PARAPET_ASSIGN_OR_RETURN(const nlohmann::json list,
                           ParseJson(text, kMaxDepth));
  if (!list.is_array())
    return absl::InvalidArgumentError(
        R"(is no list of tensors, [{"name": "a", "shape": [2, 3]}, ...])");
  std::vector<TensorSpec> specs;
  for (const nlohmann::json& tensor : list) {
    TensorSpec spec;
    PARAPET_ASSIGN_OR_RETURN(spec.name, JsonString(tensor, "name"));
    PARAPET_ASSIGN_OR_RETURN(spec.shape, JsonCounts(tensor, "shape"));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// 0, ..., count - 1 in some order.
std::vector<size_t> Shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  Random random(MixKey(seed, kRanks), 0);
  for (size_t left = count; left > 1; --left)
    std::swap(order[left - 1], order[random.Below(left)]);
  return order;
}

}  // namespace

absl::StatusOr<std::vector<TensorSpec>> ReadTensorSpecs(
    const std::string& path) {
  const std::unique_ptr<Disk> disk = MakePosixDisk();
  absl::StatusOr<std::vector<TensorSpec>> specs =
      absl::EndsWith(path, ".safetensors") ? FromSafetensors(*disk, path)
                                           : FromJson(*disk, path);
  if (specs.ok() || absl::StrContains(specs.status().message(), path))
    return specs;
  return absl::Status(specs.status().code(),
                      absl::StrCat(path, ": ", specs.status().message()));
}

std::vector<TensorSpec> SkewedTensors(int64_t elements, int64_t tensors,
                                      double skew, uint64_t seed) {
  const auto count = static_cast<size_t>(tensors);
  std::vector<double> ends(count);  // sums of the parts up to each rank
  double total = 0;
  for (size_t k = 0; k < count; ++k)
    ends[k] = total += std::pow(static_cast<double>(k + 1), -skew);
  const std::vector<size_t> order = Shuffled(count, seed);
  std::vector<TensorSpec> specs(count);
  int64_t before = 0;
  for (size_t k = 0; k < count; ++k) {
    const int64_t end = std::llround(static_cast<double>(elements - tensors) *
                                     (ends[k] / total));
    specs[order[k]] = {
        absl::StrCat("tensor", order[k]), {1 + end - before}, {}};
    before = end;
  }
  return specs;
}

}  // namespace parapet
