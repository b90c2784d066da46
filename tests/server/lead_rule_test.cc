// The lead under rules: decisions, limits, strikes, suspicion.

#include <cmath>

#include "server/decision.h"
#include "server/rules/make_plan.h"
#include "tests/server/lead_fixture.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

LeadConfig RuleJob(const std::string& rule, int f, int servers, int workers,
                   int64_t rounds = 100) {
  LeadConfig config = JobOf(servers, workers, rounds);
  config.job.rule = rule;
  config.job.byzantine = f;
  return config;
}

// One-dimensional vectors, a share of each square on every server.
class LeadRuleTest : public testing::Test {
 protected:
  void Begin(const LeadConfig& config) {
    config_ = config;
    t_.emplace(config);
    begun_ = t_->Gather();
  }

  ShardReportMessage ReportOf(uint64_t round,
                              const std::vector<uint32_t>& workers) {
    ShardReportMessage report;
    report.round = round;
    report.workers = workers;
    report.finite.assign(workers.size(), true);
    std::vector<double> at;
    for (uint32_t worker : workers) at.push_back(where_.at(worker));
    at.push_back(0);
    at.push_back(0);
    std::vector<ExactSum> sums;
    for (size_t i = 0; i < at.size(); ++i) {
      for (size_t j = i + 1; j < at.size(); ++j) {
        sums.emplace_back().Add((at[i] - at[j]) * (at[i] - at[j]) /
                                config_.job.servers);
      }
    }
    report.sums = std::make_shared<std::vector<ExactSum>>(std::move(sums));
    return report;
  }
  LeadEffects Report(int server, uint64_t round,
                     const std::vector<uint32_t>& workers) {
    return t_->Do(Lead::ReportIn{server, ReportOf(round, workers)});
  }
  LeadEffects ReportEverywhere(uint64_t round,
                               const std::vector<uint32_t>& workers) {
    LeadEffects all;
    for (int s = 0; s < config_.job.servers; ++s)
      LeadTesting::Append(&all, Report(s, round, workers));
    return all;
  }
  // What the node does.
  LeadEffects Plan(const Lead::MakePlan& effect) {
    return t_->Do(Lead::PlannedIn{
        effect.round,
        rules::MakePlan(*rules::Chain::Parse(config_.job.rule),
                        {effect.workers, effect.finite, &effect.distances,
                         config_.job.byzantine, rules::SecretShuffle(1, 2)})});
  }
  DecisionMessage Decide(uint64_t round, const std::vector<uint32_t>& workers) {
    const auto plan = TheOne<Lead::MakePlan>(ReportEverywhere(round, workers));
    const auto told = Told<DecisionMessage>(Plan(plan));
    EXPECT_EQ(told.size(), 1u);
    return told.empty() ? DecisionMessage() : told[0];
  }

  LeadConfig config_;
  std::optional<LeadTesting> t_;
  LeadEffects begun_;
  std::vector<double> where_ = {0, 1, 6, 9, 13};
};

