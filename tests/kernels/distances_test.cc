// Squared distances: every bit against one scalar reference, on every
// instruction set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/mean_fixture.h"

namespace parapet::kernel_testing {
namespace {

constexpr int64_t kTile = 256;

template <class T>
T AddLanes(T* lanes) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// The contract of Device::Distances, for one tile of one pair.
double TileReference(const float* a, const float* b, int64_t count) {
  float lanes[16] = {};
  double wide[16] = {};
  for (int64_t e = 0; e < count; ++e) {
    const float d = a[e] - b[e];
    lanes[e % 16] = std::fma(d, d, lanes[e % 16]);
    const double exact = static_cast<double>(a[e]) - static_cast<double>(b[e]);
    wide[e % 16] += exact * exact;
  }
  const float sum = AddLanes(lanes);
  return sum >= 0x1p-100f && std::isfinite(sum) ? sum : AddLanes(wide);
}

using Values = std::vector<std::vector<float>>;

// Of one leaf, in the order of Device::Distances.
std::vector<double> LeafReference(const Values& values, int64_t begin,
                                  int64_t elements) {
  std::vector<double> sums;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i + 1; j < values.size(); ++j) {
      double sum = 0;
      for (int64_t e = 0; e < elements; e += kTile) {
        sum += TileReference(&values[i][begin + e], &values[j][begin + e],
                             std::min(kTile, elements - e));
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

class DistancesTest : public OnEveryTarget {
 protected:
  struct Measured {
    std::vector<double> sums;
    std::vector<uint8_t> finite;
  };

  Measured Measure(const Values& values, const std::vector<float>* previous,
                   int64_t leaf) {
    const auto elements = static_cast<int64_t>(values[0].size());
    const auto leaves = (elements + leaf - 1) / leaf;
    OwnedRows rows(elements);
    for (const auto& row : values) rows.Add(row);
    const int n = static_cast<int>(values.size());
    Measured measured{std::vector<double>(leaves * PairCount(n), -1),
                      std::vector<uint8_t>(leaves * n, 7)};
    device_->Distances(rows.rows(), previous ? previous->data() : nullptr,
                       elements, leaf, measured.sums.data(),
                       measured.finite.data());
    return measured;
  }

  void Check(Values values, const std::vector<float>* previous, int64_t leaf) {
    const auto elements = static_cast<int64_t>(values[0].size());
    const Measured measured = Measure(values, previous, leaf);
    values.push_back(previous ? *previous : std::vector<float>(elements));
    values.emplace_back(elements);  // zero
    std::vector<double> expected;
    for (int64_t begin = 0; begin < elements; begin += leaf) {
      const std::vector<double> sums =
          LeafReference(values, begin, std::min(leaf, elements - begin));
      expected.insert(expected.end(), sums.begin(), sums.end());
    }
    EXPECT_EQ(measured.sums, expected);
    EXPECT_THAT(measured.finite, testing::Each(1));
  }

  Values Random(int n, int64_t elements, float scale = 1) {
    Values values;
    for (int r = 0; r < n; ++r) {
      values.push_back(RandomFloats(random_, elements, 1));
      for (float& value : values.back()) value *= scale;
    }
    return values;
  }

  std::mt19937_64 random_{11};
};
INSTANTIATE_TEST_SUITE_P(Targets, DistancesTest, EveryTarget(), TargetNameOf);

TEST_P(DistancesTest, EveryNumberOfRows) {
  for (int n = 1; n <= 20; ++n) {
    const std::vector<float> previous = RandomFloats(random_, 600);
    Check(Random(n, 600), &previous, 512);
    Check(Random(n, 600), nullptr, 512);
    ASSERT_FALSE(HasFailure()) << n;
  }
}

TEST_P(DistancesTest, EverySize) {
  for (int64_t size : {1, 15, 16, 17, 255, 256, 257, 1000, 1024, 2049}) {
    Check(Random(5, size), nullptr, 16384);
    Check(Random(5, size), nullptr, 768);
    ASSERT_FALSE(HasFailure()) << size;
  }
}

// Squares that float32 cannot hold.
TEST_P(DistancesTest, HugeTinyAndDenormal) {
  for (float scale : {1e25f, 1e36f, 1e-16f, 1e-24f, 1e-38f, 1e-43f}) {
    Check(Random(6, 700, scale), nullptr, 16384);
    ASSERT_FALSE(HasFailure()) << scale;
  }
}

TEST_P(DistancesTest, EqualRowsAndZerosAreAtZero) {
  Values values = Random(7, 900);
  values[3] = values[5];
  values[6].assign(900, 0.0f);
  Check(values, nullptr, 16384);
  const Measured measured = Measure(values, nullptr, 16384);
  EXPECT_THAT(measured.sums, testing::Contains(0).Times(4));
}

TEST_P(DistancesTest, SaysWhoIsNotFinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const size_t row : {0, 4, 5}) {
      Values values = Random(6, 1000);
      values[2] = std::vector<float>(1000, 3e38f);  // its square is infinite
      values[row][700] = bad;
      const Measured measured = Measure(values, nullptr, 512);
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(measured.finite[i], 1);
        EXPECT_EQ(measured.finite[6 + i], i == row ? 0 : 1) << i;
      }
      // The others' distances are what they are without it.
      values[row].assign(1000, 0.0f);
      const Measured clean = Measure(values, nullptr, 512);
      size_t pair = 0;
      for (size_t i = 0; i < 8; ++i) {
        for (size_t j = i + 1; j < 8; ++j, ++pair) {
          if (i == row || j == row) continue;
          EXPECT_EQ(measured.sums[28 + pair], clean.sums[28 + pair]);
        }
      }
    }
  }
}

TEST_P(DistancesTest, NarrowRowsAreReadAsWhatTheySay) {
  for (DType type : {DType::kBFloat16, DType::kFloat16}) {
    OwnedRows narrow(800);
    Values values;
    for (int r = 0; r < 5; ++r) {
      narrow.Add(RandomFloats(random_, 800, 0), 1, type, 8);
      std::vector<float>& wide = values.emplace_back();
      for (int64_t j = 0; j < 800; ++j)
        wide.push_back(static_cast<float>(
            StoredValue(narrow.rows().back().data, type, j) / 8));
    }
    std::vector<double> sums(PairCount(5));
    std::vector<uint8_t> finite(5);
    device_->Distances(narrow.rows(), nullptr, 800, 16384, sums.data(),
                       finite.data());
    EXPECT_EQ(sums, Measure(values, nullptr, 16384).sums);
  }
}

}  // namespace
}  // namespace parapet::kernel_testing
