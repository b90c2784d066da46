// The lead: leases, that is, what happens in which round.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "server/lead.h"
#include "tests/server/lead_fixture.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every lease of a job whose rounds each take `took`.
std::vector<Lease> AllLeases(const LeadConfig& config, absl::Duration took,
                             LeadEffects* all) {
  LeadTesting t(config);
  *all = t.Gather();
  while (t.lead().version() < Leases(*all).back().until) {
    const uint64_t round = t.lead().version();
    LeadTesting::Append(all, t.FinishRound(round, {0}, took));
    if (t.lead().version() == round) ADD_FAILURE() << "stuck at " << round;
    if (t.lead().version() == round) break;
  }
  return Leases(*all);
}

std::vector<RoundFacts> FactsOf(const std::vector<Lease>& leases) {
  std::vector<RoundFacts> facts;
  for (const Lease& lease : leases) {
    facts.insert(facts.end(), lease.facts.begin(), lease.facts.end());
  }
  return facts;
}

std::vector<uint64_t> Marked(const std::vector<Lease>& leases,
                             Mark::Kind kind) {
  std::vector<uint64_t> versions;
  for (const Lease& lease : leases) {
    for (const Mark& mark : lease.marks) {
      if (mark.kind == kind) versions.push_back(mark.version);
    }
  }
  return versions;
}

TEST(LeadLeaseTest, FollowOneAnotherWithoutGapAndEndWhereTheJobEnds) {
  for (int64_t rounds : {1, 2, 3, 9, 10, 50}) {
    for (int took : {1, 300, 5000}) {
      LeadEffects all;
      const auto leases =
          AllLeases(JobOf(2, 1, rounds), absl::Milliseconds(took), &all);
      uint64_t until = 0;
      for (const Lease& lease : leases) {
        EXPECT_EQ(lease.from, until);
        EXPECT_GT(lease.until, lease.from);
        EXPECT_LE(lease.until - lease.from, 8u);
        EXPECT_EQ(lease.facts.size(), lease.until - lease.from);
        until = lease.until;
      }
      EXPECT_EQ(until, static_cast<uint64_t>(rounds));
      EXPECT_THAT(Marked(leases, Mark::Kind::kStop),
                  ElementsAre(static_cast<uint64_t>(rounds)));
    }
  }
}

TEST(LeadLeaseTest, AreAheadByAboutASecond) {
  // How far the leases reach beyond the version, once round times are known.
  const auto ahead = [](absl::Duration took) {
    LeadTesting t(JobOf(1, 1, 1000));
    uint64_t until = Leases(t.Gather()).back().until;
    for (uint64_t r = 0; r < 40; ++r) {
      const auto leases = Leases(t.FinishRound(r, {0}, took));
      if (!leases.empty()) until = leases.back().until;
      EXPECT_GT(until, r + 1) << "nobody may begin round " << r + 1;
    }
    return until - 40;
  };
  EXPECT_LE(ahead(absl::Seconds(3)), 2u);
  EXPECT_LE(ahead(absl::Milliseconds(250)), 5u);
  EXPECT_GE(ahead(absl::Milliseconds(10)), 5u);
  EXPECT_LE(ahead(absl::Milliseconds(10)), 9u);
}

TEST(LeadLeaseTest, TheLastRoundOfAnEpochTakesWhatIsLeft) {
  LeadConfig config = JobOf(1, 2, 0);
  config.job.epochs = 2;
  config.samples = 21;
  LeadEffects all;
  const auto facts = FactsOf(AllLeases(config, absl::Milliseconds(10), &all));
  ASSERT_EQ(facts.size(), 6u);
  for (uint64_t r = 0; r < 6; ++r) {
    EXPECT_EQ(facts[r].epoch, r / 3);
    EXPECT_EQ(facts[r].position, r % 3 * 8);
    EXPECT_EQ(facts[r].samples, r % 3 == 2 ? 5u : 8u);
  }
}

TEST(LeadLeaseTest, FactsHaveTheLearningRateAndTheBiasOfTheirStep) {
  LeadConfig config = JobOf(1, 1, 20);
  config.job.optimizer.kind = OptimizerKind::kAdam;
  config.job.schedule.kind = ScheduleKind::kCosine;
  config.job.schedule.warmup = 4;
  LeadEffects all;
  const auto facts = FactsOf(AllLeases(config, absl::Milliseconds(10), &all));
  ASSERT_EQ(facts.size(), 20u);
  for (uint64_t r = 0; r < 20; ++r) {
    EXPECT_EQ(facts[r].lr, LearningRate(config.job.schedule, 1, r, 20,
                                        RoundsPerEpoch(config.samples, 4)));
    const auto count = static_cast<double>(r + 1);
    EXPECT_EQ(facts[r].bias1, 1 - std::pow(0.9, count));
    EXPECT_EQ(facts[r].bias2, 1 - std::pow(0.999, count));
  }
  EXPECT_EQ(facts[19].lr, 0);
}

