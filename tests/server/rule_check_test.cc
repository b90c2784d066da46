#include "server/rule_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommonFlags FlagsOf(const std::string& rule, int workers, int byzantine) {
  CommonFlags flags;
  flags.job.rule = rule;
  flags.job.workers = workers;
  flags.job.byzantine = byzantine;
  return flags;
}

std::string Refusal(const CommonFlags& flags) {
  const absl::Status status = CheckRule(flags);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST(RuleCheckTest, RulesWhoseLimitsHoldAreTaken) {
  for (const char* rule : {"mean", "median", "krum", "nnm + trimmed_mean",
                           "clip(2.0)+nnm+median", "bucketing(2) + krum"}) {
    EXPECT_EQ(Refusal(FlagsOf(rule, 12, 1)), "") << rule;
  }
}

TEST(RuleCheckTest, OthersAreRefusedInWords) {
  EXPECT_THAT(Refusal(FlagsOf("medan", 10, 1)),
              HasSubstr("--rule=medan: there is no rule 'medan'"));
  EXPECT_THAT(Refusal(FlagsOf("bulyan", 8, 2)),
              HasSubstr("bulyan with f=2 needs at least 11 workers; this job "
                        "has 8"));
  EXPECT_THAT(Refusal(FlagsOf("bucketing(2) + trimmed_mean", 10, 3)),
              HasSubstr("needs at least 7"));
  EXPECT_THAT(Refusal(FlagsOf("monna(5)", 5, 1)), HasSubstr("trusts worker 5"));
  EXPECT_EQ(Refusal(FlagsOf("krum", 512, 1)), "");
  EXPECT_THAT(Refusal(FlagsOf("krum", 513, 1)), HasSubstr("at most 512"));
  EXPECT_EQ(Refusal(FlagsOf("median", 513, 1)), "");
}

TEST(RuleCheckTest, AQuorumMustBeEnoughForTheRule) {
  CommonFlags flags = FlagsOf("krum", 10, 2);
  flags.patience.quorum = 7;
  EXPECT_EQ(Refusal(flags), "");
  flags.patience.quorum = 6;
  EXPECT_THAT(Refusal(flags), HasSubstr("--quorum=6 is too few"));
}

TEST(RuleCheckTest, Warnings) {
  EXPECT_THAT(RuleWarnings(FlagsOf("mean", 4, 0).job, false), IsEmpty());
  EXPECT_THAT(RuleWarnings(FlagsOf("mean", 4, 1).job, false),
              ElementsAre(HasSubstr("tolerates no liar")));
  EXPECT_THAT(RuleWarnings(FlagsOf("krum", 5, 1).job, false),
              ElementsAre(HasSubstr("silent")));
}

TEST(RuleCheckTest, ASecretThatIsDrawnAnewGivesOtherBits) {
  const JobConfig job = FlagsOf("clip(2) + bucketing(2) + median", 12, 1).job;
  EXPECT_THAT(RuleWarnings(job, false),
              ElementsAre(HasSubstr("--rule_secret for the same")));
  EXPECT_THAT(RuleWarnings(job, true), IsEmpty());
}

}  // namespace
}  // namespace parapet
