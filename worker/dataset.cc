#include "worker/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/data_spec.h"
#include "common/idx.h"
#include "common/rng.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

// --- Images of bytes ---

// The normalised value of every byte.
using ByteTable = std::array<float, 256>;

class ImageDataset : public Dataset {
 public:
  ImageDataset(const InputShape& shape, std::vector<uint8_t> images,
               std::vector<uint8_t> labels, const ByteTable& table)
      : shape_(shape),
        images_(std::move(images)),
        labels_(std::move(labels)),
        table_(table) {}

  int64_t samples() const override {
    return static_cast<int64_t>(labels_.size());
  }
  const InputShape& shape() const override { return shape_; }

  void Gather(absl::Span<const uint32_t> indices, float* inputs,
              int32_t* labels) const override {
    const int64_t features = shape_.features();
    for (uint32_t index : indices) {
      const uint8_t* image = images_.data() + index * features;
      inputs = std::transform(image, image + features, inputs,
                              [&](uint8_t b) { return table_[b]; });
      *labels++ = labels_[index];
    }
  }

 private:
  const InputShape shape_;
  const std::vector<uint8_t> images_, labels_;
  const ByteTable table_;
};

struct Moments {
  double mean = 0, deviation = 1;
};

// Of values over [0, 1]. Exact sums of whole numbers, so that the order does
// not matter.
Moments Measure(const std::vector<uint8_t>& values) {
  uint64_t sum = 0, squares = 0;  // below 2^31 * 2^16
  for (uint64_t value : values) {
    sum += value;
    squares += value * value;
  }
  const double count = static_cast<double>(values.size());
  const double mean = static_cast<double>(sum) / count;
  const double variance = static_cast<double>(squares) / count - mean * mean;
  // Images of one colour have no deviation to divide by.
  return {mean / 255, variance > 0 ? std::sqrt(variance) / 255 : 1};
}

ByteTable MakeTable(const Moments& moments) {
  ByteTable table;
  for (int b = 0; b < 256; ++b) {
    table[b] =
        static_cast<float>((b / 255.0 - moments.mean) / moments.deviation);
  }
  return table;
}

struct IdxSplit {
  IdxArray images, labels;
};

absl::Status CheckLabels(const std::string& path,
                         const std::vector<uint8_t>& labels) {
  const auto bad =
      std::find_if(labels.begin(), labels.end(),
                   [](uint8_t label) { return label >= kIdxClasses; });
  if (bad == labels.end()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": label ", *bad, " of sample ", bad - labels.begin(),
                   " is out of range, there are ", kIdxClasses, " classes"));
}

absl::StatusOr<IdxSplit> LoadSplit(const std::string& images_path,
                                   const std::string& labels_path) {
  IdxSplit split;
  PARAPET_ASSIGN_OR_RETURN(split.labels, ReadIdx(labels_path, 1));
  PARAPET_RETURN_IF_ERROR(CheckLabels(labels_path, split.labels.values));
  PARAPET_ASSIGN_OR_RETURN(split.images, ReadIdx(images_path, 3));
  PARAPET_RETURN_IF_ERROR(CheckIdxPair(images_path, split.images.dims,
                                       labels_path, split.labels.dims));
  return split;
}

std::unique_ptr<Dataset> MakeImages(IdxSplit split, const ByteTable& table) {
  const std::vector<int64_t>& dims = split.images.dims;
  const InputShape shape{1, dims[1], dims[2], kIdxClasses};
  return std::make_unique<ImageDataset>(shape, std::move(split.images.values),
                                        std::move(split.labels.values), table);
}

