// Who is left out of a round, what follows, and what limits say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/rules/registry.h"
#include "tests/rules/aggregate.h"

namespace parapet::rules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int> LeftOutWorkers(const Plan& plan) {
  std::vector<int> workers;
  for (const LeftOut& one : plan.left_out) workers.push_back(one.worker);
  return workers;
}

// `faulty` rows of 11 have one NaN or infinity somewhere.
Round WithNotFinite(const std::string& rule, int faulty, int f) {
  Round round{rule, NormalRows(11, 50, 8), f};
  for (int k = 0; k < faulty; ++k)
    round.rows[2 * k][7 * k] = k % 2 == 0 ? kNan : -kInf;
  return round;
}

TEST(PlanTest, NotFiniteRowsLowerNAndF) {
  const Outcome outcome = MustAggregate(WithNotFinite("multi_krum", 2, 2));
  EXPECT_THAT(LeftOutWorkers(outcome.plan), ElementsAre(0, 2));
  EXPECT_FALSE(outcome.plan.bad);
  EXPECT_EQ(outcome.plan.notes[0].rows.size(), 9u);
  EXPECT_EQ(outcome.plan.notes[0].selected.size(),
            7u);  // n-f-2 with n = 9 and f = 0
  EXPECT_EQ(WorkerWeights(outcome.plan)[0], 0);
  // The same as without them.
  Round rest = WithNotFinite("multi_krum", 2, 2);
  rest.rows.erase(rest.rows.begin() + 2);
  rest.rows.erase(rest.rows.begin());
  rest.f = 0;
  EXPECT_EQ(outcome.values, MustAggregate(rest).values);
}

TEST(PlanTest, OnOneShardOnlyIsEverywhere) {
  Round round = WithNotFinite("geometric_median", 0, 2);
  round.rows[3][49] = kInf;
  round.leaf = 10;
  round.shards = 5;
  EXPECT_THAT(LeftOutWorkers(MustAggregate(round).plan), ElementsAre(3));
}

TEST(PlanTest, MoreThanFMakeTheRoundBad) {
  const Outcome outcome = MustAggregate(WithNotFinite("nnm + median", 3, 2));
  EXPECT_TRUE(outcome.plan.bad);
  EXPECT_EQ(outcome.plan.left_out.size(), 3u);
  EXPECT_EQ(outcome.values, std::vector<float>(50));
  EXPECT_THAT(outcome.plan.why_bad, HasSubstr("more than f=2"));
}

TEST(PlanTest, WithoutFMoreThanHalfMakeTheRoundBad) {
  EXPECT_FALSE(MustAggregate(WithNotFinite("clip(1) + mean", 5, 0)).plan.bad);
  EXPECT_TRUE(MustAggregate(WithNotFinite("clip(1) + mean", 6, 0)).plan.bad);
}

TEST(PlanTest, AbsurdAboveTenThousandTimesTheHonest) {
  for (const double factor : {0.99e4, 1.01e4}) {
    Round round{"cge", {{1}, {-1}, {1}, {1}, {0.5}}, 1};
    round.rows[2][0] = static_cast<float>(factor);
    const Plan plan = MustAggregate(round).plan;
    EXPECT_EQ(plan.left_out.size(), factor > 1e4 ? 1u : 0u);
  }
}

TEST(PlanTest, NormsOfEverySizeBesideHonestOnes) {
  for (const char* rule :
       {"clip(2) + krum", "arc + trimmed_mean", "geometric_median",
        "centered_clip(tau=2)", "clip(2) + nnm + trimmed_mean"}) {
    for (double norm = 1e2; norm < 2e36; norm *= 10) {
      Round round{rule, NormalRows(10, 30, 77), 2};
      for (int liar : {4, 7}) {
        for (float& value : round.rows[liar])
          value = static_cast<float>(value * norm);
      }
      const Outcome outcome = MustAggregate(round);
      EXPECT_EQ(outcome.plan.left_out.size(),
                norm > 2e4   ? 2u
                : norm < 5e3 ? 0u
                             : outcome.plan.left_out.size())
          << rule << " " << norm;
      // Eight honest vectors of norm about 5.5: no answer is as long as any of
      // them.
      double square = 0;
      for (float value : outcome.values) square += double{value} * value;
      EXPECT_LT(square, 45) << rule << " " << norm;
    }
  }
}

TEST(PlanTest, KrumAfterClipPicksAnHonestRow) {
  for (double norm = 1e2; norm < 2e36; norm *= 10) {
    Round round{"clip(1) + krum", NormalRows(10, 30, 78), 2};
    for (auto& row : round.rows)
      row[0] += 20;  // honest workers agree on something
    for (int liar : {0, 1}) {
      for (int j = 0; j < 30; ++j)
        round.rows[liar][j] = static_cast<float>(j % 2 ? norm : -norm);
    }
    const Outcome outcome = MustAggregate(round);
    EXPECT_GE(outcome.plan.notes.back().selected.at(0), 2) << norm;
  }
}

