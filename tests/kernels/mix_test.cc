// Combinations of rows: every bit against one scalar reference, on every
// instruction set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/kernels/mean_fixture.h"

namespace parapet::kernel_testing {
namespace {

// A mixing matrix: a row of n + 2 weights for each combination.
struct Mixing {
  Mixing(int combinations, int n)
      : rows(combinations),
        columns(n + 2),
        weights(static_cast<size_t>(rows) * columns) {}
  double& at(int r, int c) { return weights[r * columns + c]; }
  double at(int r, int c) const { return weights[r * columns + c]; }
  ReduceSpec Spec(CoordinateOp op, int f) const {
    return {.op = op, .f = f, .mixed_rows = rows, .mixing = weights.data()};
  }

  int rows, columns;
  std::vector<double> weights;
};

// Means of the `kept` rows that follow each row.
Mixing Means(int n, int kept) {
  Mixing mixing(n, n);
  for (int r = 0; r < n; ++r) {
    for (int k = 0; k < kept; ++k) mixing.at(r, (r + k) % n) = 1.0 / kept;
  }
  return mixing;
}

// Weights of any kind; what is missing to 1 goes to zero.
Mixing AnyWeights(std::mt19937_64& random, int combinations, int n,
                  double share) {
  Mixing mixing(combinations, n);
  std::uniform_real_distribution<double> uniform(-0.2, 1);
  for (int r = 0; r < combinations; ++r) {
    double rest = 1;
    for (int c = 0; c <= n; ++c) {
      if (uniform(random) > share) continue;
      mixing.at(r, c) = uniform(random) / n;
      rest -= mixing.at(r, c);
    }
    mixing.at(r, n + 1) = rest;
  }
  return mixing;
}

class MixTest : public OnEveryTarget {
 protected:
  using Values = std::vector<std::vector<float>>;

  Values Random(int n, int64_t elements) {
    Values values;
    for (int r = 0; r < n; ++r)
      values.push_back(RandomFloats(random_, elements, 1));
    return values;
  }

  std::vector<float> Reduce(const ReduceSpec& spec, const Values& values,
                            const float* previous = nullptr) {
    const auto elements = static_cast<int64_t>(values[0].size());
    OwnedRows rows(elements);
    for (const auto& row : values) rows.Add(row);
    Guarded<float> out(elements, 4);
    report_ =
        device_->Reduce(spec, rows.rows(), previous, elements, out.data());
    EXPECT_TRUE(out.Intact());
    EXPECT_THAT(report_.bad_values, testing::IsEmpty());
    return out.Values();
  }

  // The combinations as rows, then the operation on them.
  std::vector<float> OfRows(const ReduceSpec& spec, const Values& mixed) {
    const ReduceSpec plain = {.op = spec.op, .f = spec.f, .scale = spec.scale};
    const auto elements = static_cast<int64_t>(mixed[0].size());
    OwnedRows rows(elements);
    for (const auto& row : mixed) rows.Add(row);
    std::vector<float> out(elements);
    device_->Reduce(plain, rows.rows(), nullptr, elements, out.data());
    return out;
  }

