#include "common/model_spec.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/data_spec.h"
#include "common/idx.h"
#include "common/status_macros.h"
#include "common/tensor_specs.h"

namespace parapet {
namespace {

constexpr int64_t kMaxWidth = int64_t{1}
                              << 24;  // of an input's dimension and of a layer
constexpr double kMaxSkew = 10;
constexpr int64_t kKernel = 3;
constexpr int64_t kConvChannels[] = {16, 32};
constexpr int64_t kConvHidden = 128;

// A layer's weight and bias. shape[0] is the layer's outputs, the rest its
// fan-in.
void AddLayer(const std::string& name, std::vector<int64_t> shape,
              std::vector<TensorSpec>* specs) {
  double fan_in = 1;
  for (size_t i = 1; i < shape.size(); ++i)
    fan_in *= static_cast<double>(shape[i]);
  const Initializer init{Initializer::Kind::kUniform, 1 / std::sqrt(fan_in)};
  const int64_t outputs = shape[0];
  specs->push_back({name + ".weight", std::move(shape), init});
  specs->push_back({name + ".bias", {outputs}, init});
}

// Fully connected layers fc1, fc2, ... from `inputs` through `hidden` to
// `outputs`.
void AddLinears(int64_t inputs, const std::vector<int64_t>& hidden,
                int64_t outputs, std::vector<TensorSpec>* specs) {
  int number = 1;
  for (int64_t width : hidden) {
    AddLayer(absl::StrCat("fc", number++), {width, inputs}, specs);
    inputs = width;
  }
  AddLayer(absl::StrCat("fc", number), {outputs, inputs}, specs);
}

absl::Status AddConvolutions(const InputShape& input,
                             std::vector<TensorSpec>* specs) {
  if (input.height < 4 || input.width < 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("two 2x2 pools need images of 4x4 at least, these are ",
                     input.height, "x", input.width));
  }
  int64_t channels = input.channels, height = input.height, width = input.width;
  int number = 1;
  for (int64_t outputs : kConvChannels) {
    AddLayer(absl::StrCat("conv", number++),
             {outputs, channels, kKernel, kKernel}, specs);
    channels = outputs;
    height /= 2;
    width /= 2;
  }
  AddLinears(channels * height * width, {kConvHidden}, input.classes, specs);
  return absl::OkStatus();
}

// "N,TENSORS,SKEW,SEED".
absl::StatusOr<std::vector<TensorSpec>> ParseSkewed(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  int64_t elements = 0, tensors = 0;
  double skew = 0;
  uint64_t seed = 0;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &elements) ||
      !absl::SimpleAtoi(parts[1], &tensors) ||
      !absl::SimpleAtod(parts[2], &skew) || !absl::SimpleAtoi(parts[3], &seed))
    return absl::InvalidArgumentError("zipf takes N,TENSORS,SKEW,SEED");
  if (elements > Layout::kMaxElements || tensors < 1 ||
      tensors > Layout::kMaxTensors || tensors > elements || !(skew >= 0) ||
      skew > kMaxSkew)
    return absl::InvalidArgumentError(absl::StrCat(
        "zipf takes 1 to ", Layout::kMaxTensors,
        " tensors, not more than elements, and a skew of 0 to ", kMaxSkew));
  return SkewedTensors(elements, tensors, skew, seed);
}

