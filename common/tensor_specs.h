#ifndef PARAPET_COMMON_TENSOR_SPECS_H_
#define PARAPET_COMMON_TENSOR_SPECS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout.h"

namespace parapet {

// Tensors of models that nobody here can train, for load tests: all zeros.

// What a file says: JSON, a list [{"name": "fc1.weight", "shape": [256, 784]},
// ...], of which other members are ignored, or a safetensors file, whose name
// ends in .safetensors, in the order of its data and whatever its types.
// InvalidArgument in words that name the file; the disk's error if it cannot
// be read.
absl::StatusOr<std::vector<TensorSpec>> ReadTensorSpecs(
    const std::string& path);

// `tensors` tensors of `elements` altogether, each of at least 1, named
// "tensor0", ... Beyond that, the size of one is in proportion to rank^-skew
// (Zipf's law), with ranks in an order that the seed makes: skew 0 is all
// alike, and with 1 the largest of a hundred has a fifth of all. 1 <= tensors
// <= elements.
std::vector<TensorSpec> SkewedTensors(int64_t elements, int64_t tensors,
                                      double skew, uint64_t seed);

}  // namespace parapet

#endif  // PARAPET_COMMON_TENSOR_SPECS_H_
