#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/kernels/kernel_testing.h"

namespace parapet::kernel_testing {
namespace {

// The order of Device::LeafSquares, an element at a time.
double ReferenceSquares(const float* values, int64_t size) {
  std::array<double, 16> lanes{};
  for (int64_t i = 0; i < size; ++i) {
    lanes[static_cast<size_t>(i % 16)] +=
        static_cast<double>(values[i]) * values[i];
  }
  for (size_t half : {8, 4, 2, 1}) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

class LeafSquaresTest : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, LeafSquaresTest, EveryTarget(), TargetNameOf);

TEST_P(LeafSquaresTest, HasTheBitsOfTheStatedOrder) {
  std::mt19937_64 random(1);
  for (int64_t size : OddSizes()) {
    Guarded<float> values(size, 4);
    values.Assign(RandomFloats(random, size));
    for (int64_t leaf : {1, 7, 16, 48, 1000, 16384}) {
      const int64_t leaves = (size + leaf - 1) / leaf;
      Guarded<double> sums(leaves, 8);
      device_->LeafSquares(values.data(), size, leaf, sums.data());
      ASSERT_TRUE(sums.Intact());
      for (int64_t l = 0; l < leaves; ++l) {
        const int64_t length = std::min(leaf, size - l * leaf);
        ASSERT_EQ(sums.data()[l],
                  ReferenceSquares(values.data() + l * leaf, length))
            << size << " in leaves of " << leaf;
      }
    }
  }
}

// Squares of float32 are exact in float64, so only the additions round: at most
// (size / 16 + 4) of them on the way of any square, each by 2^-53.
TEST_P(LeafSquaresTest, IsCloseToTheExactSum) {
  std::mt19937_64 random(2);
  const std::vector<float> values = RandomFloats(random, 16384);
  long double exact = 0;
  for (float value : values) exact += static_cast<long double>(value) * value;
  double sum = 0;
  device_->LeafSquares(values.data(), 16384, 16384, &sum);
  EXPECT_NEAR(sum, static_cast<double>(exact),
              static_cast<double>(exact) * (1024 + 4) * 0x1p-53);
}

TEST_P(LeafSquaresTest, DoesNotOverflowInFloat32) {
  const std::vector<float> values(100, 1e30f);
  double sum = 0;
  device_->LeafSquares(values.data(), 100, 16384, &sum);
  EXPECT_NEAR(sum, 1e62, 1e56);
}

}  // namespace
}  // namespace parapet::kernel_testing
