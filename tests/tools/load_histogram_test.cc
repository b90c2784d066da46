#include "tools/load_histogram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

constexpr double kQuantiles[] = {0.0, 0.001, 0.1,   0.25,   0.5,
                                 0.9, 0.99,  0.999, 0.9999, 1.0};

// The smallest of sorted values that at least q of all are not above.
int64_t Exact(const std::vector<int64_t>& sorted, double q) {
  const auto rank = static_cast<size_t>(
      std::max(1.0, std::ceil(q * static_cast<double>(sorted.size()))));
  return sorted[rank - 1];
}

void ExpectQuantiles(std::vector<int64_t> values, int precision) {
  LoadHistogram histogram(precision);
  for (const int64_t value : values) histogram.Add(absl::Nanoseconds(value));
  std::sort(values.begin(), values.end());
  const double bound = std::pow(2, -(precision + 1));
  for (const double q : kQuantiles) {
    const auto exact = static_cast<double>(Exact(values, q));
    const auto got =
        static_cast<double>(absl::ToInt64Nanoseconds(histogram.Quantile(q)));
    EXPECT_LE(std::abs(got - exact), bound * exact + 1e-9)
        << "q " << q << " of " << values.size() << ", exact " << exact;
  }
  EXPECT_EQ(absl::ToInt64Nanoseconds(histogram.max()), values.back());
  EXPECT_EQ(histogram.count(), values.size());
}

TEST(LoadHistogramTest, QuantilesAreWithinTheBound) {
  Random random(1);
  for (const int precision : {3, 5, 7, 9}) {
    for (const size_t count : {1u, 2u, 3u, 10u, 1000u, 20000u}) {
      std::vector<int64_t> uniform, wide;
      for (size_t i = 0; i < count; ++i) {
        uniform.push_back(static_cast<int64_t>(random.Below(100'000'000)));
        // Every magnitude from a nanosecond to the longest.
        wide.push_back(
            static_cast<int64_t>(random.Next64() >> (21 + random.Below(42))));
      }
      ExpectQuantiles(uniform, precision);
      ExpectQuantiles(wide, precision);
    }
  }
}

TEST(LoadHistogramTest, EdgesOfBucketsAreWithinTheBound) {
  for (int bit = 0; bit < 43; ++bit) {
    for (const int64_t off : {-1, 0, 1}) {
      const int64_t value = (int64_t{1} << bit) + off;
      ExpectQuantiles({value, value, value + 5}, 7);
    }
  }
}

TEST(LoadHistogramTest, ExtremesAreCountedAsTheNearest) {
  LoadHistogram histogram;
  histogram.Add(absl::Seconds(-1));
  EXPECT_EQ(histogram.Quantile(0.5), absl::ZeroDuration());
  histogram.Add(absl::InfiniteDuration());
  histogram.Add(absl::Hours(1000));
  EXPECT_EQ(histogram.max(), absl::Nanoseconds(LoadHistogram::kLongest));
  EXPECT_EQ(histogram.count(), 3u);
}

TEST(LoadHistogramTest, EmptyIsZero) {
  const LoadHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.99), absl::ZeroDuration());
  EXPECT_EQ(histogram.max(), absl::ZeroDuration());
}

TEST(LoadHistogramTest, MergedIsAsIfAddedToOne) {
  Random random(2);
  LoadHistogram a, b, both;
  for (int i = 0; i < 1000; ++i) {
    const auto value =
        absl::Nanoseconds(static_cast<int64_t>(random.Next64() >> 34));
    (i % 3 == 0 ? a : b).Add(value);
    both.Add(value);
  }
  a.Merge(b);
  for (const double q : kQuantiles)
    EXPECT_EQ(a.Quantile(q), both.Quantile(q)) << q;
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.max(), both.max());
}

}  // namespace
}  // namespace parapet