TEST(PlanTest, TrustedWorkers) {
  Round round{"monna(12)", NormalRows(5, 3, 1), 1};
  round.workers = {3, 7, 9, 12, 20};
  EXPECT_EQ(MustAggregate(round).plan.notes[0].selected[0], 12);
  round.rows[3][1] = kNan;
  EXPECT_THAT(
      std::string(Aggregate(round).status().message()),
      HasSubstr("monna's pivot, worker 12, is not among this round's vectors"));
  round.rule = "fltrust(4)";
  EXPECT_EQ(Aggregate(round).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// They are proven faulty, whatever becomes of the round.
TEST(PlanTest, WhoIsLeftOutIsNamedThoughTheLimitsFail) {
  const Rows rows = {{1, 2}, {kNan, 1}, {2, 1}};
  const std::vector<const float*> pointers = Pointers(rows);
  LocalRound round{&Cpu(), pointers, 2};
  for (const char* rule : {"krum", "monna(1)", "clip(1) + fltrust(1)"}) {
    round.f = rule[0] == 'k' ? 0 : 1;
    const LocalOutcome outcome = RunLocally(*Chain::Parse(rule), round);
    const Plan& plan = outcome.plan;
    EXPECT_TRUE(plan.bad && plan.limits_failed && plan.blames()) << rule;
    ASSERT_EQ(plan.left_out.size(), 1u) << rule;
    EXPECT_EQ(plan.left_out[0].worker, 1) << rule;
    EXPECT_THAT(plan.notes, testing::IsEmpty()) << rule;
    EXPECT_EQ(outcome.values, (std::vector<float>{0, 0})) << rule;
    EXPECT_THAT(
        plan.why_bad,
        HasSubstr(rule[0] == 'k' ? "needs at least 3 workers" : "is not among"))
        << rule;
  }
}

TEST(PlanTest, MoreThanCanLieAreNotBlamed) {
  const Rows rows = {{1, 2}, {kNan, 1}, {kNan, 1}};
  const std::vector<const float*> pointers = Pointers(rows);
  const LocalRound round{&Cpu(), pointers, 2};
  const Plan plan = RunLocally(*Chain::Parse("cge"), round).plan;
  EXPECT_TRUE(plan.bad);
  EXPECT_FALSE(plan.limits_failed || plan.blames());
  EXPECT_EQ(plan.left_out.size(), 2u);
}

TEST(PlanTest, FltrustOfZeroVectors) {
  EXPECT_EQ(MustAggregate({"fltrust(0)", {{0, 0}, {1, 0}, {2, 2}}, 1}).values,
            (std::vector<float>{0, 0}));
  EXPECT_EQ(MustAggregate({"fltrust(1)", {{0, 0}, {1, 0}, {2, 0}}, 1}).values,
            (std::vector<float>{1, 0}));
}

TEST(PlanTest, SecretShuffleIsAPermutationOfItsRound) {
  const std::vector<int> one = SecretShuffle(1, 2)(0, 50),
                         same = SecretShuffle(1, 2)(0, 50);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, SecretShuffle(1, 3)(0, 50));
  EXPECT_NE(one, SecretShuffle(2, 2)(0, 50));
  std::vector<int> sorted = one;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sorted[i], i);
}

std::string LimitsOf(const std::string& rule, int n, int f) {
  return std::string(Chain::Parse(rule)->CheckJob(n, f).message());
}

TEST(LimitsTest, InWords) {
  EXPECT_EQ(LimitsOf("bulyan", 8, 2),
            "bulyan with f=2 needs at least 11 workers; this job has 8");
  EXPECT_EQ(LimitsOf("bulyan", 11, 2), "");
  EXPECT_EQ(LimitsOf("krum", 6, 2),
            "krum with f=2 needs at least 7 workers; this job has 6");
  EXPECT_EQ(LimitsOf("median", 4, 2),
            "median with f=2 needs at least 5 workers; this job has 4");
  EXPECT_EQ(LimitsOf("mean", 1, 2), "");
  EXPECT_EQ(LimitsOf("mean", 0, 0),
            "mean with f=0 needs at least 1 workers; this job has 0");
  EXPECT_EQ(
      LimitsOf("multi_krum(m=9)", 10, 2),
      "multi_krum(m=9) with f=2 needs at least 11 workers; this job has 10");
  EXPECT_EQ(LimitsOf("monna(10)", 10, 2),
            "monna(10) trusts worker 10; this job has workers 0 to 9");
  EXPECT_EQ(
      LimitsOf("smea", 30, 10),
      "smea with f=10 would try 30045015 subsets of 30 vectors; at most 50000");
  EXPECT_EQ(LimitsOf("smea", 32, 4), "");
  EXPECT_EQ(LimitsOf("smea", 64, 3),
            "smea with f=3 would do 9.5e+09 multiplications for 41664 subsets "
            "of 64 vectors; at most 1e+09");
  EXPECT_EQ(LimitsOf("mda", 64, 24), "");
  EXPECT_EQ(LimitsOf("mda", 64, 25),
            "mda with f=25 would search trees of 1.47^25 leaves; at most f=24");
}

