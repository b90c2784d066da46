#ifndef PARAPET_COMMON_DATA_SPEC_H_
#define PARAPET_COMMON_DATA_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parapet {

// Classes of an IDX data set: the format does not say, and MNIST and its kin
// have ten.
inline constexpr int64_t kIdxClasses = 10;

// A --data spec, taken apart.
struct DataSource {
  enum class Kind : uint8_t { kIdx, kSynthetic };
  Kind kind = Kind::kIdx;

  // kIdx: the folder of the four files, and the package that would install them
  // ("": none).
  std::string dir;
  std::string package;
  // Of the training images, over [0, 1]; 0 and 0: measured when they are
  // loaded.
  double mean = 0;
  double deviation = 0;

  // kSynthetic. There are samples / 5 further samples as test set.
  int64_t features = 0;
  int64_t classes = 0;
  int64_t samples = 0;
  int64_t test_samples() const { return samples / 5; }
};

// InvalidArgument in words. Synthetic data is kept in memory: at most 2^29
// values in all.
absl::StatusOr<DataSource> ParseDataSpec(const std::string& spec);

// The four files of an IDX data set, by their paths.
struct IdxFiles {
  std::string train_images, train_labels, test_images, test_labels;
};

// Finds each file, plain or .gz. NotFound names what is missing and, where
// there is one, the package to install.
absl::StatusOr<IdxFiles> FindIdxFiles(const DataSource& source);

// That a file of images (count, height, width) and one of labels (count) belong
// together.
absl::Status CheckIdxPair(const std::string& images_path,
                          const std::vector<int64_t>& images,
                          const std::string& labels_path,
                          const std::vector<int64_t>& labels);

// That training and test images have one size.
absl::Status CheckIdxSizes(const std::string& dir,
                           const std::vector<int64_t>& train,
                           const std::vector<int64_t>& test);

// "256,128" -> {256, 128}: whole numbers from 1 to `limit`, digits only, at
// most 64 of them.
absl::StatusOr<std::vector<int64_t>> ParseCounts(absl::string_view text,
                                                 int64_t limit);

}  // namespace parapet

#endif  // PARAPET_COMMON_DATA_SPEC_H_
