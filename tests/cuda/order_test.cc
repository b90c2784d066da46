#include "kernels/cuda/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/cuda/cases.h"

namespace parapet::cuda {
namespace {

// A network that sorts every sequence of zeros and ones sorts everything.
template <int N>
void SortsAllBits() {
  for (uint32_t bits = 0; bits < (1u << N); ++bits) {
    float values[N];
    for (int i = 0; i < N; ++i) values[i] = static_cast<float>(bits >> i & 1);
    Sort(values);
    ASSERT_TRUE(std::is_sorted(values, values + N)) << bits;
  }
}

template <int N>
void SortsRandom() {
  testing::Random random(N);
  for (int t = 0; t < 200; ++t) {
    float values[N];
    for (float& value : values)
      value = static_cast<float>(random.Below(t % 2 ? 5 : 1000000));
    std::vector<float> sorted(values, values + N);
    std::sort(sorted.begin(), sorted.end());
    Sort(values);
    ASSERT_TRUE(std::equal(sorted.begin(), sorted.end(), values));
  }
}

TEST(CudaOrder, NetworksSort) {
  SortsAllBits<8>();
  SortsAllBits<16>();
  SortsRandom<32>();
  SortsRandom<64>();
}

TEST(CudaOrder, TiesGoToTheSmallerValue) {
  float values[] = {-1, 0, 0, 1, 5};
  const Column column = {values, 1};
  // Nearest to 0: 0, 0, then -1 before 1.
  EXPECT_DOUBLE_EQ(MeanNearest(column, 5, 2, 0), -1.0 / 3);
}

TEST(CudaOrder, NoValueIsAVoteOfNone) {
  float values[] = {0, -0.0f, 3};
  EXPECT_EQ(SignVoteOf({values, 1}, 3, 0.5), 0.5);
  EXPECT_EQ(SignVoteOf({values, 1}, 2, 0.5), 0);
}

}  // namespace
}  // namespace parapet::cuda
