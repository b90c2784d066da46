#include "worker/loss.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace parapet {
namespace {

TEST(SoftmaxCrossEntropyTest, ByHand) {
  const std::vector<float> outputs = {0, std::log(3.0f), 0, 0};
  const std::vector<int32_t> labels = {1, 0};
  std::vector<float> gradient(4);
  const PassResult result =
      SoftmaxCrossEntropy(outputs.data(), labels.data(), 2, 2, gradient.data());
  // Off by the rounding of log 3 to float32 only.
  EXPECT_NEAR(result.loss_sum, std::log(4.0 / 3) + std::log(2.0), 1e-7);
  EXPECT_NEAR(gradient[0], 0.125, 1e-7);
  EXPECT_NEAR(gradient[1], -0.125, 1e-7);
  EXPECT_EQ(gradient[2], -0.25f);
  EXPECT_EQ(gradient[3], 0.25f);
  EXPECT_EQ(result.correct, 2);  // the first of equals
  EXPECT_EQ(result.samples, 2);
}

TEST(SoftmaxCrossEntropyTest, TheSecondOfEqualsIsWrong) {
  const std::vector<float> outputs = {1, 1};
  const int32_t label = 1;
  EXPECT_EQ(SoftmaxCrossEntropy(outputs.data(), &label, 1, 2, nullptr).correct,
            0);
}

TEST(SoftmaxCrossEntropyTest, NoOutputIsTooLarge) {
  const std::vector<float> outputs = {3e38f, -3e38f, 1e38f};
  for (int32_t label : {0, 1, 2}) {
    std::vector<float> gradient(3);
    const PassResult result =
        SoftmaxCrossEntropy(outputs.data(), &label, 1, 3, gradient.data());
    EXPECT_EQ(result.loss_sum, double{outputs[0]} - double{outputs[label]});
    EXPECT_EQ(gradient[0], label == 0 ? 0.0f : 1.0f);
    EXPECT_EQ(gradient[1], label == 1 ? -1.0f : 0.0f);
  }
}

// The gradient at a label that is nearly certain keeps its digits: no 1 is
// taken from a rounded 1.
TEST(SoftmaxCrossEntropyTest, NearlyCertain) {
  const std::vector<float> outputs = {20, 0};
  const int32_t label = 0;
  std::vector<float> gradient(2);
  const PassResult result =
      SoftmaxCrossEntropy(outputs.data(), &label, 1, 2, gradient.data());
  const double other = std::exp(-20.0) / (1 + std::exp(-20.0));
  EXPECT_NEAR(result.loss_sum, std::log1p(std::exp(-20.0)), 1e-15);
  // 1 - p in float64 is off by 2^-53; then it is rounded to float32.
  EXPECT_NEAR(gradient[0], -other, other * 0x1p-23 + 0x1p-52);
  EXPECT_NEAR(gradient[1], other, other * 0x1p-23);
}

TEST(SoftmaxCrossEntropyTest, NanIsNeverCorrect) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const int32_t label = 0;
  for (const std::vector<float>& outputs :
       {std::vector<float>{nan, nan}, {0, nan}, {nan, 0}, {infinity, 0}}) {
    const PassResult result =
        SoftmaxCrossEntropy(outputs.data(), &label, 1, 2, nullptr);
    EXPECT_TRUE(std::isnan(result.loss_sum));
    EXPECT_EQ(result.correct, 0);
  }
}

}  // namespace
}  // namespace parapet
