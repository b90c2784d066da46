#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/mean_fixture.h"

namespace parapet::kernel_testing {
namespace {

class MeanTest : public OnEveryTarget {
 protected:
  // Reduces, and compares every bit and every count with the reference.
  std::vector<float> CheckReduce(const std::vector<Row>& rows,
                                 int64_t elements) {
    Guarded<float> mean(elements, 4);
    const ReduceReport report =
        device_->Reduce(ReduceSpec(), rows, nullptr, elements, mean.data());
    const ReferenceReduction expected = ReferenceReduce(rows, elements);
    EXPECT_TRUE(mean.Intact());
    EXPECT_EQ(Bits(mean.Values()), Bits(expected.mean));
    EXPECT_EQ(report.bad_coordinates, expected.bad_coordinates);
    EXPECT_EQ(report.first_bad, expected.first_bad);
    const bool any =
        std::any_of(expected.bad_values.begin(), expected.bad_values.end(),
                    [](int64_t count) { return count != 0; });
    EXPECT_EQ(report.bad_values,
              any ? expected.bad_values : std::vector<int64_t>());
    return mean.Values();
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, MeanTest, EveryTarget(), TargetNameOf);

TEST_P(MeanTest, EverySizeAndTypeHasTheBitsOfTheReference) {
  std::mt19937_64 random(1);
  for (DType type : kAllTypes) {
    for (int64_t size : OddSizes()) {
      CheckReduce(RandomRows(random, 3, size, {type}).rows(), size);
      ASSERT_FALSE(HasFailure()) << NameOf(type) << " " << size;
    }
  }
}

TEST_P(MeanTest, EveryNumberOfRows) {
  std::mt19937_64 random(2);
  for (int64_t count : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 100, 1025}) {
    CheckReduce(RandomRows(random, count, 37, {DType::kFloat32}).rows(), 37);
    ASSERT_FALSE(HasFailure()) << count;
  }
}

TEST_P(MeanTest, TypesMayDifferFromRowToRow) {
  std::mt19937_64 random(3);
  const std::vector<DType> types = {DType::kFloat16, DType::kFloat32,
                                    DType::kBFloat16};
  CheckReduce(RandomRows(random, 11, 1500, types).rows(), 1500);
}

// Against the exact mean. Each product, addition and the division is off by at
// most 2^-53 of the sum of magnitudes: (2 n + 1) 2^-53 in all, then half a unit
// of float32.
TEST_P(MeanTest, IsCloseToTheExactMean) {
  std::mt19937_64 random(4);
  const int64_t elements = 500, count = 20;
  const OwnedRows rows = RandomRows(random, count, elements, {DType::kFloat32});
  const std::vector<float> mean = CheckReduce(rows.rows(), elements);
  for (int64_t j = 0; j < elements; ++j) {
    long double sum = 0, magnitude = 0, total = 0;
    for (const Row& row : rows.rows()) {
      const long double value = StoredValue(row.data, row.dtype, j);
      sum += row.weight * value;
      magnitude += row.weight * std::abs(value);
      total += row.weight;
    }
    const long double limit = std::abs(sum / total) * 0x1p-24L +
                              magnitude / total * (2 * count + 1) * 0x1p-53L +
                              0x1p-149L;
    EXPECT_NEAR(mean[static_cast<size_t>(j)], static_cast<double>(sum / total),
                static_cast<double>(limit));
  }
}

TEST_P(MeanTest, OneRowIsItsOwnMeanWhateverItsWeight) {
  std::mt19937_64 random(5);
  std::vector<float> values = RandomFloats(random, 1000, 20);
  values[3] = 0.0f;
  values[4] = 0x1p-149f;
  values[5] = std::numeric_limits<float>::max();
  for (double weight : {1.0, 3.0, 7.0, 96.0, 1e6 + 1, 0.1}) {
    OwnedRows rows(1000);
    rows.Add(std::vector<float>(1000, kNan), 0);
    rows.Add(values, weight);
    EXPECT_EQ(Bits(CheckReduce(rows.rows(), 1000)), Bits(values)) << weight;
  }
}

TEST_P(MeanTest, TheSumMayPassTheLargestFloat) {
  OwnedRows rows(5);
  for (int i = 0; i < 4; ++i) rows.Add(std::vector<float>(5, 3e38f));
  EXPECT_EQ(CheckReduce(rows.rows(), 5), std::vector<float>(5, 3e38f));
}

TEST_P(MeanTest, DuplicatesOfOneBufferCountEachTime) {
  std::mt19937_64 random(6);
  OwnedRows rows(100);
  rows.Add(RandomFloats(random, 100), 2);
  for (int i = 0; i < 5; ++i) rows.AddRaw(rows.rows()[0]);
  CheckReduce(rows.rows(), 100);
}

TEST_P(MeanTest, NoRowsOrNoWeightsGiveZerosThatAreAllBad) {
  OwnedRows rows(600);
  EXPECT_EQ(CheckReduce(rows.rows(), 600), std::vector<float>(600, 0));
  rows.AddRaw({.data = nullptr, .weight = 0});
  EXPECT_EQ(CheckReduce(rows.rows(), 600), std::vector<float>(600, 0));
  const ReduceReport report =
      device_->Reduce(ReduceSpec(), rows.rows(), nullptr, 0, nullptr);
  EXPECT_EQ(report.bad_coordinates, 0);
  EXPECT_EQ(report.first_bad, -1);
}

TEST_P(MeanTest, ARowOfWeightZeroIsNotRead) {
  OwnedRows rows(70);
  rows.AddRaw({.data = nullptr, .weight = 0});
  rows.Add(std::vector<float>(70, 2));
  rows.AddRaw({.data = nullptr, .dtype = DType::kFloat16, .weight = 0});
  EXPECT_EQ(CheckReduce(rows.rows(), 70), std::vector<float>(70, 2));
}

// Every tail length, every place, every kind of bad value, every type.
TEST_P(MeanTest, LeavesOutWhatIsNotFiniteAtItsCoordinateOnly) {
  std::mt19937_64 random(7);
  for (DType type : kAllTypes) {
    for (int64_t size : OddSizes()) {
      OwnedRows rows(size);
      for (int i = 0; i < 6; ++i) {
        std::vector<float> values = RandomFloats(random, size, 1);
        for (float& value : values) {
          if (random() % 8 == 0)
            value = std::vector{kNan, kInfinity, -kInfinity}[random() % 3];
        }
        rows.Add(values, static_cast<double>(random() % 4), type);
      }
      CheckReduce(rows.rows(), size);
      ASSERT_FALSE(HasFailure()) << NameOf(type) << " " << size;
    }
  }
}

TEST_P(MeanTest, FiniteNeighboursKeepTheirBits) {
  std::mt19937_64 random(8);
  const int64_t size = 1100;
  std::vector<std::vector<float>> values(5);
  OwnedRows clean(size), dirty(size);
  for (auto& row : values) {
    row = RandomFloats(random, size);
    row[0] = row[3] = -0.0f;  // a sum that begins with 0 would lose the sign
    clean.Add(row, 3);
  }
  values[2][700] = kNan;
  values[4][1] = -kInfinity;
  for (const auto& row : values) dirty.Add(row, 3);
  const std::vector<float> expected = CheckReduce(clean.rows(), size);
  const std::vector<float> mean = CheckReduce(dirty.rows(), size);
  for (size_t j = 0; j < mean.size(); ++j) {
    if (j == 700 || j == 1) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(mean[j]),
              std::bit_cast<uint32_t>(expected[j]))
        << j;
  }
}

TEST_P(MeanTest, CountsBadCoordinatesWhereNothingIsLeft) {
  OwnedRows rows(520);
  std::vector<float> values(520, 1);
  values[515] = kNan;
  values[518] = kInfinity;
  rows.Add(values);
  rows.Add(values, 5);
  const std::vector<float> mean = CheckReduce(rows.rows(), 520);
  EXPECT_EQ(mean[515], 0);
  EXPECT_EQ(mean[518], 0);
  EXPECT_EQ(mean[519], 1);
}

TEST_P(MeanTest, InfinitiesOfBothSignsDoNotHideEachOther) {
  OwnedRows rows(3);
  rows.Add({kInfinity, 1, 2});
  rows.Add({-kInfinity, 3, kNan});
  rows.Add({7, 5, 4});
  EXPECT_EQ(CheckReduce(rows.rows(), 3), (std::vector<float>{7, 3, 3}));
}

TEST_P(MeanTest, DividesByTheScaleOfTheWire) {
  std::mt19937_64 random(9);
  for (double scale : {1.0, 1024.0, 0x1p-10, 1000.0, 0.3}) {
    OwnedRows rows(600);
    for (int i = 0; i < 5; ++i)
      rows.Add(RandomFloats(random, 600, 1), i + 1, DType::kFloat16, scale);
    CheckReduce(rows.rows(), 600);
    ASSERT_FALSE(HasFailure()) << scale;
  }
}

}  // namespace
}  // namespace parapet::kernel_testing
