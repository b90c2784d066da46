#include "worker/pool.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int64_t Elements(const PoolShape& s) {
  return s.images * s.height * s.width * s.block;
}

// Where element b of window (y, x) begins in an image.
int64_t Corner(const PoolShape& s, int64_t image, int64_t y, int64_t x,
               int64_t b) {
  return ((image * s.height + 2 * y) * s.width + 2 * x) * s.block + b;
}

void ExpectDefinition(const PoolShape& s, const std::vector<float>& in) {
  std::vector<float> out(s.pooled()), back(Elements(s), 7.0f),
      gradient(s.pooled());
  std::vector<int32_t> chosen(s.pooled());
  for (size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(i + 1);
  PoolForward(s, in.data(), out.data(), chosen.data());
  PoolBackward(s, gradient.data(), chosen.data(), back.data());
  std::vector<float> expected(Elements(s), 7.0f);
  int64_t p = 0;
  for (int64_t i = 0; i < s.images; ++i)
    for (int64_t y = 0; y < s.height / 2; ++y)
      for (int64_t x = 0; x < s.width / 2; ++x)
        for (int64_t b = 0; b < s.block; ++b, ++p) {
          const int64_t c = Corner(s, i, y, x, b), row = s.width * s.block;
          const int64_t window[] = {c, c + s.block, c + row, c + row + s.block};
          int best = 0;
          for (int k = 1; k < 4; ++k)
            best = in[window[k]] > in[window[best]] ? k : best;
          const bool on = in[window[best]] > 0;
          ASSERT_EQ(out[p], on ? in[window[best]] : 0.0f);
          for (int k = 0; k < 4; ++k)
            expected[window[k]] = on && k == best ? gradient[p] : 0.0f;
        }
  EXPECT_EQ(back, expected);
}

TEST(PoolTest, IsItsDefinitionForEveryBlock) {
  Random random(31);
  for (int64_t block : {1, 3, 4, 8, 16}) {
    for (const PoolShape& s :
         {PoolShape{2, 4, 6, block}, PoolShape{3, 5, 7, block},
          PoolShape{1, 2, 2, block}, PoolShape{1, 1, 9, block}}) {
      std::vector<float> in(Elements(s));
      // Few values, so that equal ones are common.
      for (float& v : in)
        v = static_cast<float>(static_cast<int>(random.Below(7)) - 3);
      ExpectDefinition(s, in);
    }
  }
}

TEST(PoolTest, ANanComesOut) {
  for (int at = 0; at < 4; ++at) {
    for (float other : {-1.0f, 1.0f}) {
      std::vector<float> in(4, other);
      in[at] = kNan;
      float out;
      int32_t chosen;
      PoolForward({1, 2, 2, 1}, in.data(), &out, &chosen);
      EXPECT_TRUE(std::isnan(out));
      EXPECT_EQ(chosen, at);
    }
  }
}

}  // namespace
}  // namespace parapet
