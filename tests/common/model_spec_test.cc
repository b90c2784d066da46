#include "common/model_spec.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/data_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/idx_files.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_idx::Gzip;
using testing_idx::Idx;
using testing_idx::Write;

const InputShape kFashion{1, 28, 28, 10};

using NamedShape = std::pair<std::string, std::vector<int64_t>>;

std::vector<NamedShape> Shapes(const std::string& spec,
                               const InputShape& input) {
  const absl::StatusOr<Layout> layout = ModelLayout(spec, input);
  EXPECT_TRUE(layout.ok()) << layout.status();
  std::vector<NamedShape> shapes;
  if (!layout.ok()) return shapes;
  for (const Tensor& tensor : layout->tensors())
    shapes.push_back({tensor.name, tensor.shape});
  return shapes;
}

std::string Complaint(const std::string& spec, const InputShape& input) {
  const absl::Status status = ModelLayout(spec, input).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(ModelLayoutTest, Softmax) {
  EXPECT_THAT(Shapes("softmax", kFashion),
              ElementsAre(NamedShape("fc1.weight", {10, 784}),
                          NamedShape("fc1.bias", {10})));
}

TEST(ModelLayoutTest, Mlp) {
  EXPECT_THAT(
      Shapes("mlp:256,128", kFashion),
      ElementsAre(
          NamedShape("fc1.weight", {256, 784}), NamedShape("fc1.bias", {256}),
          NamedShape("fc2.weight", {128, 256}), NamedShape("fc2.bias", {128}),
          NamedShape("fc3.weight", {10, 128}), NamedShape("fc3.bias", {10})));
  EXPECT_EQ(ModelLayout("mlp:256,128", kFashion)->elements(), 235'146);
}

TEST(ModelLayoutTest, SmallCnn) {
  EXPECT_THAT(Shapes("cnn:small", kFashion),
              ElementsAre(NamedShape("conv1.weight", {16, 1, 3, 3}),
                          NamedShape("conv1.bias", {16}),
                          NamedShape("conv2.weight", {32, 16, 3, 3}),
                          NamedShape("conv2.bias", {32}),
                          NamedShape("fc1.weight", {128, 1568}),
                          NamedShape("fc1.bias", {128}),
                          NamedShape("fc2.weight", {10, 128}),
                          NamedShape("fc2.bias", {10})));
  // Odd sizes lose their last row at each pool: 9x11 -> 4x5 -> 2x2.
  EXPECT_THAT(Shapes("cnn:small", {3, 9, 11, 4})[4],
              NamedShape("fc1.weight", {128, 32 * 2 * 2}));
}

TEST(ModelLayoutTest, InitialValuesAreWithinTheRootOfTheFanIn) {
  const absl::StatusOr<Layout> layout = ModelLayout("cnn:small", kFashion);
  const double bounds[] = {3, 12, std::sqrt(1568.0), std::sqrt(128.0)};
  for (int i = 0; i < 8; ++i) {
    const Initializer& init = layout->tensors()[i].init;
    EXPECT_EQ(init.kind, Initializer::Kind::kUniform);
    EXPECT_DOUBLE_EQ(init.bound, 1 / bounds[i / 2]);
  }
}

TEST(ModelLayoutTest, FlatIsOneTensorOfZeros) {
  EXPECT_THAT(Shapes("flat:12345", kFashion),
              ElementsAre(NamedShape("flat", {12345})));
  EXPECT_EQ(ModelLayout("flat:7", kFashion)->tensors()[0].init.kind,
            Initializer::Kind::kZero);
  EXPECT_THAT(Complaint("flat:2,3", kFashion), HasSubstr("one number"));
  EXPECT_THAT(Complaint("flat:0", kFashion), HasSubstr("whole number"));
}

TEST(ModelLayoutTest, OthersForLoadTestsHaveNoLayers) {
  const auto skewed = ModelLayout("zipf:1000,7,1.5,3", kFashion);
  ASSERT_TRUE(skewed.ok()) << skewed.status();
  EXPECT_EQ(skewed->elements(), 1000);
  EXPECT_EQ(skewed->tensors().size(), 7u);
  EXPECT_THAT(Complaint("zipf:1000", kFashion), HasSubstr("SEED"));
  EXPECT_THAT(Complaint("zipf:5,6,1,1", kFashion), HasSubstr("not more than"));
  EXPECT_THAT(Complaint("zipf:5,5,nan,1", kFashion), HasSubstr("skew"));
  EXPECT_THAT(Complaint("layout:/nowhere/at-all.json", kFashion),
              HasSubstr("at-all.json"));
  for (const char* spec : {"flat:3", "zipf:1000,7,1.5,3", "layout:x"})
    EXPECT_FALSE(HasLayers(spec)) << spec;
  EXPECT_TRUE(HasLayers("mlp:3"));
}

TEST(ModelLayoutTest, RefusesInWords) {
  for (const char* spec :
       {"", "mlp", "cnn", "cnn:large", "softmax:3", "resnet"}) {
    EXPECT_THAT(Complaint(spec, kFashion), HasSubstr("none of softmax"))
        << spec;
  }
  for (const char* spec :
       {"mlp:", "mlp:0", "mlp:5,", "mlp:,5", "mlp:-5", "mlp:+5", "mlp: 5",
        "mlp:5x", "mlp:99999999999999999999", "mlp:16777217"}) {
    EXPECT_THAT(Complaint(spec, kFashion),
                HasSubstr("not a whole number from 1 to"))
        << spec;
  }
  std::string deep = "mlp:1";
  for (int i = 0; i < 64; ++i) deep += ",1";
  EXPECT_THAT(Complaint(deep, kFashion), HasSubstr("more than 64"));
  EXPECT_THAT(Complaint("cnn:small", {1, 3, 28, 10}), HasSubstr("4x4"));
  EXPECT_THAT(Complaint("softmax", {1, 0, 28, 10}), HasSubstr("1x0x28"));
  EXPECT_THAT(Complaint("softmax", {1 << 24, 1 << 24, 1 << 24, 10}),
              HasSubstr("not within"));
  EXPECT_THAT(Complaint("softmax", {1, 28, 28, 1}), HasSubstr("1 classes"));
  EXPECT_THAT(Complaint("mlp:16777216,16777216", kFashion),
              HasSubstr("too many elements"));
}

// --- DescribeData ---

TEST(DescribeDataTest, FashionMnist) {
  const absl::StatusOr<DataFacts> facts = DescribeData("fashion-mnist");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->train_samples, 60000);
  EXPECT_EQ(facts->shape.channels, 1);
  EXPECT_EQ(facts->shape.height, 28);
  EXPECT_EQ(facts->shape.width, 28);
  EXPECT_EQ(facts->shape.classes, 10);
}

TEST(DescribeDataTest, Synthetic) {
  const absl::StatusOr<DataFacts> facts = DescribeData("synthetic:20,4,1000");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->train_samples, 1000);
  EXPECT_EQ(facts->shape.features(), 20);
  EXPECT_EQ(facts->shape.width, 20);
  EXPECT_EQ(facts->shape.classes, 4);
}

