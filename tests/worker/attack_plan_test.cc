#include "worker/attack_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

CommonFlags Flags(const std::string& attack, int attackers, int workers = 10) {
  CommonFlags flags;
  flags.attack = attack;
  flags.attackers = attackers;
  flags.job.workers = workers;
  flags.job.servers = 2;
  return flags;
}

std::string ErrorOf(const CommonFlags& flags) {
  const absl::StatusOr<AttackPlan> plan = MakeAttackPlan(flags);
  EXPECT_TRUE(plan.ok() || absl::IsInvalidArgument(plan.status()));
  return plan.ok() ? "" : std::string(plan.status().message());
}

TEST(AttackPlanTest, NobodyAttacksByDefault) {
  CommonFlags flags;
  flags.job.workers = 4;
  const auto plan = MakeAttackPlan(flags);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (uint32_t id = 0; id < 4; ++id) EXPECT_FALSE(plan->Attacks(id));
  EXPECT_FALSE(AttackPlan{}.Attacks(7));
}

TEST(AttackPlanTest, TheLastWorkersAttack) {
  const auto plan = MakeAttackPlan(Flags("alie(1.5)", 2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->Attacks(7));
  EXPECT_TRUE(plan->Attacks(8));
  EXPECT_TRUE(plan->Attacks(9));
  EXPECT_EQ(plan->honest(), 8);
  EXPECT_EQ(plan->Warning(),
            "ATTACK: workers 8 to 9 send lies on purpose "
            "(--attack=alie(1.5)). This job is a test.");
}

TEST(AttackPlanTest, RefusesInWords) {
  EXPECT_THAT(ErrorOf(Flags("alie", 0)), HasSubstr("Say --attackers=N"));
  EXPECT_THAT(ErrorOf(Flags("none", 2)), HasSubstr("--attackers=2 do what?"));
  EXPECT_THAT(ErrorOf(Flags("nan", 10)),
              HasSubstr("must be below the number of workers, --workers=10"));
  EXPECT_THAT(ErrorOf(Flags("sign_flop", 1)),
              HasSubstr("--attack=sign_flop: there is no attack"));
  EXPECT_THAT(ErrorOf(Flags("alie(auto)", 2)), HasSubstr("no z above 0"));
  EXPECT_EQ(ErrorOf(Flags("alie(auto)", 2, 11)), "");
  EXPECT_THAT(ErrorOf(Flags("mimic(8)", 2)),
              HasSubstr("worker 8 is not honest; workers 0 to 7 are"));
  EXPECT_EQ(ErrorOf(Flags("mimic(7)", 2)), "");
  CommonFlags one_server = Flags("partial", 1);
  one_server.job.servers = 1;
  EXPECT_THAT(ErrorOf(one_server), HasSubstr("at least two servers"));
}

TEST(AttackPlanTest, WhatNeedsTheOthersSamples) {
  for (const char* attack : {"alie", "ipm", "mimic", "min_max", "min_sum"}) {
    CommonFlags flags = Flags(attack, 1);
    EXPECT_EQ(ErrorOf(flags), "");
    flags.job.data_split = "own";
    EXPECT_THAT(ErrorOf(flags), HasSubstr("--data_split=own")) << attack;
  }
  CommonFlags flags = Flags("sign_flip", 1);
  flags.job.data_split = "own";
  EXPECT_EQ(ErrorOf(flags), "");
}

}  // namespace
}  // namespace parapet
