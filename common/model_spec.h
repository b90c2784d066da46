#ifndef PARAPET_COMMON_MODEL_SPEC_H_
#define PARAPET_COMMON_MODEL_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/layout.h"

namespace parapet {

// What servers and workers both know of models and data without building or
// loading them.

// Shape of one sample, as the data has it.
struct InputShape {
  int64_t channels = 1, height = 1, width = 1;
  int64_t classes = 2;
  int64_t features() const { return channels * height * width; }
};

// The layout of a built-in model. `spec` is "softmax", "mlp:H1,H2,..." or
// "cnn:small" (conv 16, pool, conv 32, pool, fc 128, fc; 3x3 kernels, padding
// 1, 2x2 pools). Tensors are named and shaped as in PyTorch: fc1.weight [out,
// in], fc1.bias, conv1.weight [out, in, 3, 3], ...; "softmax" has one layer,
// fc1. Initial values are PyTorch's defaults for Linear and Conv2d: uniform
// within 1 / sqrt(fan_in), weights and biases.
//
// Others are zeros that servers keep for `parapet load`, whatever the data, and
// no worker trains: "flat:N", one tensor of N; "layout:FILE", the tensors of a
// file, and "zipf:N,TENSORS,SKEW,SEED", N in tensors of skewed sizes
// (common/tensor_specs.h). InvalidArgument in words otherwise.
absl::StatusOr<Layout> ModelLayout(const std::string& spec,
                                   const InputShape& input);

// Whether a model of this name has layers, which can be trained.
bool HasLayers(const std::string& spec);

struct DataFacts {
  InputShape shape;
  int64_t train_samples = 0;
};

// What a --data spec says without loading the samples: "fashion-mnist",
// "idx:DIR" (reads the headers of the files) or
// "synthetic:FEATURES,CLASSES,SAMPLES".
absl::StatusOr<DataFacts> DescribeData(const std::string& spec);

}  // namespace parapet

#endif  // PARAPET_COMMON_MODEL_SPEC_H_