TEST(LeadLeaseTest, WithoutAdamThereIsNoBias) {
  LeadEffects all;
  for (const RoundFacts& f :
       FactsOf(AllLeases(JobOf(1, 1, 3), absl::Milliseconds(10), &all))) {
    EXPECT_EQ(f.bias1, 1);
    EXPECT_EQ(f.bias2, 1);
    EXPECT_EQ(f.lr, JobConfig().schedule.lr);
  }
}

TEST(LeadLeaseTest, AJobGoesOnWhereItsSnapshotWas) {
  LeadConfig config = JobOf(1, 1, 100);
  config.version = 253;
  config.job.rounds = 300;
  config.epoch = 1;
  config.position = 12;
  config.job.optimizer.kind = OptimizerKind::kAdamW;
  LeadTesting t(config);
  const auto leases = Leases(t.Gather());
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].from, 253u);
  EXPECT_EQ(leases[0].facts[0].epoch, 1u);
  EXPECT_EQ(leases[0].facts[0].position, 12u);
  EXPECT_EQ(leases[0].facts[0].bias1, 1 - std::pow(0.9, 254.0));
}

TEST(LeadLeaseTest, FewerMembersTakeFewerSamplesAndSkipNone) {
  LeadTesting t(JobOf(1, 3, 50));
  LeadEffects all = t.Gather();
  t.Do(Lead::LeaveIn{WorkerPeer(1), "tired"});
  for (uint64_t r = 0; r < 10; ++r) {
    LeadTesting::Append(&all, t.FinishRound(r, {0, 2}));
  }
  const auto leases = Leases(all);
  EXPECT_EQ(leases.front().members.size(), 3u);
  EXPECT_EQ(leases.back().members.size(), 2u);
  EXPECT_EQ(leases.back().facts[0].samples, 8u);
  uint64_t position = 0;
  for (const RoundFacts& f : FactsOf(leases)) {
    EXPECT_EQ(f.position, position);
    position += f.samples;
  }
}

// ---- Marks ------------------------------------------------------------------

TEST(LeadMarkTest, TheEndHasASnapshotAHashAndAnEvaluation) {
  LeadConfig config = JobOf(1, 1, 3);
  config.evaluators = 1;
  config.snapshot.dir = "snap";
  LeadEffects all;
  const auto leases = AllLeases(config, absl::Milliseconds(10), &all);
  for (auto kind : {Mark::Kind::kStop, Mark::Kind::kSnapshot, Mark::Kind::kHash,
                    Mark::Kind::kEvaluate}) {
    EXPECT_THAT(Marked(leases, kind), ElementsAre(3));
  }
}

TEST(LeadMarkTest, WithoutAFolderThereIsNoSnapshot) {
  LeadConfig config = JobOf(1, 1, 6);
  config.snapshot.every = 2;
  LeadEffects all;
  const auto leases = AllLeases(config, absl::Milliseconds(10), &all);
  EXPECT_THAT(Marked(leases, Mark::Kind::kSnapshot), IsEmpty());
  EXPECT_THAT(Marked(leases, Mark::Kind::kEvaluate), IsEmpty());
  EXPECT_THAT(Marked(leases, Mark::Kind::kHash), ElementsAre(6));
}

TEST(LeadMarkTest, HashesAreEveryFewRounds) {
  LeadConfig config = JobOf(1, 1, 10);
  config.job.hash_every = 4;
  LeadEffects all;
  EXPECT_THAT(Marked(AllLeases(config, absl::Milliseconds(10), &all),
                     Mark::Kind::kHash),
              ElementsAre(4, 8, 10));
}

TEST(LeadMarkTest, SnapshotsAreEveryFewRoundsWithAHash) {
  LeadConfig config = JobOf(1, 1, 100);
  config.snapshot.dir = "snap";
  config.snapshot.every = 2;
  LeadTesting t(config);
  const auto leases = Leases(t.Gather());
  EXPECT_THAT(Marked(leases, Mark::Kind::kSnapshot), ElementsAre(2));
  EXPECT_THAT(Marked(leases, Mark::Kind::kHash), ElementsAre(2));
}

TEST(LeadMarkTest, NoSnapshotBeginsBeforeTheOneBeforeIsWritten) {
  LeadConfig config = JobOf(1, 1, 100);
  config.snapshot.dir = "snap";
  config.snapshot.every = 2;
  LeadTesting t(config);
  t.Gather();
  const LeadEffects busy = t.FinishRound(0, {0}, absl::Seconds(5));
  EXPECT_THAT(Marked(Leases(busy), Mark::Kind::kSnapshot), IsEmpty());
  const LeadEffects skipped = t.FinishRound(1, {0}, absl::Seconds(5));
  EXPECT_THAT(Warnings(skipped), HasSubstr("no snapshot of version 4"));
  t.Hashes(2, {0});
  t.SnapshotDone(ServerPeer(0), 2);
  t.Do(Lead::CommittedIn{2, absl::OkStatus()});
  LeadEffects all;
  for (uint64_t r = 2; r < 5; ++r) {
    LeadTesting::Append(&all, t.FinishRound(r, {0}, absl::Seconds(5)));
  }
  EXPECT_THAT(Marked(Leases(all), Mark::Kind::kSnapshot), ElementsAre(6));
}

