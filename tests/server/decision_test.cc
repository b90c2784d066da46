#include "server/decision.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;

rules::Plan Some() {
  rules::Plan plan;
  plan.workers = {1, 4, 6};
  plan.mixes = true;
  plan.mixing = rules::Mixing(3, 5);
  for (int r = 0; r < 3; ++r) plan.mixing.at(r, r) = 0.25 + r;
  plan.coordinate.op = rules::CoordinateOp::kTrimmedMean;
  plan.coordinate.f = 1;
  plan.coordinate.scale = 0.5;
  return plan;
}

TEST(DecisionTest, ThePlanComesBack) {
  const DecisionMessage message = ToMessage(7, Some());
  EXPECT_EQ(message.round, 7u);
  EXPECT_THAT(message.workers, ElementsAre(1, 4, 6));
  const auto plan = ToPlan(message);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->workers, ElementsAre(1, 4, 6));
  EXPECT_TRUE(plan->mixes);
  EXPECT_FALSE(plan->bad);
  EXPECT_EQ(plan->mixing.rows, 3);
  EXPECT_EQ(plan->mixing.columns, 5);
  EXPECT_EQ(plan->mixing.weights, Some().mixing.weights);
  EXPECT_EQ(plan->coordinate.op, rules::CoordinateOp::kTrimmedMean);
  EXPECT_EQ(plan->coordinate.f, 1);
  EXPECT_EQ(plan->coordinate.scale, 0.5);
  EXPECT_FALSE(plan->coordinate.weighted);
}

TEST(DecisionTest, ABadRoundHasNoRows) {
  rules::Plan bad;
  bad.workers = {1, 2};
  bad.bad = bad.mixes = true;
  const auto plan = ToPlan(ToMessage(7, bad));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->bad);
  EXPECT_THAT(plan->workers, ElementsAre(1, 2));
}

TEST(DecisionTest, NobodyAtAllIsADecision) {
  EXPECT_TRUE(ToPlan(DecisionMessage()).ok());
}

// A server does not reduce what its kernels cannot.
TEST(DecisionTest, WhatNoRuleMakesIsRefused) {
  using Op = rules::CoordinateOp;
  const auto with = [](Op op, uint32_t f) {
    DecisionMessage message = ToMessage(7, Some());
    message.op = static_cast<uint8_t>(op);
    message.f = f;
    return ToPlan(message).ok();
  };
  EXPECT_TRUE(with(Op::kTrimmedMean, 1));
  EXPECT_FALSE(with(Op::kTrimmedMean, 2));
  EXPECT_FALSE(with(Op::kTrimmedMean, 0x80000001)) << "twice that is 2";
  EXPECT_FALSE(with(Op::kPhocas, 2));
  EXPECT_TRUE(with(Op::kMeamed, 2));
  EXPECT_FALSE(with(Op::kMeamed, 3));
  EXPECT_TRUE(with(Op::kMean, 9));
  EXPECT_FALSE(with(static_cast<Op>(6), 0));
  DecisionMessage message = ToMessage(7, Some());
  message.rows = 0;
  message.weights.clear();
  EXPECT_FALSE(ToPlan(message).ok());
  message = ToMessage(7, Some());
  message.weights.pop_back();
  EXPECT_FALSE(ToPlan(message).ok());
}

}  // namespace
}  // namespace parapet
