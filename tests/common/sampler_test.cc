#include "common/sampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

TEST(EpochPermutationTest, IsAPermutation) {
  for (uint64_t samples : {0, 1, 2, 3, 1000, 60000}) {
    std::vector<uint32_t> sorted = EpochPermutation(1, 0, samples);
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint32_t> all(samples);
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(sorted, all);
  }
}

TEST(EpochPermutationTest, IsAPureFunctionOfSeedEpochAndSamples) {
  EXPECT_EQ(EpochPermutation(3, 4, 500), EpochPermutation(3, 4, 500));
  EXPECT_NE(EpochPermutation(3, 4, 500), EpochPermutation(3, 5, 500));
  EXPECT_NE(EpochPermutation(3, 4, 500), EpochPermutation(4, 4, 500));
}

// What a run of one build wrote must be what a run of the next reads.
TEST(EpochPermutationTest, StaysTheSame) {
  EXPECT_THAT(EpochPermutation(1, 0, 8),
              ::testing::ElementsAre(3, 2, 4, 6, 0, 7, 5, 1));
}

// All 24 orders of four samples come up: 2400 epochs give each 100, with
// deviation 10.
TEST(EpochPermutationTest, EveryOrderIsAsLikely) {
  std::vector<int> seen(256);
  for (uint64_t epoch = 0; epoch < 2400; ++epoch) {
    const std::vector<uint32_t> p = EpochPermutation(5, epoch, 4);
    ++seen[p[0] * 64 + p[1] * 16 + p[2] * 4 + p[3]];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 256 - 24);
  for (int count : seen) {
    if (count == 0) continue;
    EXPECT_NEAR(count, 100, 50);
  }
}

TEST(ShareOfTest, SharesFollowOneAnotherAndDifferByOne) {
  for (uint64_t samples : {0, 1, 5, 96, 128, 1000}) {
    for (uint64_t members : {1, 2, 3, 7, 50}) {
      uint64_t at = 700;
      for (uint64_t i = 0; i < members; ++i) {
        const Share share = ShareOf(700, samples, members, i);
        EXPECT_EQ(share.begin, at);
        EXPECT_EQ(share.count,
                  samples / members + (i < samples % members ? 1 : 0));
        at += share.count;
      }
      EXPECT_EQ(at, 700 + samples);
    }
  }
}

TEST(OwnShareOfTest, AbstainsPastItsOwnEnd) {
  EXPECT_EQ(OwnShareOf(0, 32, 100).count, 32u);
  EXPECT_EQ(OwnShareOf(96, 32, 100).begin, 96u);
  EXPECT_EQ(OwnShareOf(96, 32, 100).count, 4u);
  EXPECT_EQ(OwnShareOf(100, 32, 100).count, 0u);
  EXPECT_EQ(OwnShareOf(128, 32, 100).count, 0u);
  EXPECT_EQ(OwnShareOf(0, 32, 0).count, 0u);
}

TEST(CursorTest, SixtyThousandInRoundsOf128EndWith96) {
  Cursor cursor(60000, 0, 0);
  EXPECT_TRUE(cursor.at_epoch_start());
  EXPECT_EQ(RoundsPerEpoch(60000, 128), 469u);
  for (uint64_t round = 0; round < 469; ++round) {
    const RoundFacts facts = cursor.Take(128);
    EXPECT_EQ(facts.epoch, 0u);
    EXPECT_EQ(facts.position, round * 128);
    EXPECT_EQ(facts.samples, round < 468 ? 128u : 96u);
  }
  EXPECT_TRUE(cursor.at_epoch_start());
  EXPECT_EQ(cursor.epoch(), 1u);
  EXPECT_EQ(cursor.position(), 0u);
}

TEST(CursorTest, AnEpochThatDividesEvenlyHasNoEmptyRound) {
  Cursor cursor(10, 4, 5);
  EXPECT_EQ(cursor.Take(5).samples, 5u);
  const RoundFacts next = cursor.Take(5);
  EXPECT_EQ(next.epoch, 5u);
  EXPECT_EQ(next.position, 0u);
  EXPECT_EQ(next.samples, 5u);
}

