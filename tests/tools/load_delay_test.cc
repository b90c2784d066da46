#include "tools/load_delay.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

constexpr int kMany = 40000;

std::vector<double> Sample(const std::string& text) {
  const LoadDelay delay = ParseLoadDelay(text, absl::Minutes(1), true).value();
  std::vector<double> all;
  for (int i = 0; i < kMany; ++i)
    all.push_back(
        absl::ToDoubleMilliseconds(delay.At(9, i % 7, uint64_t(i / 7))));
  std::sort(all.begin(), all.end());
  return all;
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

struct Case {
  const char* text;
  double median, p99, mean_error;  // parts of the mean
};

class LoadDelayTest : public ::testing::TestWithParam<Case> {};

// Their mean is what was asked for, and the quantiles those of the shape. Of
// 40,000 values a mean is within 5 standard errors: 5 sigma / 200.
TEST_P(LoadDelayTest, IsDistributedAsItSays) {
  const Case& expected = GetParam();
  const std::vector<double> all = Sample(expected.text);
  EXPECT_NEAR(MeanOf(all), 10, 10 * expected.mean_error);
  EXPECT_NEAR(all[kMany / 2], 10 * expected.median, 0.3);
  EXPECT_NEAR(all[kMany * 99 / 100], 10 * expected.p99,
              0.15 * 10 * expected.p99);
  EXPECT_LE(all.back(), 10 * LoadDelay::kLongest + 1e-6);
  EXPECT_GE(all.front(), 0);
}

// ln 2, 4.605; sqrt(e)^-1, e^(2.326 - 1/2); 2^(2/3) / 3, 100^(2/3) / 3. The
// tail of pareto beyond the longest has 5.8 % of the mean.
INSTANTIATE_TEST_SUITE_P(
    Shapes, LoadDelayTest,
    ::testing::Values(Case{"0.1,10ms", 0.693, 4.605, 0.025},
                      Case{"0.1,10ms,exponential", 0.693, 4.605, 0.025},
                      Case{"0.1,10ms,constant", 1, 1, 1e-9},
                      Case{"0.1,10ms,uniform", 1, 1.98, 0.02},
                      Case{"0.1,10ms,lognormal", 0.607, 6.211, 0.035},
                      Case{"0.1,10ms,pareto", 0.529, 7.181, 0.15}));

TEST(ParseLoadDelayTest, RefusesInWords) {
  for (const char* text : {"", "0.1", "2,1ms", "0.1,-1ms", "0.1,2h", "x,1ms",
                           "0.1,1ms,weibull", "0.1,1ms,pareto,3"}) {
    const auto status = ParseLoadDelay(text, absl::Minutes(1), true).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("pareto")) << text;
  }
  EXPECT_FALSE(ParseLoadDelay("0.1,1ms,pareto", absl::Minutes(1), false).ok());
}

}  // namespace
}  // namespace parapet
