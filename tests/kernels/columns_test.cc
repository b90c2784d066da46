// Coordinate operations other than the mean: every bit and every count against
// one scalar reference, on every instruction set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/mean_fixture.h"

namespace parapet::kernel_testing {
namespace {

constexpr CoordinateOp kOps[] = {
    CoordinateOp::kMedian, CoordinateOp::kTrimmedMean, CoordinateOp::kMeamed,
    CoordinateOp::kPhocas, CoordinateOp::kSignVote};

double SumOf(const std::vector<double>& sorted, size_t begin, size_t end) {
  double sum = 0;
  for (size_t r = begin; r < end; ++r) sum += sorted[r];
  return sum;
}

double MedianOf(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return (sorted[(n - 1) / 2] + sorted[n / 2]) * 0.5;
}

double TrimmedOf(const std::vector<double>& sorted, size_t f) {
  return SumOf(sorted, f, sorted.size() - f) /
         static_cast<double>(sorted.size() - 2 * f);
}

// Takes away f times whichever end is farther from the center, the larger on
// ties.
double NearestOf(const std::vector<double>& sorted, size_t f, double center) {
  size_t begin = 0, end = sorted.size();
  for (size_t k = 0; k < f; ++k) {
    if (2 * center > sorted[begin] + sorted[end - 1]) {
      ++begin;
    } else {
      --end;
    }
  }
  return SumOf(sorted, begin, end) / static_cast<double>(end - begin);
}

// One column of finite values.
float ReduceColumn(const ReduceSpec& spec, int f, std::vector<double> values) {
  const auto liars = static_cast<size_t>(f);
  std::sort(values.begin(), values.end());
  double result = 0;
  if (spec.op == CoordinateOp::kMedian) {
    result = MedianOf(values);
  } else if (spec.op == CoordinateOp::kTrimmedMean) {
    result = TrimmedOf(values, liars);
  } else if (spec.op == CoordinateOp::kMeamed) {
    result = NearestOf(values, liars, MedianOf(values));
  } else if (spec.op == CoordinateOp::kPhocas) {
    result = NearestOf(values, liars, TrimmedOf(values, liars));
  } else {
    int votes = 0;
    for (double value : values) votes += (value > 0) - (value < 0);
    result = spec.scale * ((votes > 0) - (votes < 0));
  }
  return static_cast<float>(result + 0.0);
}

class ColumnsTest : public OnEveryTarget {
 protected:
  void Check(const ReduceSpec& spec, const std::vector<Row>& rows,
             int64_t elements) {
    Guarded<float> out(elements, 4);
    const ReduceReport report =
        device_->Reduce(spec, rows, nullptr, elements, out.data());
    EXPECT_TRUE(out.Intact());
    std::vector<float> expected;
    std::vector<int64_t> bad(rows.size());
    int64_t bad_coordinates = 0;
    const int n = static_cast<int>(rows.size());
    for (int64_t j = 0; j < elements; ++j) {
      std::vector<double> kept;
      for (size_t r = 0; r < rows.size(); ++r) {
        const auto value = static_cast<float>(
            StoredValue(rows[r].data, rows[r].dtype, j) / rows[r].scale);
        if (std::isfinite(value)) {
          kept.push_back(value);
        } else {
          ++bad[r];
        }
      }
      const int left = static_cast<int>(kept.size());
      const int f = std::max(0, spec.f - (n - left));
      const bool few = left == 0 || left < n - spec.f;
      bad_coordinates += few ? 1 : 0;
      expected.push_back(few ? 0 : ReduceColumn(spec, f, kept));
    }
    EXPECT_EQ(Bits(out.Values()), Bits(expected));
    EXPECT_EQ(report.bad_coordinates, bad_coordinates);
    const bool any = std::count(bad.begin(), bad.end(), 0) != n;
    EXPECT_EQ(report.bad_values, any ? bad : std::vector<int64_t>());
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, ColumnsTest, EveryTarget(), TargetNameOf);

TEST_P(ColumnsTest, EveryNumberOfRows) {
  std::mt19937_64 random(1);
  std::vector<int64_t> counts = {63, 64, 65, 100, 192, 193, 256, 257, 300};
  for (int64_t count = 1; count <= 40; ++count) counts.push_back(count);
  for (int64_t count : counts) {
    const OwnedRows rows = RandomRows(random, count, 67, {DType::kFloat32});
    for (CoordinateOp op : kOps) {
      const int most = static_cast<int>(count - 1) / 2;
      for (int f : {0, most / 2, most}) {
        Check({.op = op, .f = f, .scale = 0.25}, rows.rows(), 67);
        ASSERT_FALSE(HasFailure()) << count << " " << f << " " << int(op);
      }
    }
  }
}

// A selection may leave fewer rows in the middle than go.
TEST_P(ColumnsTest, MoreMayGoThanStay) {
  std::mt19937_64 random(2);
  const OwnedRows rows = RandomRows(random, 7, 130, {DType::kFloat32});
  for (int f : {4, 5, 6})
    Check({.op = CoordinateOp::kMeamed, .f = f}, rows.rows(), 130);
}

TEST_P(ColumnsTest, AThousandRows) {
  std::mt19937_64 random(3);
  const OwnedRows rows = RandomRows(random, 1030, 33, {DType::kFloat32});
  for (CoordinateOp op : kOps) Check({.op = op, .f = 300}, rows.rows(), 33);
}

TEST_P(ColumnsTest, EverySizeAndType) {
  std::mt19937_64 random(4);
  for (DType type : kAllTypes) {
    for (int64_t size : OddSizes()) {
      const OwnedRows rows = RandomRows(random, 5, size, {type});
      Check({.op = CoordinateOp::kTrimmedMean, .f = 1}, rows.rows(), size);
      Check({.op = CoordinateOp::kMedian, .f = 1}, rows.rows(), size);
      ASSERT_FALSE(HasFailure()) << NameOf(type) << " " << size;
    }
  }
}

// Few values, thus many equal ones, and zeros of both signs.
TEST_P(ColumnsTest, Ties) {
  std::mt19937_64 random(5);
  for (int count : {5, 16, 31, 70, 300}) {
    OwnedRows rows(200);
    for (int r = 0; r < count; ++r) {
      std::vector<float> values(200);
      for (float& value : values) {
        value = static_cast<float>(static_cast<int>(random() % 5)) - 2;
        if (value == 0 && random() % 2 == 0) value = -0.0f;
      }
      rows.Add(values);
    }
    for (CoordinateOp op : kOps)
      Check({.op = op, .f = (count - 1) / 3}, rows.rows(), 200);
    ASSERT_FALSE(HasFailure()) << count;
  }
}

TEST_P(ColumnsTest, HugeAndTinyValues) {
  for (int count : {4, 9, 40, 260}) {
    OwnedRows rows(4);
    for (int r = 0; r < count; ++r) {
      const float sign = r % 2 == 0 ? 1.0f : -1.0f;
      rows.Add({3e38f, -3e38f, sign * 3e38f, sign * 1e-45f});
    }
    for (CoordinateOp op : kOps) Check({.op = op, .f = 1}, rows.rows(), 4);
    ASSERT_FALSE(HasFailure()) << count;
  }
}

// Each coordinate leaves out what is not finite, and its neighbours keep their
// bits.
TEST_P(ColumnsTest, WhatIsNotFiniteIsLeftOutWhereItIs) {
  std::mt19937_64 random(6);
  for (int count : {3, 10, 16, 40, 258}) {
    OwnedRows rows(1500);
    for (int r = 0; r < count; ++r) {
      std::vector<float> values = RandomFloats(random, 1500);
      for (float& value : values) {
        const auto dice = random() % 40;
        if (dice == 0) value = kNan;
        if (dice == 1) value = r % 2 == 0 ? kInfinity : -kInfinity;
      }
      if (r == 1) std::fill(values.begin(), values.end(), kNan);
      rows.Add(values);
    }
    for (CoordinateOp op : kOps) {
      for (int f : {0, 1, (count - 1) / 2})
        Check({.op = op, .f = f}, rows.rows(), 1500);
    }
    ASSERT_FALSE(HasFailure()) << count;
  }
}

TEST_P(ColumnsTest, NobodyIsThere) {
  float out[3] = {1, 2, 3};
  const ReduceReport report =
      device_->Reduce({.op = CoordinateOp::kMedian}, {}, nullptr, 3, out);
  EXPECT_THAT(out, testing::Each(0));
  EXPECT_EQ(report.bad_coordinates, 3);
  EXPECT_EQ(report.first_bad, 0);
}

// A liar's row in shared memory: it is NaN when it is read, and finite when
// somebody looks why the result is not. Here the results themselves overwrite
// it, half a tile later.
TEST_P(ColumnsTest, ARowThatChangesWhileItIsRead) {
  constexpr int64_t kElements = 1000, kLater = 512;
  std::mt19937_64 random(8);
  std::uniform_real_distribution<float> honest(1, 2);
  for (int count : {5, 16, 40}) {
    for (int liar = 0; liar < count; ++liar) {
      std::vector<std::vector<float>> values(count,
                                             std::vector<float>(kElements));
      for (std::vector<float>& row : values)
        std::generate(row.begin(), row.end(), [&] { return honest(random); });
      for (CoordinateOp op : kOps) {
        if (op == CoordinateOp::kSignVote) continue;
        Guarded<float> both(kElements + kLater);
        float* const results = both.data();
        float* const lies = both.data() + kLater;
        std::fill_n(lies, kElements, 1.5f);
        std::fill_n(lies, kElements - kLater, kNan);
        std::vector<Row> rows;
        for (int r = 0; r < count; ++r)
          rows.push_back({.data = r == liar ? lies : values[r].data()});
        device_->Reduce({.op = op, .f = 1}, rows, nullptr, kElements, results);
        for (int64_t j = 0; j < kLater; ++j)
          ASSERT_THAT(results[j],
                      testing::AllOf(testing::Ge(1), testing::Le(2)))
              << count << " " << liar << " " << int(op) << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace parapet::kernel_testing
