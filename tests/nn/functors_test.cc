#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"
#include "kernels/cuda/nn_functors.h"
#include "tests/nn/host_team.h"
#include "worker/pool.h"

namespace parapet::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Few values, so that equal ones are common; now and then none.
std::vector<float> SmallNumbers(int64_t count, bool nans) {
  Random random(7);
  std::vector<float> values(count);
  for (float& v : values) {
    v = static_cast<float>(static_cast<int>(random.Below(7)) - 3);
    if (nans && random.Below(13) == 0) v = kNan;
  }
  return values;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
        << i << ": " << a[i] << ", " << b[i];
  }
}

TEST(Bf16Test, NearestEvenAgainstTheNeighbours) {
  Random random(11);
  for (int i = 0; i < 100000; ++i) {
    const auto bits = random.Next32();
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    // Truncated, and the next one away from zero.
    const double down = WidenBFloat16(static_cast<Bf16>(bits >> 16));
    const auto above = static_cast<Bf16>((bits >> 16) + 1);
    const bool overflows = std::isinf(WidenBFloat16(above));
    const double up = overflows ? std::copysign(std::ldexp(1.0, 128), value)
                                : WidenBFloat16(above);
    const double to_down = std::fabs(value - down),
                 to_up = std::fabs(up - value);
    const bool takes_up =
        to_up < to_down || (to_up == to_down && (bits >> 16) % 2 == 1);
    EXPECT_EQ(NarrowBFloat16(value),
              takes_up ? above : static_cast<Bf16>(bits >> 16))
        << value;
  }
}

TEST(Bf16Test, WhatIsNotFinite) {
  EXPECT_EQ(WidenBFloat16(NarrowBFloat16(kInfinity)), kInfinity);
  EXPECT_EQ(WidenBFloat16(NarrowBFloat16(-kInfinity)), -kInfinity);
  EXPECT_TRUE(std::isnan(WidenBFloat16(NarrowBFloat16(kNan))));
  // A NaN whose upper half alone would be an infinity.
  const uint32_t bits = 0x7f800001;
  float low;
  std::memcpy(&low, &bits, sizeof(low));
  EXPECT_TRUE(std::isnan(WidenBFloat16(NarrowBFloat16(low))));
  EXPECT_EQ(WidenBFloat16(NarrowBFloat16(std::numeric_limits<float>::max())),
            kInfinity);
  EXPECT_TRUE(std::signbit(WidenBFloat16(NarrowBFloat16(-0.0f))));
}

TEST(DivideTest, BelowAndAbove32Bits) {
  constexpr int64_t kLong = (int64_t{1} << 40) + 12345;
  const int64_t numbers[] = {0,         1,    2, 255, (int64_t{1} << 32) - 1,
                             1LL << 32, kLong};
  for (const int64_t a : numbers) {
    for (const int64_t b : numbers) {
      if (b == 0) continue;
      EXPECT_EQ(Divide(a, b).quotient, a / b);
      EXPECT_EQ(Divide(a, b).remainder, a % b);
    }
  }
}

TEST(BiasTest, AddsAndCutsOff) {
  for (const bool relu : {false, true}) {
    for (const int64_t columns : {1, 3, 64}) {
      std::vector<float> values = SmallNumbers(5 * columns, true);
      const std::vector<float> bias = SmallNumbers(columns, false);
      std::vector<float> expected = values;
      for (int64_t i = 0; i < 5 * columns; ++i) {
        expected[i] += bias[i % columns];
        if (relu && expected[i] < 0) expected[i] = 0;
      }
      RunElements(BiasElement{values.data(), bias.data(), columns, relu},
                  5 * columns);
      ExpectSameBits(values, expected);
    }
  }
}

TEST(MaskTest, IsZeroWhereTheReluWasOff) {
  const std::vector<float> values = {-1, -0.0f, 0, 1e-40f, 2, kNan};
  std::vector<float> gradient = {1, 2, 3, 4, 5, 6};
  RunElements(MaskElement{values.data(), gradient.data()}, 6);
  EXPECT_EQ(gradient, (std::vector<float>{0, 0, 0, 4, 5, 6}));
}

TEST(NarrowTest, IsTheRoundedValue) {
  const std::vector<float> values = {1.00390625f, 1.01171875f, -3.3f};
  std::vector<Bf16> narrow(3);
  std::vector<float> rounded(3);
  RunElements(NarrowElement{values.data(), narrow.data()}, 3);
  RunElements(RoundElement{values.data(), rounded.data()}, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(WidenBFloat16(narrow[i]), rounded[i]);
  EXPECT_EQ(rounded[0], 1.0f);       // half way: to the even one
  EXPECT_EQ(rounded[1], 1.015625f);  // likewise
}

// The CPU's pool is what it must be, tie rule and NaN included.
void ExpectPoolOfCpu(const PoolSize& size, bool nans) {
  const std::vector<float> raw = SmallNumbers(size.elements(), nans);
  std::vector<float> bias = SmallNumbers(size.channels, false);
  std::vector<float> sum = raw;
  for (int64_t i = 0; i < size.elements(); ++i)
    sum[i] += bias[i / (size.height * size.width) % size.channels];
  const PoolShape shape{size.count * size.channels, size.height, size.width, 1};
  std::vector<float> cpu_out(size.pooled()), out(size.pooled(), kNan);
  std::vector<int32_t> cpu_chosen(size.pooled());
  std::vector<uint8_t> chosen(size.pooled(), 99);
  PoolForward(shape, sum.data(), cpu_out.data(), cpu_chosen.data());
  RunElements(
      PoolElement{size, raw.data(), bias.data(), out.data(), chosen.data()},
      size.pooled());
  ExpectSameBits(out, cpu_out);
  EXPECT_EQ(std::vector<int32_t>(chosen.begin(), chosen.end()), cpu_chosen);

  std::vector<float> gradient(size.pooled());
  for (int64_t i = 0; i < size.pooled(); ++i)
    gradient[i] = static_cast<float>(i + 1);
  std::vector<float> cpu_back(size.elements()), back(size.elements(), kNan);
  PoolBackward(shape, gradient.data(), cpu_chosen.data(), cpu_back.data());
  RunElements(UnpoolElement{size, gradient.data(), chosen.data(), back.data()},
              size.elements());
  ExpectSameBits(back, cpu_back);
}

TEST(PoolTest, IsTheCpusForOddSizesToo) {
  for (const bool nans : {false, true}) {
    for (const PoolSize& size :
         {PoolSize{1, 1, 2, 2}, PoolSize{2, 3, 4, 6}, PoolSize{3, 2, 5, 7},
          PoolSize{2, 5, 7, 4}, PoolSize{1, 3, 1, 9}, PoolSize{2, 1, 3, 3}}) {
      ExpectPoolOfCpu(size, nans);
    }
  }
}

}  // namespace
}  // namespace parapet::cuda