TEST(DescribeDataTest, RefusesInWords) {
  for (const char* spec :
       {"", "mnist", "idx:", "synthetic", "synthetic:", "synthetic:1,2",
        "synthetic:1,2,3,4", "synthetic:1,1,10", "synthetic:1,2,4",
        "synthetic:0,2,10", "synthetic:-1,2,10",
        "synthetic:536870912,2,536870912"}) {
    const absl::Status status = DescribeData(spec).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << spec << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(spec));
  }
}

// Headers only: these files end where their values would begin.
TEST(DescribeDataTest, ReadsTheHeadersOfIdxFiles) {
  const TempDir dir;
  Write(dir / "train-images-idx3-ubyte", Idx({50, 6, 7}, ""));
  Write(dir / "train-labels-idx1-ubyte", Idx({50}, ""));
  Write(dir / "t10k-images-idx3-ubyte.gz", Gzip(Idx({9, 6, 7}, "")));
  Write(dir / "t10k-labels-idx1-ubyte.gz", Gzip(Idx({9}, "")));
  const absl::StatusOr<DataFacts> facts = DescribeData("idx:" + dir.path());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->train_samples, 50);
  EXPECT_EQ(facts->shape.height, 6);
  EXPECT_EQ(facts->shape.width, 7);

  Write(dir / "train-labels-idx1-ubyte", Idx({49}, ""));
  EXPECT_THAT(std::string(DescribeData("idx:" + dir.path()).status().message()),
              HasSubstr("holds 49 labels"));
}

TEST(FindIdxFilesTest, NamesTheFileAndThePackage) {
  const TempDir dir;
  DataSource source = *ParseDataSpec("fashion-mnist");
  source.dir = dir.path();
  const absl::Status status = FindIdxFiles(source).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(dir / "train-images-idx3-ubyte"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("apt install dataset-fashion-mnist"));
  source = *ParseDataSpec("idx:" + dir.path());
  EXPECT_THAT(std::string(FindIdxFiles(source).status().message()),
              ::testing::Not(HasSubstr("apt")));
}

}  // namespace
}  // namespace parapet
