#include "common/tensor_specs.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "common/disk.h"
#include "common/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/temp_dir.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

auto Named(const std::string& name, const std::vector<int64_t>& shape) {
  return ::testing::AllOf(Field(&TensorSpec::name, name),
                          Field(&TensorSpec::shape, shape));
}

class ReadTensorSpecsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) const {
    const std::string path = dir_ / "tensor_specs.json";
    std::ofstream(path) << text;
    return path;
  }
  std::string Complaint(const std::string& text) const {
    const std::string path = Write(text);
    const absl::Status status = ReadTensorSpecs(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    return std::string(status.message());
  }

  const TempDir dir_;
};

TEST_F(ReadTensorSpecsTest, ReadsJsonInItsOrder) {
  const auto specs = ReadTensorSpecs(Write(
      R"([{"name": "b", "shape": [2, 3]}, {"name": "a", "shape": [], "x": 1}])"));
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_THAT(*specs, ElementsAre(Named("b", {2, 3}), Named("a", {})));
  EXPECT_EQ((*specs)[0].init.kind, Initializer::Kind::kZero);
  EXPECT_THAT(*ReadTensorSpecs(Write("[]")), IsEmpty());
}

TEST_F(ReadTensorSpecsTest, ReadsSafetensorsInTheOrderOfTheirData) {
  const auto disk = MakePosixDisk();
  const std::string path = dir_ / "specs.safetensors";
  auto writer = SafetensorsWriter::Create(
      *disk, path, {{"z", "F16", {3}}, {"a", "F32", {1, 2}}}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Append(std::vector<std::byte>(6 + 8)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_THAT(*ReadTensorSpecs(path),
              ElementsAre(Named("z", {3}), Named("a", {1, 2})));
}

TEST_F(ReadTensorSpecsTest, RefusesInWordsThatNameTheFile) {
  EXPECT_THAT(Complaint("{}"), HasSubstr("no list"));
  EXPECT_THAT(Complaint("[1]"), HasSubstr("object"));
  EXPECT_THAT(Complaint(R"([{"shape": [1]}])"), HasSubstr("name"));
  EXPECT_THAT(Complaint(R"([{"name": "a"}])"), HasSubstr("shape"));
  EXPECT_THAT(Complaint(R"([{"name": "a", "shape": [-1]}])"),
              HasSubstr("shape"));
  Complaint("[");
  EXPECT_FALSE(ReadTensorSpecs("/nowhere/x.json").ok());
}

int64_t Largest(const std::vector<TensorSpec>& specs) {
  int64_t largest = 0;
  for (const TensorSpec& spec : specs)
    largest = std::max(largest, spec.shape[0]);
  return largest;
}

TEST(SkewedTensorsTest, AddUpAndAreAsSkewedAsItSays) {
  for (const double skew : {0.0, 1.0, 2.0, 10.0}) {
    for (const int64_t elements : {100, 101, 123457, 1 << 20}) {
      const auto specs = SkewedTensors(elements, 100, skew, 7);
      ASSERT_EQ(specs.size(), 100u);
      int64_t sum = 0;
      for (const TensorSpec& spec : specs) {
        EXPECT_GE(spec.shape[0], 1);
        sum += spec.shape[0];
      }
      EXPECT_EQ(sum, elements);
    }
  }
  // 1 / (1 + 1/2 + ... + 1/100) = 0.19278.
  EXPECT_NEAR(static_cast<double>(Largest(SkewedTensors(1 << 20, 100, 1, 7))),
              0.19278 * (1 << 20), 0.001 * (1 << 20));
  EXPECT_LE(Largest(SkewedTensors(1 << 20, 100, 0, 7)), (1 << 20) / 100 + 1);
}

TEST(SkewedTensorsTest, TheSeedMakesTheOrder) {
  const auto sizes = [](uint64_t seed) {
    std::vector<int64_t> all;
    for (const TensorSpec& spec : SkewedTensors(10000, 20, 1, seed))
      all.push_back(spec.shape[0]);
    return all;
  };
  EXPECT_EQ(sizes(1), sizes(1));
  EXPECT_NE(sizes(1), sizes(2));
  EXPECT_FALSE(std::is_sorted(sizes(1).rbegin(), sizes(1).rend()));
}

}  // namespace
}  // namespace parapet