TEST_F(LeadRuleTest, DecidesOnceEveryShardHasReported) {
  Begin(RuleJob("krum", 1, 2, 5));
  EXPECT_THAT(AllOf<Lead::MakePlan>(Report(0, 0, {0, 1, 2, 3, 4})), IsEmpty());
  EXPECT_THAT(AllOf<Lead::MakePlan>(Report(0, 0, {0, 1, 2, 3, 4})), IsEmpty())
      << "told again";
  const auto plan = TheOne<Lead::MakePlan>(Report(1, 0, {0, 1, 2, 3, 4}));
  EXPECT_EQ(plan.round, 0u);
  EXPECT_THAT(plan.workers, ElementsAre(0, 1, 2, 3, 4));
  // The shares of the two servers, added up.
  EXPECT_EQ(plan.distances(0, 4), 169);
  EXPECT_EQ(plan.distances(2, 3), 9);
  const auto decision = Told<DecisionMessage>(Plan(plan));
  ASSERT_EQ(decision.size(), 1u);
  EXPECT_EQ(decision[0].round, 0u);
  // The winner is 9: {0, 1, 6, 9, 13} of the oracles.
  EXPECT_THAT(decision[0].weights, ElementsAre(0, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(Told<DecisionMessage>(Report(1, 0, {0, 1, 2, 3, 4})), IsEmpty());
}

TEST_F(LeadRuleTest, AServerWithoutChunksHasNothingToReport) {
  LeadConfig config = RuleJob("krum", 1, 2, 5);
  config.shard_chunks = {2, 0};
  Begin(config);
  EXPECT_EQ(AllOf<Lead::MakePlan>(Report(0, 0, {0, 1, 2, 3, 4})).size(), 1u);
}

// Who abstained on one shard and pushed on another is left out; the others keep
// their distances.
TEST_F(LeadRuleTest, OnlyThoseWholeOnEveryShardEnter) {
  Begin(RuleJob("nnm + median", 1, 2, 5));
  Report(0, 0, {0, 1, 2, 3, 4});
  const auto plan = TheOne<Lead::MakePlan>(Report(1, 0, {0, 2, 3, 4}));
  EXPECT_THAT(plan.workers, ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(plan.distances(1, 2), 9);
  EXPECT_EQ(plan.distances(0, 3), 169);
}

TEST_F(LeadRuleTest, ReportsThatMakeNoSenseAreNotCounted) {
  Begin(RuleJob("krum", 1, 1, 5));
  where_.resize(10, 1);
  EXPECT_THAT(Warnings(Report(0, 0, {0, 1, 2, 3, 9})), HasSubstr("no sense"));
  ShardReportMessage report = ReportOf(0, {0, 1, 2, 3, 4});
  report.sums = std::make_shared<std::vector<ExactSum>>(3);
  EXPECT_THAT(Warnings(t_->Do(Lead::ReportIn{0, report})),
              HasSubstr("no sense"));
  report = ReportOf(0, {0, 1, 2, 3, 4});
  std::swap(report.workers[0], report.workers[1]);
  EXPECT_THAT(Warnings(t_->Do(Lead::ReportIn{0, report})),
              HasSubstr("no sense"));
  EXPECT_THAT(t_->Do(Lead::ReportIn{0, ReportOf(50, {0, 1, 2, 3, 4})}),
              IsEmpty())
      << "a round that was never leased";
  EXPECT_EQ(AllOf<Lead::MakePlan>(Report(0, 0, {0, 1, 2, 3, 4})).size(), 1u);
}

TEST_F(LeadRuleTest, AServerThatComesBackHearsTheDecisionAgain) {
  Begin(RuleJob("krum", 1, 2, 5));
  Decide(0, {0, 1, 2, 3, 4});
  size_t decisions = 0;
  for (const Body& body : t_->lead().Recap(Role::kServer))
    decisions += std::holds_alternative<DecisionMessage>(body) ? 1 : 0;
  EXPECT_EQ(decisions, 1u);
  for (const Body& body : t_->lead().Recap(Role::kWorker))
    EXPECT_FALSE(std::holds_alternative<DecisionMessage>(body));
}

// Otherwise a shard would drop what another has reduced.
TEST_F(LeadRuleTest, ADecidedRoundIsNotClosedAnyMore) {
  Begin(RuleJob("krum", 0, 2, 5));
  const auto plan =
      TheOne<Lead::MakePlan>(ReportEverywhere(0, {0, 1, 2, 3, 4}));
  for (const auto& close :
       Told<CloseMessage>(t_->Do(Lead::LeaveIn{WorkerPeer(2), "tired"})))
    EXPECT_GT(close.round, 0u);
  EXPECT_THAT(Told<DecisionMessage>(Plan(plan))[0].workers,
              ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(LeadRuleTest, WhereNobodyTakesPartThereIsNothingToPlan) {
  Begin(RuleJob("krum", 1, 1, 5));
  const LeadEffects effects = Report(0, 0, {});
  EXPECT_THAT(AllOf<Lead::MakePlan>(effects), IsEmpty());
  const auto decision = Told<DecisionMessage>(effects);
  ASSERT_EQ(decision.size(), 1u);
  EXPECT_FALSE(decision[0].bad);
  EXPECT_TRUE(ToPlan(decision[0]).ok());
}

// Those who abstain do not come back, so there is nothing to wait for.
TEST_F(LeadRuleTest, TooManyAbstentionsMakeABadRound) {
  Begin(RuleJob("krum", 1, 1, 5));
  const DecisionMessage decision = Decide(0, {0, 1, 2});
  EXPECT_TRUE(decision.bad);
  EXPECT_THAT(decision.workers, ElementsAre(0, 1, 2));
  const LeadEffects done = t_->FinishRound(0, {0, 1, 2});
  const RoundRecord record = TheOne<Lead::Record>(done).record;
  EXPECT_THAT(record.why_bad, HasSubstr("krum with f=1 needs at least 5"));
  EXPECT_THAT(record.participants, ElementsAre(0, 1, 2));
  EXPECT_THAT(record.abstained, ElementsAre(3, 4));
  EXPECT_THAT(record.weights, IsEmpty());
  EXPECT_THAT(Warnings(done), HasSubstr("round 0 is bad"));
}

// What proves a worker faulty counts also when no round comes of it.
TEST_F(LeadRuleTest, WhoIsProvenFaultyIsStruckThoughTheLimitsFail) {
  Begin(RuleJob("krum", 0, 1, 3));
  ShardReportMessage report = ReportOf(0, {0, 1, 2});
  report.finite[1] = false;
  const auto effects = t_->Do(Lead::ReportIn{0, std::move(report)});
  const auto decisions =
      Told<DecisionMessage>(Plan(TheOne<Lead::MakePlan>(effects)));
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_TRUE(decisions[0].bad);
  EXPECT_TRUE(ToPlan(decisions[0]).ok());
  const LeadEffects done = t_->FinishRound(0, {0, 1, 2});
  const RoundRecord record = TheOne<Lead::Record>(done).record;
  EXPECT_THAT(record.why_bad, HasSubstr("krum with f=0 needs at least 3"));
  ASSERT_EQ(record.left_out.size(), 1u);
  EXPECT_EQ(record.left_out[0].worker, 1u);
  EXPECT_THAT(record.participants, ElementsAre(0, 2));
  EXPECT_THAT(Warnings(done), HasSubstr("worker 1 sent a value that is not "
                                        "finite (strike 1)"));
  EXPECT_NEAR(record.suspicion[1].rate, 0.02, 1e-12);
}

TEST_F(LeadRuleTest, ATrustedWorkerThatAbstainsMakesABadRound) {
  Begin(RuleJob("monna(4)", 1, 1, 5));
  EXPECT_TRUE(Decide(0, {0, 1, 2, 3}).bad);
  const RoundRecord record =
      TheOne<Lead::Record>(t_->FinishRound(0, {0, 1, 2, 3})).record;
  EXPECT_THAT(record.why_bad, HasSubstr("monna's pivot, worker 4"));
  EXPECT_THAT(record.abstained, ElementsAre(4));
  EXPECT_THAT(record.left_out, IsEmpty());
}

TEST_F(LeadRuleTest, BadRoundsInARowEndTheJob) {
  LeadConfig config = RuleJob("krum", 1, 1, 5);
  config.job.max_bad_rounds = 2;
  Begin(config);
  LeadEffects all;
  for (uint64_t round : {0, 1}) {
    Decide(round, {0, 1, 2});
    LeadTesting::Append(&all, t_->FinishRound(round, {0, 1, 2}));
  }
  bool stops = false;
  for (const auto& lease : Told<LeaseMessage>(all)) {
    for (const Mark& mark : lease.lease.marks)
      stops = stops || mark.kind == Mark::Kind::kStop;
  }
  EXPECT_TRUE(stops);
}

TEST_F(LeadRuleTest, TheRecordSaysWhatTheRuleDid) {
  Begin(RuleJob("krum", 1, 1, 5));
  Decide(0, {0, 1, 2, 3, 4});
  const RoundRecord record =
      TheOne<Lead::Record>(t_->FinishRound(0, {0, 1, 2, 3, 4})).record;
  EXPECT_EQ(record.rule, "krum");
  EXPECT_EQ(record.f, 1);
  EXPECT_THAT(record.participants, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(record.weights, ElementsAre(0, 0, 0, 1, 0));
  ASSERT_EQ(record.stages.size(), 1u);
  EXPECT_THAT(record.stages[0].selected, ElementsAre(3));
  EXPECT_EQ(record.stages[0].scores.size(), 5u);
  EXPECT_EQ(record.why_bad, "");
  EXPECT_THAT(record.abstained, IsEmpty());
}

TEST_F(LeadRuleTest, WhoIsProvenFaultyIsLeftOutAndStruck) {
  where_ = {1, 2, 3, 4, 1e9};
  Begin(RuleJob("krum", 1, 1, 5));
  Decide(0, {0, 1, 2, 3, 4});
  const LeadEffects done = t_->FinishRound(0, {0, 1, 2, 3, 4});
  const RoundRecord record = TheOne<Lead::Record>(done).record;
  EXPECT_THAT(record.participants, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(record.weights.size(), 4u);
  ASSERT_EQ(record.left_out.size(), 1u);
  EXPECT_EQ(record.left_out[0].worker, 4u);
  EXPECT_EQ(record.left_out[0].reason, RoundRecord::Reason::kAbsurd);
  EXPECT_THAT(Warnings(done), HasSubstr("round 0: worker 4 sent a vector"));
  EXPECT_THAT(t_->lead().GetProgress(t_->now()).left_out, ElementsAre(4));
}

TEST_F(LeadRuleTest, ValuesThatAreNotFiniteAreStruckUpToF) {
  Begin(RuleJob("median", 1, 1, 5));
  const auto done_with = [&](uint64_t round, std::vector<uint32_t> liars) {
    ShardDoneMessage done;
    done.round = round;
    done.participants = {0, 1, 2, 3, 4};
    for (uint32_t liar : liars) done.bad.push_back({liar, 3});
    return t_->Do(Lead::ShardDoneIn{0, std::move(done)});
  };
  EXPECT_THAT(Warnings(done_with(0, {3})),
              HasSubstr("worker 3 sent values that are not finite (strike 1)"));
  const LeadEffects two = done_with(1, {2, 3});
  EXPECT_THAT(Warnings(two), Not(HasSubstr("not finite")))
      << "more than f: something else is wrong";
  const RoundRecord both = TheOne<Lead::Record>(two).record;
  ASSERT_EQ(both.bad_values.size(), 2u);
  // 1/50 of the first round, which the second has let fade.
  EXPECT_NEAR(both.suspicion[3].rate, 0.02 * 0.98, 1e-12);
  EXPECT_EQ(both.suspicion[2].rate, 0);
}

TEST_F(LeadRuleTest, WhoAlwaysSendsValuesThatAreNotFiniteIsSuspect) {
  Begin(RuleJob("trimmed_mean", 1, 1, 5, 1000));
  for (uint64_t round = 0; round < 150; ++round) {
    ShardDoneMessage done;
    done.round = round;
    done.participants = {0, 1, 2, 3, 4};
    done.bad = {{4, 3}};
    t_->PassTime(absl::Milliseconds(50));
    t_->Do(Lead::ShardDoneIn{0, std::move(done)});
  }
  const auto suspects = t_->lead().GetProgress(t_->now()).suspects;
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].worker, 4u);
  EXPECT_NEAR(suspects[0].rate, 1 - std::pow(0.98, 150), 1e-9);
}

// Clipping gives weight to zero: that is nobody's lack.
TEST_F(LeadRuleTest, ClippingMakesNobodySuspect) {
  where_ = {100, 100, 100, 100, 100};
  Begin(RuleJob("clip(1) + cge", 1, 1, 5));
  Decide(0, {0, 1, 2, 3, 4});
  const RoundRecord record =
      TheOne<Lead::Record>(t_->FinishRound(0, {0, 1, 2, 3, 4})).record;
  // Four are kept, each clipped to a hundredth.
  EXPECT_NEAR(record.weights[0], 0.25 / 100, 1e-12);
  EXPECT_LT(record.suspicion[0].rate, 1e-12);
  EXPECT_NEAR(record.suspicion[4].rate, 0.02, 1e-12);
}

TEST_F(LeadRuleTest, WeightForZeroAloneBlamesNobody) {
  where_ = {0, 0, 0};
  Begin(RuleJob("fltrust(0)", 1, 1, 3));
  const auto plan = TheOne<Lead::MakePlan>(ReportEverywhere(0, {0, 1, 2}));
  rules::Plan none;
  none.workers = plan.workers;
  none.mixes = true;
  none.mixing = rules::Mixing(1, 5);
  none.mixing.at(0, 4) = 1;
  t_->Do(Lead::PlannedIn{0, none});
  const RoundRecord record =
      TheOne<Lead::Record>(t_->FinishRound(0, {0, 1, 2})).record;
  EXPECT_THAT(record.weights, ElementsAre(0, 0, 0));
  for (const auto& s : record.suspicion) EXPECT_EQ(s.rate, 0);
}

// Who is never picked is no more suspect than the others who never are.
TEST_F(LeadRuleTest, ARuleThatPicksOneAccusesNobody) {
  where_ = {10, 10, 10, 10, 10};
  Begin(RuleJob("krum", 1, 1, 5, 1000));
  for (uint64_t round = 0; round < 300; ++round) {
    Decide(round, {0, 1, 2, 3, 4});
    t_->FinishRound(round, {0, 1, 2, 3, 4}, absl::Milliseconds(50));
  }
  EXPECT_THAT(t_->lead().GetProgress(t_->now()).suspects, IsEmpty());
}

// Any server may see the protocol broken; a round counts once.
TEST_F(LeadRuleTest, StrikesOfEveryServerAreAccountedFor) {
  Begin(RuleJob("median", 1, 2, 5));
  const auto done_with = [&](int server,
                             std::vector<ShardDoneMessage::Strike> strikes) {
    ShardDoneMessage done;
    done.participants = {0, 1, 2, 3, 4};
    done.strikes = std::move(strikes);
    return t_->Do(Lead::ShardDoneIn{server, std::move(done)});
  };
  done_with(0, {{3, Code::kOverCredit, 2}});
  const LeadEffects effects =
      done_with(1, {{1, Code::kBadSamples, 1},
                    {3, Code::kEquivocation, 1},
                    {3, Code::kOverCredit, 5},
                    {9, Code::kProtocol, 1}});  // there is no such worker
  const RoundRecord record = TheOne<Lead::Record>(effects).record;
  ASSERT_EQ(record.strikes.size(), 3u);
  EXPECT_EQ(record.strikes[0].worker, 1u);
  EXPECT_EQ(record.strikes[0].code, Code::kBadSamples);
  EXPECT_EQ(record.strikes[1].code, Code::kEquivocation);
  EXPECT_EQ(record.strikes[2].worker, 3u);
  EXPECT_EQ(record.strikes[2].code, Code::kOverCredit);
  EXPECT_EQ(record.strikes[2].count, 7u);
  EXPECT_THAT(Warnings(effects),
              HasSubstr("round 0: worker 3 broke the rules: equivocation, "
                        "over_credit (strike 1)"));
  ASSERT_EQ(record.suspicion.size(), 5u);
  EXPECT_NEAR(record.suspicion[1].rate, 0.02, 1e-12);
  EXPECT_NEAR(record.suspicion[3].rate, 0.02, 1e-12);
  EXPECT_EQ(record.suspicion[0].rate, 0);
  EXPECT_THAT(record.participants, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(LeadRuleTest, SuspicionGrowsOnWhoIsLeftOut) {
  where_ = {1, 2, 3, 4, 1e9};
  Begin(RuleJob("cge", 1, 1, 5, 1000));
  RoundRecord record;
  for (uint64_t round = 0; round < 200; ++round) {
    Decide(round, {0, 1, 2, 3, 4});
    record = TheOne<Lead::Record>(t_->FinishRound(round, {0, 1, 2, 3, 4},
                                                  absl::Milliseconds(50)))
                 .record;
  }
  ASSERT_EQ(record.suspicion.size(), 5u);
  // 1 - (1 - 1/50)^200.
  EXPECT_NEAR(record.suspicion[4].rate, 0.9824, 1e-4);
  EXPECT_LT(record.suspicion[0].rate, 1e-9);
  const auto suspects = t_->lead().GetProgress(t_->now()).suspects;
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].worker, 4u);
}

TEST_F(LeadRuleTest, AServerThatDoesNotReportIsNamed) {
  Begin(RuleJob("krum", 1, 2, 5));
  t_->CompleteEverywhere(0, {0, 1, 2, 3, 4});
  Report(0, 0, {0, 1, 2, 3, 4});
  t_->ShardDone(0, 0, {0, 1, 2, 3, 4});
  EXPECT_THAT(Warnings(t_->PassTime(absl::Seconds(11))),
              HasSubstr("round 0 has waited 10s for server 1"));
}

// ---- Limits -----------------------------------------------------------------

TEST_F(LeadRuleTest, ARoundIsNotClosedBelowTheLimits) {
  LeadConfig config = RuleJob("krum", 1, 1, 6);
  config.patience.round_deadline = absl::Seconds(1);
  config.patience.insufficient_for = absl::Seconds(5);
  Begin(config);
  t_->Complete(0, 0, {0, 1, 2, 3});
  LeadEffects effects = t_->PassTime(absl::Seconds(2));
  EXPECT_THAT(Told<CloseMessage>(effects), IsEmpty());
  EXPECT_THAT(Warnings(effects),
              HasSubstr("round 0 waits: krum with f=1 needs at least 5"));
  EXPECT_THAT(Warnings(effects), HasSubstr("missing: worker 4, worker 5"));
  // One of them comes after all.
  effects = t_->Complete(0, 0, {0, 1, 2, 3, 5});
  LeadTesting::Append(&effects, t_->PassTime(absl::Seconds(1)));
  const auto closes = Told<CloseMessage>(effects);
  ASSERT_FALSE(closes.empty());
  EXPECT_EQ(closes[0].workers, Ids({0, 1, 2, 3, 5}));
}

TEST_F(LeadRuleTest, WhenTooFewStayTheJobEnds) {
  LeadConfig config = RuleJob("krum", 1, 1, 6);
  config.patience.round_deadline = absl::Seconds(1);
  config.patience.insufficient_for = absl::Seconds(5);
  Begin(config);
  t_->Complete(0, 0, {0, 1, 2, 3});
  const LeadEffects effects = t_->PassTime(absl::Seconds(8));
  const auto closes = Told<CloseMessage>(effects);
  ASSERT_FALSE(closes.empty());
  EXPECT_TRUE(closes[0].workers.Empty());
  bool stops = false;
  for (const auto& lease : Told<LeaseMessage>(effects)) {
    for (const Mark& mark : lease.lease.marks)
      stops = stops || mark.kind == Mark::Kind::kStop;
  }
  EXPECT_TRUE(stops);
}

TEST_F(LeadRuleTest, WithoutEnoughMembersThereIsNothingToWaitFor) {
  Begin(RuleJob("krum", 1, 1, 5));
  const LeadEffects effects = t_->Do(Lead::LeaveIn{WorkerPeer(2), "tired"});
  const auto closes = Told<CloseMessage>(effects);
  ASSERT_FALSE(closes.empty());
  EXPECT_TRUE(closes[0].workers.Empty());
}

TEST_F(LeadRuleTest, WithoutTheTrustedWorkerThereIsNoRound) {
  Begin(RuleJob("fltrust(2)", 1, 1, 5));
  const LeadEffects effects = t_->Do(Lead::LeaveIn{WorkerPeer(2), "tired"});
  EXPECT_THAT(Warnings(effects), HasSubstr("trusts worker 2"));
  EXPECT_TRUE(Told<CloseMessage>(effects)[0].workers.Empty());
}

}  // namespace
}  // namespace parapet