  std::mt19937_64 random_{7};
  ReduceReport report_;
};
INSTANTIATE_TEST_SUITE_P(Targets, MixTest, EveryTarget(), TargetNameOf);

// Combination r at element j, by fused multiply-add in row order.
float Fused(const Mixing& mixing, const std::vector<std::vector<float>>& values,
            const float* previous, int r, size_t j, float center) {
  float sum = 0;
  const int n = static_cast<int>(values.size());
  for (int c = 0; c <= n; ++c) {
    const double weight = mixing.at(r, c);
    if (weight == 0 || (c == n && previous == nullptr)) continue;
    const float value = c == n ? previous[j] : values[c][j];
    sum = std::fma(static_cast<float>(weight), value - center, sum);
  }
  return sum;
}

TEST_P(MixTest, WeightsOfAnyKind) {
  for (int n : {1, 2, 5, 10, 17, 33}) {
    for (int combinations : {2, 7, 8, 9, 16, 17, 30}) {
      const double share = combinations % 2 == 0 ? 0.1 : 0.9;
      const Mixing mixing = AnyWeights(random_, combinations, n, share);
      const Values values = Random(n, 150);
      const std::vector<float> previous = RandomFloats(random_, 150);
      Values mixed(combinations, std::vector<float>(150));
      for (int r = 0; r < combinations; ++r) {
        for (size_t j = 0; j < 150; ++j)
          mixed[r][j] = Fused(mixing, values, previous.data(), r, j, 0);
      }
      for (CoordinateOp op : {CoordinateOp::kMedian, CoordinateOp::kPhocas,
                              CoordinateOp::kSignVote}) {
        const ReduceSpec spec = mixing.Spec(op, (combinations - 1) / 2);
        EXPECT_EQ(Bits(Reduce(spec, values, previous.data())),
                  Bits(OfRows(spec, mixed)))
            << n << " " << combinations << " " << static_cast<int>(op);
      }
    }
  }
}

// Row 0 is in as many as any other, and the first.
TEST_P(MixTest, MeansAreMadeOfDifferences) {
  for (int n : {3, 10, 16, 20}) {
    for (int64_t elements : {1, 63, 64, 65, 1023, 1025, 3000}) {
      const Mixing mixing = Means(n, n - n / 4);
      const Values values = Random(n, elements);
      Values mixed(n, std::vector<float>(elements));
      for (int r = 0; r < n; ++r) {
        for (int64_t j = 0; j < elements; ++j)
          mixed[r][j] = Fused(mixing, values, nullptr, r, j, values[0][j]);
      }
      const ReduceSpec spec = mixing.Spec(CoordinateOp::kTrimmedMean, n / 4);
      std::vector<float> expected = OfRows(spec, mixed);
      for (int64_t j = 0; j < elements; ++j) expected[j] += values[0][j];
      EXPECT_EQ(Bits(Reduce(spec, values)), Bits(expected)) << n;
    }
  }
}

// Against float64, at an offset that leaves float32 no digits for a sum: the
// result is off by its own rounding, and by that of the differences.
TEST_P(MixTest, CloseVectorsFarFromZeroLoseNothing) {
  const int n = 9;
  Values values = Random(n, 500);
  for (auto& row : values) {
    for (float& value : row) value = 1000 + 1e-4f * value;
  }
  const Mixing mixing = Means(n, 7);
  const std::vector<float> out =
      Reduce(mixing.Spec(CoordinateOp::kMedian, 2), values);
  for (size_t j = 0; j < 500; ++j) {
    std::vector<double> mixed;
    double widest = 0;
    for (int r = 0; r < n; ++r) {
      double sum = 0;
      for (int c = 0; c < n; ++c)
        sum += mixing.at(r, c) * static_cast<double>(values[c][j]);
      mixed.push_back(sum);
      widest = std::max<double>(widest, std::abs(values[r][j] - values[0][j]));
    }
    std::sort(mixed.begin(), mixed.end());
    const double half_ulp = 0x1p-15;  // of what lies between 512 and 1024
    EXPECT_NEAR(out[j], mixed[n / 2], 2 * half_ulp + n * widest * 0x1p-24);
  }
}

TEST_P(MixTest, EqualRowsAreTheirOwnMean) {
  const Values values(12, RandomFloats(random_, 300, 3));
  EXPECT_EQ(Reduce(Means(12, 9).Spec(CoordinateOp::kTrimmedMean, 3), values),
            values[0]);
}

TEST_P(MixTest, ASelectionIsThoseRows) {
  const Values values = Random(11, 777);
  Mixing mixing(4, 11);
  const int rows[] = {9, 2, 10, 3};
  Values selected;
  for (int r = 0; r < 4; ++r) {
    mixing.at(r, rows[r]) = 1;
    selected.push_back(values[rows[r]]);
  }
  for (CoordinateOp op : {CoordinateOp::kMedian, CoordinateOp::kMeamed}) {
    const ReduceSpec spec = mixing.Spec(op, 1);
    EXPECT_EQ(Reduce(spec, values), OfRows(spec, selected));
  }
}

// One combination, and means of several, are sums in float64.
TEST_P(MixTest, WhatIsOneSumIsMadeInFloat64) {
  const Values values = Random(6, 210);
  const std::vector<float> previous = RandomFloats(random_, 210);
  for (int combinations : {1, 5}) {
    const Mixing mixing = AnyWeights(random_, combinations, 6, 0.7);
    const std::vector<float> out =
        Reduce(mixing.Spec(CoordinateOp::kMean, 0), values, previous.data());
    for (size_t j = 0; j < 210; ++j) {
      double sum = 0;
      for (int c = 0; c <= 6; ++c) {
        double weight = 0;
        for (int r = 0; r < combinations; ++r) weight += mixing.at(r, c);
        const double value = c == 6 ? previous[j] : values[c][j];
        if (weight != 0) sum += weight * value;
      }
      ASSERT_EQ(out[j], static_cast<float>(sum / combinations));
    }
  }
}

TEST_P(MixTest, WhatOverflowsOnTheWayIsMadeInFloat64) {
  Values values(4, std::vector<float>(70, 3e38f));
  values[2][5] = -3e38f;
  const std::vector<float> out =
      Reduce(Means(4, 3).Spec(CoordinateOp::kMedian, 1), values);
  EXPECT_EQ(out[4], 3e38f);
  EXPECT_EQ(out[5], 1e38f);
  EXPECT_EQ(report_.bad_coordinates, 0);
}

TEST_P(MixTest, AnOverflowDoesNotChangeItsNeighbours) {
  Values values = Random(5, 130);
  const Mixing mixing = Means(5, 4);
  std::vector<float> expected =
      Reduce(mixing.Spec(CoordinateOp::kTrimmedMean, 1), values);
  for (size_t r = 0; r < 5; ++r) values[r][70] = r % 2 == 0 ? 3e38f : -3e38f;
  std::vector<float> out =
      Reduce(mixing.Spec(CoordinateOp::kTrimmedMean, 1), values);
  EXPECT_TRUE(std::isfinite(out[70]));
  out[70] = expected[70];
  EXPECT_EQ(Bits(out), Bits(expected));
}

// Each row is in one combination only, as buckets are: none of them may take
// the others' digits.
TEST_P(MixTest, ARowThatIsFarHurtsItsOwnCombinationOnly) {
  Values values(18, std::vector<float>(70, 0.01f));
  std::fill(values[0].begin(), values[0].end(), 1e12f);
  Mixing mixing(3, 18);
  for (int c = 0; c < 18; ++c) mixing.at(c / 6, c) = 1.0 / 6;
  const std::vector<float> out =
      Reduce(mixing.Spec(CoordinateOp::kMedian, 1), values);
  for (float value : out) EXPECT_NEAR(value, 0.01f, 1e-7f);
}

TEST_P(MixTest, TheCentreMayCarryASumPastTheLargestFloat) {
  const float most = std::numeric_limits<float>::max();
  Values values(7, std::vector<float>(70, most));
  std::fill(values[0].begin(), values[0].end(), 0x1.2686a2p+127f);
  const std::vector<float> out =
      Reduce(Means(7, 6).Spec(CoordinateOp::kMedian, 3), values);
  EXPECT_EQ(report_.bad_coordinates, 0);
  for (float value : out) EXPECT_TRUE(std::isfinite(value));
  values[3][5] = kInfinity;
  EXPECT_EQ(Reduce(Means(7, 6).Spec(CoordinateOp::kMedian, 3), values)[6],
            out[6]);
}

TEST_P(MixTest, ANanIsNotSortedAway) {
  Values values = Random(5, 70);
  values[2][9] = kNan;
  Mixing selection(3, 5);
  for (int r = 0; r < 3; ++r) selection.at(r, r + 1) = 1;
  for (const Mixing& mixing : {Means(5, 4), selection}) {
    const std::vector<float> out =
        Reduce(mixing.Spec(CoordinateOp::kMedian, 1), values);
    EXPECT_EQ(out[9], 0);
    EXPECT_EQ(report_.bad_coordinates, 1);
    EXPECT_EQ(report_.first_bad, 9);
  }
}

// Twice the largest numbers: as a vector does it, and as its end.
TEST_P(MixTest, ASumPastTheLargestFloatIsBad) {
  for (int64_t elements : {1, 32, 33}) {
    const Values values(1, std::vector<float>(elements, 3e38f));
    Mixing twice(1, 1);
    twice.at(0, 0) = 2;
    EXPECT_EQ(Reduce(twice.Spec(CoordinateOp::kMean, 0), values),
              std::vector<float>(elements));
    EXPECT_EQ(report_.bad_coordinates, elements);
  }
}

// As float16 rows of an odd scale are.
TEST_P(MixTest, AScaleThatIsNoPowerOfTwo) {
  OwnedRows rows(100);
  for (int r = 0; r < 3; ++r)
    rows.Add(RandomFloats(random_, 100, 0), 1, DType::kFloat16, 7);
  Mixing mixing(1, 3);
  for (int c = 0; c < 3; ++c) mixing.at(0, c) = 0.5 - 0.1 * c;
  std::vector<float> out(100);
  device_->Reduce(mixing.Spec(CoordinateOp::kMean, 0), rows.rows(), nullptr,
                  100, out.data());
  for (int64_t j = 0; j < 100; ++j) {
    double sum = 0;
    for (int c = 0; c < 3; ++c) {
      sum += mixing.at(0, c) *
             (StoredValue(rows.rows()[c].data, DType::kFloat16, j) / 7);
    }
    ASSERT_EQ(out[j], static_cast<float>(sum));
  }
}

TEST_P(MixTest, AResultThatIsNotFiniteIsBad) {
  Values values = Random(4, 70);
  values[1][66] = kInfinity;
  const std::vector<float> out =
      Reduce(Means(4, 4).Spec(CoordinateOp::kMedian, 1), values);
  EXPECT_EQ(out[66], 0);
  EXPECT_EQ(report_.bad_coordinates, 1);
  EXPECT_EQ(report_.first_bad, 66);
  Mixing one(1, 4);
  one.at(0, 1) = 1;
  EXPECT_EQ(Reduce(one.Spec(CoordinateOp::kMean, 0), values)[66], 0);
  EXPECT_EQ(report_.bad_coordinates, 1);
}

TEST_P(MixTest, RowsWithoutWeightAreNotRead) {
  const std::vector<float> value = {1, 2, 3};
  const std::vector<Row> rows = {{.data = nullptr}, {.data = value.data()}};
  Mixing mixing(2, 2);
  mixing.at(0, 1) = mixing.at(1, 1) = 0.5;
  std::vector<float> out(3);
  device_->Reduce(mixing.Spec(CoordinateOp::kMedian, 0), rows, nullptr, 3,
                  out.data());
  EXPECT_EQ(out, (std::vector<float>{0.5, 1, 1.5}));
}

TEST_P(MixTest, NothingButZeroGivesZero) {
  const Mixing mixing(1, 2);
  EXPECT_EQ(Reduce(mixing.Spec(CoordinateOp::kMean, 0), Random(2, 20)),
            std::vector<float>(20));
  EXPECT_EQ(report_.bad_coordinates, 0);
}

TEST_P(MixTest, ThePreviousAggregateIsReadThenReplaced) {
  const Values values = Random(3, 1100);
  const std::vector<float> before = RandomFloats(random_, 1100);
  Mixing mixing(1, 3);
  mixing.at(0, 1) = 0.25;
  mixing.at(0, 3) = 0.75;
  const ReduceSpec spec = mixing.Spec(CoordinateOp::kMean, 0);
  const std::vector<float> expected = Reduce(spec, values, before.data());
  OwnedRows rows(1100);
  for (const auto& row : values) rows.Add(row);
  std::vector<float> previous = before, weights(1100), moment(1100);
  device_->ReduceStep(spec, rows.rows(), previous.data(), 1100,
                      {.kind = OptimizerKind::kSgd}, {.lr = 1},
                      {.in = weights.data(), .out = weights.data()});
  EXPECT_EQ(Bits(previous), Bits(expected));
  for (size_t j = 0; j < 1100; ++j) ASSERT_EQ(weights[j], -expected[j]);
}

}  // namespace
}  // namespace parapet::kernel_testing
