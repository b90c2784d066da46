#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"
#include "kernels/cuda/nn_loss.h"
#include "kernels/cuda/nn_sums.h"
#include "tests/nn/host_team.h"
#include "worker/loss.h"

namespace parapet::cuda {
namespace {

using Order = HostTeam::Order;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Normals(int64_t count) {
  Random random(19);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.Normal());
  return values;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

std::vector<float> RunColumnSums(const std::vector<float>& values, int64_t rows,
                                 int64_t columns, Order order) {
  std::vector<float> sums(columns, kNan);
  RunTeams<SumScratch>(ColumnSums{values.data(), rows, columns, sums.data()},
                       kMaxTeam, order);
  return sums;
}

TEST(ColumnSumsTest, IsTheSumWhateverTheOrderOfThreads) {
  for (const int64_t rows : {1, 7, 8, 9, 100}) {
    for (const int64_t columns : {1, 10, 31, 32, 33, 128, 200}) {
      const std::vector<float> values = Normals(rows * columns);
      const std::vector<float> sums =
          RunColumnSums(values, rows, columns, Order::kAscending);
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0, magnitude = 0;
        for (int64_t r = 0; r < rows; ++r) {
          sum += values[r * columns + c];
          magnitude += std::fabs(values[r * columns + c]);
        }
        // One rounding to float32; those of float64 are far smaller.
        EXPECT_NEAR(sums[c], sum,
                    std::fabs(sum) * 0x1p-24 +
                        static_cast<double>(rows) * magnitude * 0x1p-52);
      }
      for (const Order order : {Order::kDescending, Order::kShuffled})
        EXPECT_TRUE(
            SameBits(RunColumnSums(values, rows, columns, order), sums));
    }
  }
}

std::vector<float> RunChannelSums(const PoolSize& size,
                                  const std::vector<float>& gradient,
                                  const std::vector<uint8_t>& chosen,
                                  Order order) {
  std::vector<float> sums(size.channels, kNan);
  RunTeams<SumScratch>(
      ChannelSums{size, gradient.data(), chosen.data(), sums.data()}, kMaxTeam,
      order);
  return sums;
}

TEST(ChannelSumsTest, IsTheSumOfWhatIsOn) {
  for (const PoolSize& size : {PoolSize{1, 1, 2, 2}, PoolSize{3, 5, 5, 7},
                               PoolSize{7, 16, 14, 14}, PoolSize{2, 3, 1, 9}}) {
    const std::vector<float> gradient = Normals(size.pooled());
    std::vector<uint8_t> chosen(size.pooled());
    Random random(2);
    for (uint8_t& k : chosen) k = static_cast<uint8_t>(random.Below(5));
    std::vector<double> expected(size.channels);
    for (int64_t i = 0; i < size.pooled(); ++i)
      if (chosen[i] < 4)
        expected[i / size.plane() % size.channels] += gradient[i];
    const std::vector<float> sums =
        RunChannelSums(size, gradient, chosen, Order::kAscending);
    for (int64_t c = 0; c < size.channels; ++c)
      EXPECT_NEAR(sums[c], expected[c],
                  std::fabs(expected[c]) * 0x1p-24 +
                      static_cast<double>(size.pooled()) * 0x1p-48);
    for (const Order order : {Order::kDescending, Order::kShuffled})
      EXPECT_TRUE(
          SameBits(RunChannelSums(size, gradient, chosen, order), sums));
  }
}

struct LossRun {
  std::vector<float> gradient;
  LossTotal total;
};

LossRun RunLoss(const std::vector<float>& outputs,
                const std::vector<int32_t>& labels, int threads, Order order,
                bool differentiate = true) {
  const auto count = static_cast<int64_t>(labels.size());
  LossRun run{std::vector<float>(outputs.size(), kNan), {}};
  std::vector<LossTotal> samples(count);
  const SoftmaxLoss loss{outputs.data(),
                         labels.data(),
                         count,
                         static_cast<int64_t>(outputs.size()) / count,
                         differentiate ? run.gradient.data() : nullptr,
                         samples.data()};
  RunTeams<LossScratch>(loss, threads, order);
  RunTeams<TotalScratch>(SumLosses{samples.data(), count, &run.total}, kMaxTeam,
                         order);
  return run;
}

// Against worker/loss.h: the sums of exponentials are added in another order,
// and exp may be off by some units in the last place of float64.
void ExpectLossOfCpu(const std::vector<float>& outputs,
                     const std::vector<int32_t>& labels, int threads) {
  const auto count = static_cast<int64_t>(labels.size());
  const auto classes = static_cast<int64_t>(outputs.size()) / count;
  std::vector<float> expected(outputs.size());
  const PassResult cpu = SoftmaxCrossEntropy(outputs.data(), labels.data(),
                                             count, classes, expected.data());
  const LossRun run = RunLoss(outputs, labels, threads, Order::kAscending);
  EXPECT_EQ(run.total.correct, cpu.correct);
  const double tolerance = static_cast<double>(classes + count) * 0x1p-50;
  if (std::isnan(cpu.loss_sum)) {
    EXPECT_TRUE(std::isnan(run.total.loss));
  } else if (std::isinf(cpu.loss_sum)) {
    EXPECT_EQ(run.total.loss, cpu.loss_sum);
  } else {
    // log(sum) + largest - output cancels: off by the magnitudes' rounding.
    EXPECT_NEAR(run.total.loss, cpu.loss_sum,
                tolerance * (std::fabs(cpu.loss_sum) + 100));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(run.gradient[i])) << i;
    } else {
      EXPECT_NEAR(run.gradient[i], expected[i],
                  std::fabs(expected[i]) * 0x1p-23 + tolerance);
    }
  }
  for (const Order order : {Order::kDescending, Order::kShuffled}) {
    const LossRun other = RunLoss(outputs, labels, threads, order);
    EXPECT_TRUE(SameBits(other.gradient, run.gradient));
    EXPECT_EQ(std::memcmp(&other.total, &run.total, sizeof(LossTotal)), 0);
  }
}