// Members come and go in the middle of an epoch: no sample is repeated, none
// skipped.
TEST(CursorTest, AChangeOfMembersNeitherRepeatsNorSkips) {
  Cursor cursor(1001, 0, 0);
  std::vector<int> seen(1001);
  for (uint64_t round = 0; cursor.epoch() == 0; ++round) {
    const uint64_t members = 1 + round * 5 % 7;
    const RoundFacts facts = cursor.Take(32 * members);
    for (uint64_t i = 0; i < members; ++i) {
      const Share share = ShareOf(facts.position, facts.samples, members, i);
      for (uint64_t k = 0; k < share.count; ++k) ++seen[share.begin + k];
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(CursorTest, TakingNothingMovesNothing) {
  Cursor cursor(10, 2, 3);
  EXPECT_EQ(cursor.Take(0).samples, 0u);
  EXPECT_EQ(cursor.epoch(), 2u);
  EXPECT_EQ(cursor.position(), 3u);
}

TEST(CursorTest, TakesFarMoreThanThereIs) {
  Cursor cursor(10, 0, 4);
  EXPECT_EQ(cursor.Take(~uint64_t{0}).samples, 6u);
  EXPECT_EQ(cursor.epoch(), 1u);
}

TEST(RoundsPerEpochTest, RoundsUp) {
  EXPECT_EQ(RoundsPerEpoch(0, 5), 0u);
  EXPECT_EQ(RoundsPerEpoch(1, 5), 1u);
  EXPECT_EQ(RoundsPerEpoch(5, 5), 1u);
  EXPECT_EQ(RoundsPerEpoch(6, 5), 2u);
  EXPECT_EQ(RoundsPerEpoch(~uint64_t{0}, ~uint64_t{0}), 1u);
  EXPECT_EQ(RoundsPerEpoch(5, 0), 0u);
}

ScheduleConfig Schedule(ScheduleKind kind, int64_t warmup) {
  ScheduleConfig schedule;
  schedule.lr = 0.8;
  schedule.kind = kind;
  schedule.warmup = warmup;
  return schedule;
}

TEST(LearningRateTest, Constant) {
  const ScheduleConfig schedule = Schedule(ScheduleKind::kConstant, 0);
  EXPECT_EQ(LearningRate(schedule, 4, 0, 100, 10), 0.8);
  EXPECT_EQ(LearningRate(schedule, 4, 99, 100, 10), 0.8);
}

TEST(LearningRateTest, ScalesWithTheWorkersIfAsked) {
  ScheduleConfig schedule = Schedule(ScheduleKind::kConstant, 0);
  schedule.scale_lr = true;
  EXPECT_EQ(LearningRate(schedule, 4, 5, 100, 10), 3.2);
}

TEST(LearningRateTest, WarmsUpFromOneStepsWorthToTheWhole) {
  for (ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kStep}) {
    const ScheduleConfig schedule = Schedule(kind, 4);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 1, 0, 100, 10), 0.2);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 1, 1, 100, 10), 0.4);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 1, 3, 100, 10), 0.8);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 1, 4, 100, 10), 0.8);
  }
}

TEST(LearningRateTest, CosineGoesFromLrToZeroAtTheLastStep) {
  const ScheduleConfig schedule = Schedule(ScheduleKind::kCosine, 10);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1, 10, 111, 10), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1, 60, 111, 10), 0.4);
  EXPECT_NEAR(LearningRate(schedule, 1, 35, 111, 10),
              0.4 * (1 + std::cos(std::numbers::pi / 4)), 1e-15);
  EXPECT_NEAR(LearningRate(schedule, 1, 110, 111, 10), 0, 1e-15);
  EXPECT_NEAR(LearningRate(schedule, 1, 500, 111, 10), 0, 1e-15);
}

TEST(LearningRateTest, CosineOfOneStepOrNoneIsWhole) {
  const ScheduleConfig schedule = Schedule(ScheduleKind::kCosine, 10);
  EXPECT_EQ(LearningRate(schedule, 1, 10, 11, 10), 0.8);
  EXPECT_EQ(LearningRate(schedule, 1, 10, 5, 10), 0.8);
}

TEST(LearningRateTest, StepsDownEveryFewEpochs) {
  ScheduleConfig schedule = Schedule(ScheduleKind::kStep, 0);
  schedule.step_epochs = 2;
  schedule.step_gamma = 0.5;
  EXPECT_EQ(LearningRate(schedule, 1, 19, 100, 10), 0.8);
  EXPECT_EQ(LearningRate(schedule, 1, 20, 100, 10), 0.4);
  EXPECT_EQ(LearningRate(schedule, 1, 39, 100, 10), 0.4);
  EXPECT_EQ(LearningRate(schedule, 1, 40, 100, 10), 0.2);
}

TEST(LearningRateTest, IsConstantWithoutAnEnd) {
  for (ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kStep}) {
    EXPECT_EQ(LearningRate(Schedule(kind, 0), 1, 12345, 0, 10), 0.8);
  }
}

TEST(LearningRateTest, NonsenseIsNotDividedBy) {
  ScheduleConfig schedule = Schedule(ScheduleKind::kStep, -3);
  schedule.step_epochs = 0;
  EXPECT_EQ(LearningRate(schedule, 1, 50, 100, 10), 0.8);
  schedule.step_epochs = 2;
  EXPECT_EQ(LearningRate(schedule, 1, 50, 100, 0), 0.8);
}

}  // namespace
}  // namespace parapet