absl::StatusOr<DataSplits> LoadIdx(const DataSource& source) {
  PARAPET_ASSIGN_OR_RETURN(IdxFiles files, FindIdxFiles(source));
  PARAPET_ASSIGN_OR_RETURN(IdxSplit train,
                           LoadSplit(files.train_images, files.train_labels));
  PARAPET_ASSIGN_OR_RETURN(IdxSplit test,
                           LoadSplit(files.test_images, files.test_labels));
  PARAPET_RETURN_IF_ERROR(
      CheckIdxSizes(source.dir, train.images.dims, test.images.dims));
  const Moments moments = source.deviation > 0
                              ? Moments{source.mean, source.deviation}
                              : Measure(train.images.values);
  const ByteTable table = MakeTable(moments);
  DataSplits splits;
  splits.train = MakeImages(std::move(train), table);
  splits.test = MakeImages(std::move(test), table);
  return splits;
}

// --- A mixture of Gaussians ---

constexpr uint64_t kCentreStream = uint64_t{1} << 62,
                   kSampleStream = uint64_t{1} << 63;

class VectorDataset : public Dataset {
 public:
  VectorDataset(const InputShape& shape, std::vector<float> inputs,
                std::vector<int32_t> labels)
      : shape_(shape), inputs_(std::move(inputs)), labels_(std::move(labels)) {}

  int64_t samples() const override {
    return static_cast<int64_t>(labels_.size());
  }
  const InputShape& shape() const override { return shape_; }

  void Gather(absl::Span<const uint32_t> indices, float* inputs,
              int32_t* labels) const override {
    const int64_t features = shape_.features();
    for (uint32_t index : indices) {
      inputs = std::copy_n(inputs_.data() + index * features, features, inputs);
      *labels++ = labels_[index];
    }
  }

 private:
  const InputShape shape_;
  const std::vector<float> inputs_;
  const std::vector<int32_t> labels_;
};

// Noise has deviation 1 in each feature, centres have `spread`: two of them are
// about eight deviations of the noise apart, so that a linear model learns to
// tell most classes from each other.
double SpreadOf(int64_t features) {
  return std::max(0.25, 8 / std::sqrt(2.0 * static_cast<double>(features)));
}

std::vector<double> MakeCentres(const DataSource& source, uint64_t seed) {
  Random random(seed, kCentreStream);
  std::vector<double> centres(source.classes * source.features);
  for (double& value : centres)
    value = SpreadOf(source.features) * random.Normal();
  return centres;
}

// Samples [first, first + count). Each is a pure function of the seed and its
// number.
std::unique_ptr<Dataset> MakeSynthetic(const DataSource& source,
                                       const std::vector<double>& centres,
                                       uint64_t seed, int64_t first,
                                       int64_t count) {
  const double scale =
      1 / std::hypot(1, SpreadOf(source.features));  // to deviation 1
  std::vector<float> inputs(count * source.features);
  std::vector<int32_t> labels(count);
  float* out = inputs.data();
  for (int64_t s = 0; s < count; ++s) {
    Random random(seed, kSampleStream + static_cast<uint64_t>(first + s));
    labels[s] = static_cast<int32_t>(random.Below(source.classes));
    const double* centre = centres.data() + labels[s] * source.features;
    for (int64_t f = 0; f < source.features; ++f) {
      *out++ = static_cast<float>(scale * (centre[f] + random.Normal()));
    }
  }
  const InputShape shape{1, 1, source.features, source.classes};
  return std::make_unique<VectorDataset>(shape, std::move(inputs),
                                         std::move(labels));
}

DataSplits LoadSynthetic(const DataSource& source, uint64_t seed) {
  const std::vector<double> centres = MakeCentres(source, seed);
  DataSplits splits;
  splits.train = MakeSynthetic(source, centres, seed, 0, source.samples);
  splits.test = MakeSynthetic(source, centres, seed, source.samples,
                              source.test_samples());
  return splits;
}

}  // namespace

absl::StatusOr<DataSplits> LoadData(const std::string& spec, uint64_t seed) {
  PARAPET_ASSIGN_OR_RETURN(DataSource source, ParseDataSpec(spec));
  if (source.kind == DataSource::Kind::kIdx) return LoadIdx(source);
  return LoadSynthetic(source, seed);
}

}  // namespace parapet