TEST(SoftmaxLossTest, IsTheCpus) {
  for (const int64_t count : {1, 3, 70}) {
    for (const int64_t classes : {1, 2, 10, 32, 33, 300}) {
      const std::vector<float> outputs = Normals(count * classes);
      std::vector<int32_t> labels(count);
      Random random(4);
      for (int32_t& label : labels)
        label = static_cast<int32_t>(random.Below(classes));
      for (const int threads : {1, 32, 64, 256})
        ExpectLossOfCpu(outputs, labels, threads);
    }
  }
}

TEST(SoftmaxLossTest, TheFirstOfEqualsIsTheLargest) {
  const std::vector<float> outputs(40, 1.0f);
  for (const int32_t label : {0, 1, 39}) {
    const LossRun run = RunLoss(outputs, {label}, 32, Order::kShuffled);
    EXPECT_EQ(run.total.correct, label == 0);
  }
}

TEST(SoftmaxLossTest, WhatIsNotANumber) {
  for (const std::vector<float>& outputs : {std::vector<float>{kNan, kNan},
                                            {0, kNan},
                                            {kNan, 0},
                                            {kInfinity, 0},
                                            {3e38f, -3e38f},
                                            {-kInfinity, 0}}) {
    for (const int threads : {1, 2, 32})
      for (const int32_t label : {0, 1})
        ExpectLossOfCpu(outputs, {label}, threads);
  }
}

TEST(SoftmaxLossTest, WithoutAGradientTheSameLoss) {
  const std::vector<float> outputs = Normals(30);
  const std::vector<int32_t> labels = {1, 2, 0};
  const LossRun with = RunLoss(outputs, labels, 32, Order::kAscending),
                without =
                    RunLoss(outputs, labels, 32, Order::kAscending, false);
  EXPECT_EQ(with.total.loss, without.total.loss);
  for (const float g : without.gradient) EXPECT_TRUE(std::isnan(g));
}

}  // namespace
}  // namespace parapet::cuda