absl::Status CheckInput(const InputShape& input) {
  int64_t features = 1;
  for (int64_t dimension : {input.channels, input.height, input.width}) {
    // The product stays below 2^48.
    if (dimension < 1 || dimension > kMaxWidth ||
        features * dimension > kMaxWidth) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an input of ", input.channels, "x", input.height, "x", input.width,
          " is not within 1 to ", kMaxWidth, " values"));
    }
    features *= dimension;
  }
  if (input.classes < 2 || input.classes > kMaxWidth) {
    return absl::InvalidArgumentError(absl::StrCat(input.classes, " classes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorSpec>> ModelTensors(absl::string_view spec,
                                                     const InputShape& input) {
  PARAPET_RETURN_IF_ERROR(CheckInput(input));
  std::vector<TensorSpec> specs;
  if (spec == "softmax") {
    AddLinears(input.features(), {}, input.classes, &specs);
  } else if (spec == "cnn:small") {
    PARAPET_RETURN_IF_ERROR(AddConvolutions(input, &specs));
  } else if (absl::ConsumePrefix(&spec, "mlp:")) {
    PARAPET_ASSIGN_OR_RETURN(std::vector<int64_t> hidden,
                             ParseCounts(spec, kMaxWidth));
    AddLinears(input.features(), hidden, input.classes, &specs);
  } else if (absl::ConsumePrefix(&spec, "flat:")) {
    PARAPET_ASSIGN_OR_RETURN(std::vector<int64_t> count,
                             ParseCounts(spec, Layout::kMaxElements));
    if (count.size() != 1)
      return absl::InvalidArgumentError("flat:N takes one number");
    specs.push_back({"flat", count, {}});
  } else if (absl::ConsumePrefix(&spec, "layout:")) {
    return ReadTensorSpecs(std::string(spec));
  } else if (absl::ConsumePrefix(&spec, "zipf:")) {
    return ParseSkewed(spec);
  } else {
    return absl::InvalidArgumentError(
        "is none of softmax, mlp:H1,H2,..., cnn:small, flat:N, layout:FILE and "
        "zipf:N,TENSORS,SKEW,SEED");
  }
  return specs;
}

absl::StatusOr<DataFacts> DescribeIdx(const DataSource& source) {
  PARAPET_ASSIGN_OR_RETURN(IdxFiles files, FindIdxFiles(source));
  using Dims = std::vector<int64_t>;
  PARAPET_ASSIGN_OR_RETURN(Dims train, ReadIdxHeader(files.train_images, 3));
  PARAPET_ASSIGN_OR_RETURN(Dims train_labels,
                           ReadIdxHeader(files.train_labels, 1));
  PARAPET_ASSIGN_OR_RETURN(Dims test, ReadIdxHeader(files.test_images, 3));
  PARAPET_ASSIGN_OR_RETURN(Dims test_labels,
                           ReadIdxHeader(files.test_labels, 1));
  PARAPET_RETURN_IF_ERROR(CheckIdxPair(files.train_images, train,
                                       files.train_labels, train_labels));
  PARAPET_RETURN_IF_ERROR(
      CheckIdxPair(files.test_images, test, files.test_labels, test_labels));
  PARAPET_RETURN_IF_ERROR(CheckIdxSizes(source.dir, train, test));
  return DataFacts{{1, train[1], train[2], kIdxClasses}, train[0]};
}

}  // namespace

absl::StatusOr<Layout> ModelLayout(const std::string& spec,
                                   const InputShape& input) {
  absl::StatusOr<std::vector<TensorSpec>> specs = ModelTensors(spec, input);
  absl::StatusOr<Layout> layout = specs.ok()
                                      ? Layout::Create(*std::move(specs))
                                      : absl::StatusOr<Layout>(specs.status());
  if (layout.ok()) return layout;
  return absl::InvalidArgumentError(absl::StrCat(
      "model '", spec.substr(0, 200), "': ", layout.status().message()));
}

bool HasLayers(const std::string& spec) {
  return !absl::StartsWith(spec, "flat:") &&
         !absl::StartsWith(spec, "layout:") && !absl::StartsWith(spec, "zipf:");
}

absl::StatusOr<DataFacts> DescribeData(const std::string& spec) {
  PARAPET_ASSIGN_OR_RETURN(DataSource source, ParseDataSpec(spec));
  if (source.kind == DataSource::Kind::kIdx) return DescribeIdx(source);
  return DataFacts{{1, 1, source.features, source.classes}, source.samples};
}

}  // namespace parapet