TEST(LimitsTest, OfEachStageWithWhatItSees) {
  EXPECT_EQ(LimitsOf("bucketing(2) + trimmed_mean", 10, 2), "");
  EXPECT_EQ(LimitsOf("bucketing(2) + krum", 10, 1), "");
  EXPECT_EQ(LimitsOf("bucketing(2) + krum", 10, 2),
            "krum with f=2 needs at least 7 vectors; this job has 10, of which "
            "bucketing(2) makes 5");
  EXPECT_NE(LimitsOf("bucketing(2) + trimmed_mean", 10, 3), "");
}

TEST(LimitsTest, Warnings) {
  EXPECT_THAT(Chain::Parse("mean")->Warnings(10, 2),
              ElementsAre(HasSubstr("mean tolerates no liar")));
  EXPECT_THAT(Chain::Parse("krum")->Warnings(7, 2),
              ElementsAre(HasSubstr("silent")));
  EXPECT_TRUE(Chain::Parse("median")->Warnings(10, 2).empty());
  EXPECT_TRUE(Chain::Parse("mean")->Warnings(10, 0).empty());
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Chain> chain = Chain::Parse(text);
  return chain.ok() ? "" : std::string(chain.status().message());
}

TEST(GrammarTest, Accepts) {
  for (const char* text :
       {"mean", " clip( 2.0 )+nnm + trimmed_mean ", "clip(c=1e+3) + median",
        "mean(unweighted)",
        "geometric_median(nu=0.1, iterations=3, start=zero)",
        "geometric_median(0.1, 3, zero)", "centered_clip()",
        "bucketing(2) + bucketing(2) + median", "multi_krum(m=7)"}) {
    EXPECT_EQ(ErrorOf(text), "") << text;
  }
  EXPECT_EQ(Chain::Parse(" clip( 2.0 )+nnm + trimmed_mean ")->text(),
            "clip(2.0) + nnm + trimmed_mean");
}

TEST(GrammarTest, RefusesInWords) {
  EXPECT_THAT(
      ErrorOf("kurm"),
      HasSubstr("there is no rule 'kurm'; expected one of mean, median"));
  EXPECT_THAT(ErrorOf("nnm"), HasSubstr("comes before a rule"));
  EXPECT_THAT(ErrorOf("median + krum"),
              HasSubstr("'median' is a rule and must come last"));
  EXPECT_EQ(ErrorOf("clip + median"),
            "clip needs c, a number above 0: clip(c=...)");
  EXPECT_EQ(ErrorOf("clip(-1) + median"),
            "clip: c must be a number above 0, not '-1'");
  EXPECT_EQ(ErrorOf("clip(nan) + median"),
            "clip: c must be a number above 0, not 'nan'");
  EXPECT_EQ(ErrorOf("multi_krum(m=2.5)"),
            "multi_krum: m must be a whole number from 1 to 65535, not '2.5'");
  EXPECT_EQ(ErrorOf("centered_clip(1, 65536)"),
            "centered_clip: iterations must be a whole number from 1 to 65535, "
            "not '65536'");
  EXPECT_EQ(ErrorOf("krum(3)"), "krum has no option '3'; it takes none");
  EXPECT_EQ(ErrorOf("geometric_median(start=here)"),
            "geometric_median: start must be mean or zero, not 'here'");
  EXPECT_EQ(ErrorOf("centered_clip(tau=1, tau=2)"),
            "centered_clip: tau given twice");
  EXPECT_THAT(ErrorOf("bucketing(2) + monna(0)"),
              HasSubstr("trusts one worker's vector"));
  EXPECT_THAT(ErrorOf("krum)"), HasSubstr("expected a name"));
  EXPECT_THAT(ErrorOf("krum(1"), HasSubstr("expected ')' at the end"));
  EXPECT_THAT(ErrorOf("mean + "), HasSubstr("expected a name"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("expected a name"));
  EXPECT_THAT(ErrorOf(std::string(5000, 'x')),
              HasSubstr("at most 1024 characters"));
  EXPECT_THAT(ErrorOf("nnm+nnm+nnm+nnm+nnm+nnm+nnm+nnm+mean"),
              HasSubstr("at most 8"));
}

TEST(RegistryTest, EveryLineIsWhole) {
  const std::vector<StageInfo> stages = AllStages();
  EXPECT_EQ(stages.size(), 23u);
  for (const StageInfo& stage : stages) {
    for (const std::string& text :
         {stage.name, stage.formula, stage.limits, stage.cost, stage.paper}) {
      EXPECT_NE(text, "") << stage.name;
    }
  }
}

TEST(RegistryTest, WhatAChainNeeds) {
  EXPECT_FALSE(Chain::Parse("trimmed_mean")->needs_distances());
  EXPECT_TRUE(Chain::Parse("clip(1) + mean")->needs_distances());
  EXPECT_TRUE(Chain::Parse("krum")->needs_distances());
  EXPECT_TRUE(Chain::Parse("nnm + centered_clip")->needs_previous());
  EXPECT_FALSE(Chain::Parse("krum")->needs_previous());
  EXPECT_TRUE(Chain::Parse("mean")->weighted());
  EXPECT_FALSE(Chain::Parse("clip(1) + mean")->weighted());
}

}  // namespace
}  // namespace parapet::rules