TEST(LeadMarkTest, EveryEpochIsEvaluatedUnlessTheOneBeforeStillIs) {
  LeadConfig config = JobOf(1, 1, 0);
  config.job.epochs = 4;
  config.evaluators = 1;
  config.samples = 40;  // ten rounds
  LeadTesting t(config);
  LeadEffects all = t.Gather();
  for (uint64_t r = 0; r < 40; ++r) {
    // The second evaluation takes until the job ends.
    if (r == 11) t.Report(10);
    LeadTesting::Append(&all, t.FinishRound(r, {0}, absl::Seconds(1)));
  }
  EXPECT_THAT(Marked(Leases(all), Mark::Kind::kEvaluate),
              ElementsAre(10, 20, 40));
  t.Hashes(40, {0});
  const auto finish = TheOne<Lead::Finish>(t.Report(40));
  EXPECT_EQ(finish.summary.skipped_evaluations, 1u);
}

// A slow evaluator may be sent a newer version than the one that was marked.
TEST(LeadMarkTest, AnEvaluationOfANewerVersionCountsToo) {
  LeadConfig config = JobOf(1, 1, 0);
  config.job.epochs = 4;
  config.evaluators = 1;
  config.samples = 40;
  LeadTesting t(config);
  LeadEffects all = t.Gather();
  for (uint64_t r = 0; r < 40; ++r) {
    if (r == 13) t.Report(13);
    LeadTesting::Append(&all, t.FinishRound(r, {0}, absl::Seconds(1)));
  }
  EXPECT_THAT(Marked(Leases(all), Mark::Kind::kEvaluate),
              ElementsAre(10, 20, 40));
}

TEST(LeadMarkTest, ALostEvaluatorDoesNotHoldUpTheNext) {
  LeadConfig config = JobOf(1, 1, 0);
  config.job.epochs = 3;
  config.evaluators = 2;
  config.samples = 40;
  LeadTesting t(config);
  LeadEffects all = t.Gather();
  for (uint64_t r = 0; r < 30; ++r) {
    if (r == 11) t.Do(Lead::LeaveIn{EvaluatorPeer(0), "tired"});
    LeadTesting::Append(&all, t.FinishRound(r, {0}, absl::Seconds(1)));
  }
  EXPECT_THAT(Marked(Leases(all), Mark::Kind::kEvaluate),
              ElementsAre(10, 20, 30));
}

// ---- Stop -------------------------------------------------------------------

TEST(LeadStopTest, StopsWhereTheLeasesEnd) {
  LeadConfig config = JobOf(1, 1, 100);
  config.snapshot.dir = "snap";
  LeadTesting t(config);
  t.Gather();
  const LeadEffects all = t.Do(Lead::StopIn{"worker 0 was asked to"});
  const auto leases = Leases(all);
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].from, 2u);
  EXPECT_EQ(leases[0].until, 2u);
  EXPECT_EQ(leases[0].members.size(), 1u);
  for (auto kind :
       {Mark::Kind::kStop, Mark::Kind::kSnapshot, Mark::Kind::kHash}) {
    EXPECT_TRUE(leases[0].HasMark(kind, 2));
  }
  EXPECT_THAT(t.Do(Lead::StopIn{"server 0"}), IsEmpty());
  EXPECT_THAT(Leases(t.FinishRound(0, {0})), IsEmpty());
  EXPECT_THAT(Leases(t.FinishRound(1, {0})), IsEmpty());
  t.SnapshotDone(ServerPeer(0), 2);
  EXPECT_THAT(AllOf<Lead::CommitIt>(t.Hashes(2, {0})), testing::SizeIs(1));
  const auto finish =
      TheOne<Lead::Finish>(t.Do(Lead::CommittedIn{2, absl::OkStatus()}));
  EXPECT_TRUE(finish.summary.complete);
  EXPECT_EQ(finish.summary.rounds, 2u);
  EXPECT_THAT(finish.summary.words, HasSubstr("worker 0 was asked to"));
}

TEST(LeadStopTest, AVersionThatIsMarkedAlreadyIsNotMarkedTwice) {
  LeadConfig config = JobOf(1, 1, 100);
  config.snapshot.dir = "snap";
  config.snapshot.every = 2;
  config.evaluators = 1;
  LeadTesting t(config);
  LeadEffects all = t.Gather();
  LeadTesting::Append(&all, t.Do(Lead::StopIn{"x"}));
  EXPECT_THAT(Marked(Leases(all), Mark::Kind::kSnapshot), ElementsAre(2));
  EXPECT_THAT(Marked(Leases(all), Mark::Kind::kEvaluate), ElementsAre(2));
}

}  // namespace
}  // namespace parapet
