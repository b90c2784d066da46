#include "common/data_spec.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";
constexpr char kFashionMnistPackage[] = "dataset-fashion-mnist";
constexpr int64_t kMaxSyntheticCount = int64_t{1} << 29;
constexpr size_t kMaxCounts = 64;

absl::StatusOr<int64_t> ParseCount(absl::string_view text, int64_t limit) {
  int64_t value = 0;
  bool good = !text.empty() && absl::SimpleAtoi(text, &value) && value >= 1 &&
              value <= limit;
  // SimpleAtoi accepts a sign and spaces.
  for (char c : text)
    good = good && absl::ascii_isdigit(static_cast<unsigned char>(c));
  if (good) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a whole number from 1 to ", limit));
}

absl::StatusOr<DataSource> ParseSynthetic(absl::string_view text) {
  PARAPET_ASSIGN_OR_RETURN(std::vector<int64_t> counts,
                           ParseCounts(text, kMaxSyntheticCount));
  if (counts.size() != 3) {
    return absl::InvalidArgumentError(
        "needs three numbers: synthetic:FEATURES,CLASSES,SAMPLES");
  }
  DataSource source;
  source.kind = DataSource::Kind::kSynthetic;
  source.features = counts[0];
  source.classes = counts[1];
  source.samples = counts[2];
  if (source.classes < 2)
    return absl::InvalidArgumentError("needs two classes at least");
  if (source.samples < 5)
    return absl::InvalidArgumentError("needs five samples at least");
  // Centres of the classes are values too. None of the products passes 2^59.
  const int64_t rows = source.samples + source.test_samples() + source.classes;
  if (rows * source.features > kMaxSyntheticCount) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", rows * source.features, " values, the limit is ",
                     kMaxSyntheticCount));
  }
  return source;
}

absl::StatusOr<DataSource> ParseKnown(absl::string_view text) {
  DataSource source;
  if (text == "fashion-mnist") {
    source.dir = kFashionMnistDir;
    source.package = kFashionMnistPackage;
    source.mean = 0.2860;
    source.deviation = 0.3530;
    return source;
  }
  if (absl::ConsumePrefix(&text, "synthetic:")) return ParseSynthetic(text);
  if (absl::ConsumePrefix(&text, "idx:") && !text.empty()) {
    source.dir = std::string(text);
    return source;
  }
  return absl::InvalidArgumentError(
      "is none of fashion-mnist, idx:DIR and "
      "synthetic:FEATURES,CLASSES,SAMPLES");
}

absl::StatusOr<std::string> FindFile(const DataSource& source,
                                     absl::string_view name) {
  for (absl::string_view suffix : {"", ".gz"}) {
    std::string path = absl::StrCat(source.dir, "/", name, suffix);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  std::string advice;
  if (!source.package.empty()) {
    advice = absl::StrCat(": install the package ", source.package,
                          " (apt install ", source.package,
                          "), or name the folder of the files as idx:DIR");
  }
  return absl::NotFoundError(absl::StrCat("no file ", source.dir, "/", name,
                                          ", plain or .gz", advice));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseCounts(absl::string_view text,
                                                 int64_t limit) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(',', kMaxCounts));
  if (parts.size() > kMaxCounts) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxCounts, " numbers"));
  }
  std::vector<int64_t> counts;
  for (absl::string_view part : parts) {
    PARAPET_ASSIGN_OR_RETURN(int64_t count, ParseCount(part, limit));
    counts.push_back(count);
  }
  return counts;
}

absl::StatusOr<DataSource> ParseDataSpec(const std::string& spec) {
  absl::StatusOr<DataSource> source = ParseKnown(spec);
  if (source.ok()) return source;
  return absl::InvalidArgumentError(absl::StrCat(
      "data '", spec.substr(0, 200), "': ", source.status().message()));
}

absl::StatusOr<IdxFiles> FindIdxFiles(const DataSource& source) {
  IdxFiles files;
  PARAPET_ASSIGN_OR_RETURN(files.train_images,
                           FindFile(source, "train-images-idx3-ubyte"));
  PARAPET_ASSIGN_OR_RETURN(files.train_labels,
                           FindFile(source, "train-labels-idx1-ubyte"));
  PARAPET_ASSIGN_OR_RETURN(files.test_images,
                           FindFile(source, "t10k-images-idx3-ubyte"));
  PARAPET_ASSIGN_OR_RETURN(files.test_labels,
                           FindFile(source, "t10k-labels-idx1-ubyte"));
  return files;
}

absl::Status CheckIdxPair(const std::string& images_path,
                          const std::vector<int64_t>& images,
                          const std::string& labels_path,
                          const std::vector<int64_t>& labels) {
  if (images[0] == labels[0]) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(images_path, " holds ", images[0],
                                          " images, but ", labels_path,
                                          " holds ", labels[0], " labels"));
}

absl::Status CheckIdxSizes(const std::string& dir,
                           const std::vector<int64_t>& train,
                           const std::vector<int64_t>& test) {
  if (train[1] == test[1] && train[2] == test[2]) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(dir, ": training images are ", train[1], "x", train[2],
                   ", test images ", test[1], "x", test[2]));
}

}  // namespace parapet
