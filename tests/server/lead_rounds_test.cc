// The lead: rounds as they go, and what happens when somebody is missing.

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
using ::testing::Not;

LeadConfig WithDeadline(int servers, int workers, absl::Duration deadline) {
  LeadConfig config = JobOf(servers, workers, 1000);
  config.patience.round_deadline = deadline;
  return config;
}

// The set of the only Close that was sent for a round.
std::vector<uint32_t> ClosedFor(const LeadEffects& effects, uint64_t round) {
  std::vector<std::vector<uint32_t>> sets;
  for (const auto& close : Told<CloseMessage>(effects)) {
    if (close.round == round) sets.push_back(close.workers.ToVector());
  }
  EXPECT_EQ(sets.size(), 1u) << "for round " << round;
  return sets.empty() ? std::vector<uint32_t>{99} : sets[0];
}

bool Closes(const LeadEffects& effects) {
  return !Told<CloseMessage>(effects).empty();
}

// ---- Records ----------------------------------------------------------------

TEST(LeadRoundTest, AVersionIsThereWhenEveryShardHasIt) {
  LeadTesting t(JobOf(3, 1, 10));
  t.Gather();
  t.ShardDone(0, 0, {0});
  t.ShardDone(2, 0, {0});
  t.ShardDone(0, 1, {0});
  EXPECT_EQ(t.lead().version(), 0u);
  const LeadEffects all = t.ShardDone(1, 0, {0});
  EXPECT_EQ(t.lead().version(), 1u);
  EXPECT_EQ(TheOne<Lead::Record>(all).record.round, 0u);
  // Told again after a reconnection.
  EXPECT_THAT(t.ShardDone(1, 0, {0}), IsEmpty());
}

TEST(LeadRoundTest, ARecordSaysWhoTookPartInEveryShard) {
  LeadTesting t(JobOf(2, 3, 10));
  t.Gather();
  ShardDoneMessage done;
  done.participants = {0, 1, 2};
  done.exceptions = {{2, 4, 7}};
  done.bad_coordinates = 3;
  done.first_bad = 12;
  t.Do(Lead::ShardDoneIn{0, done});
  done.participants = {0, 2};
  done.exceptions = {};
  done.bad_coordinates = 4;
  const auto record =
      TheOne<Lead::Record>(t.Do(Lead::ShardDoneIn{1, done})).record;
  EXPECT_THAT(record.participants, ElementsAre(0, 2));
  EXPECT_THAT(record.left_out, IsEmpty());
  ASSERT_EQ(record.exceptions.size(), 2u);
  EXPECT_EQ(record.exceptions[0].shard, 0);
  EXPECT_EQ(record.exceptions[0].what.worker, 2u);
  EXPECT_EQ(record.exceptions[0].what.first_turn, 4u);
  EXPECT_EQ(record.exceptions[0].what.last_turn, 7u);
  // Worker 1 is in all of one shard, and in nothing of the other.
  EXPECT_EQ(record.exceptions[1].shard, 0);
  EXPECT_EQ(record.exceptions[1].what.worker, 1u);
  EXPECT_EQ(record.exceptions[1].what.first_turn, 0u);
  EXPECT_EQ(record.exceptions[1].what.last_turn, 1u);
  EXPECT_EQ(record.bad_coordinates, 7u);
  EXPECT_FALSE(record.carried);
}

TEST(LeadRoundTest, AShardWithoutChunksHasNoSay) {
  LeadConfig config = JobOf(2, 2, 10);
  config.shard_chunks = {2, 0};
  LeadTesting t(config);
  t.Gather();
  t.ShardDone(1, 0, {});
  EXPECT_THAT(
      TheOne<Lead::Record>(t.ShardDone(0, 0, {0, 1})).record.participants,
      ElementsAre(0, 1));
}

// ---- Deadlines --------------------------------------------------------------

TEST(LeadDeadlineTest, ARoundGoesOnWithoutWhoMissesIt) {
  LeadTesting t(WithDeadline(2, 3, absl::Seconds(2)));
  t.Gather();
  t.CompleteEverywhere(0, {0, 2});
  EXPECT_FALSE(Closes(t.PassTime(absl::Milliseconds(1950))));
  const LeadEffects over = t.PassTime(absl::Milliseconds(50));
  EXPECT_THAT(ClosedFor(over, 0), ElementsAre(0, 2));
  EXPECT_THAT(Warnings(over),
              HasSubstr("round 0 goes on without worker 1: missed"));
  EXPECT_FALSE(Closes(t.PassTime(absl::Seconds(1))));
  const auto record = TheOne<Lead::Record>(t.FinishRound(0, {0, 2})).record;
  EXPECT_THAT(record.participants, ElementsAre(0, 2));
  ASSERT_EQ(record.left_out.size(), 1u);
  EXPECT_EQ(record.left_out[0].worker, 1u);
  EXPECT_THAT(record.left_out[0].why, HasSubstr("deadline"));
  EXPECT_THAT(t.lead().GetProgress(t.now()).left_out, ElementsAre(1));
}

TEST(LeadDeadlineTest, OnlyWhoIsCompleteOnEveryShardStays) {
  LeadTesting t(WithDeadline(2, 4, absl::Seconds(1)));
  t.Gather();
  t.Complete(0, 0, {0, 1, 3});
  t.Complete(1, 0, {0, 2, 3});
  EXPECT_THAT(ClosedFor(t.PassTime(absl::Seconds(1)), 0), ElementsAre(0, 3));
}

TEST(LeadDeadlineTest, AShardThatIsDoneMissesNobody) {
  LeadTesting t(WithDeadline(2, 3, absl::Seconds(1)));
  t.Gather();
  t.ShardDone(0, 0, {0, 1, 2});
  t.Complete(1, 0, {1, 2});
  EXPECT_THAT(ClosedFor(t.PassTime(absl::Seconds(1)), 0), ElementsAre(1, 2));
}

TEST(LeadDeadlineTest, ASilentShardIsNotTheWorkersFault) {
  LeadTesting t(WithDeadline(2, 2, absl::Seconds(1)));
  t.Gather();
  t.Complete(0, 0, {0});
  EXPECT_FALSE(Closes(t.PassTime(absl::Milliseconds(1500))));
  EXPECT_THAT(ClosedFor(t.Complete(1, 0, {0}), 0), ElementsAre(0));
}

TEST(LeadDeadlineTest, WhoIsWaitedForIsNamedWithItsPhase) {
  LeadConfig config = WithDeadline(1, 2, absl::Seconds(30));
  config.patience.patience = absl::Seconds(3);
  LeadTesting t(config);
  t.Gather();
  t.CompleteEverywhere(0, {0});
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(2950))), IsEmpty());
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(50))),
              testing::AllOf(HasSubstr("round 0 has waited 3s for worker 1"),
                             HasSubstr("phase 'backward' of round 0"),
                             Not(HasSubstr("worker 0"))));
}

// However long the job took to gather.
TEST(LeadDeadlineTest, PatienceBeginsWithTheFirstRound) {
  LeadTesting t(WithDeadline(1, 2, absl::Seconds(30)));
  t.PassTime(absl::Milliseconds(9900));
  t.Gather();
  t.CompleteEverywhere(0, {0});
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(9900))), IsEmpty());
}

TEST(LeadDeadlineTest, ByItselfItIsTenMedianRoundsAndAtLeastTenSeconds) {
  LeadTesting t(JobOf(1, 2, 1000));
  t.Gather();
  t.CompleteEverywhere(0, {0});
  EXPECT_FALSE(Closes(t.PassTime(absl::Milliseconds(9950))));
  EXPECT_TRUE(Closes(t.PassTime(absl::Milliseconds(50))));
  LeadTesting slow(JobOf(1, 2, 1000));
  slow.Gather();
  for (uint64_t r = 0; r < 9; ++r) {
    slow.FinishRound(r, {0, 1}, absl::Seconds(3));
  }
  slow.CompleteEverywhere(9, {0});
  EXPECT_FALSE(Closes(slow.PassTime(absl::Milliseconds(29900))));
  EXPECT_TRUE(Closes(slow.PassTime(absl::Milliseconds(200))));
}

// ---- Quorum -----------------------------------------------------------------

TEST(LeadQuorumTest, TheDeadlineBeginsWithTheKthWorker) {
  LeadConfig config = WithDeadline(2, 3, absl::Seconds(30));
  config.patience.quorum = 2;
  config.patience.quorum_deadline = absl::Milliseconds(500);
  LeadTesting t(config);
  t.Gather();
  t.Complete(0, 0, {0, 1});
  t.Complete(1, 0, {1, 2});  // only worker 1 is complete
  EXPECT_FALSE(Closes(t.PassTime(absl::Seconds(5))));
  t.Complete(1, 0, {0, 1, 2});
  EXPECT_FALSE(Closes(t.PassTime(absl::Milliseconds(450))));
  const LeadEffects over = t.PassTime(absl::Milliseconds(50));
  EXPECT_THAT(ClosedFor(over, 0), ElementsAre(0, 1));
  EXPECT_THAT(Warnings(over), HasSubstr("late after the quorum"));
}

TEST(LeadQuorumTest, EveryRoundHasAQuorumOfItsOwn) {
  LeadConfig config = WithDeadline(1, 2, absl::Seconds(30));
  config.patience.quorum = 1;
  LeadTesting t(config);
  t.Gather();
  t.CompleteEverywhere(0, {0});
  t.PassTime(absl::Milliseconds(400));
  t.FinishRound(0, {0, 1}, absl::Milliseconds(50));
  t.CompleteEverywhere(1, {0});
  EXPECT_FALSE(Closes(t.PassTime(absl::Milliseconds(450))));
  EXPECT_TRUE(Closes(t.PassTime(absl::Milliseconds(50))));
}

TEST(LeadQuorumTest, NobodyIsClosedOutOfARoundThatHasAll) {
  LeadConfig config = WithDeadline(1, 2, absl::Seconds(30));
  config.patience.quorum = 1;
  LeadTesting t(config);
  t.Gather();
  t.CompleteEverywhere(0, {0});
  t.CompleteEverywhere(0, {0, 1});
  EXPECT_FALSE(Closes(t.PassTime(absl::Seconds(5))));
}

// ---- Workers that go --------------------------------------------------------

TEST(LeadLossTest, ThreeRoundsWithoutAWorkerInARowAndItIsOut) {
  LeadTesting t(WithDeadline(1, 3, absl::Milliseconds(100)));
  t.Gather();
  // Round 2 has it, so only rounds 3 to 5 are in a row.
  for (uint64_t r = 0; r < 6; ++r) {
    if (r != 2) {
      t.CompleteEverywhere(r, {0, 2});
      t.PassTime(absl::Milliseconds(100));
    }
    const LeadEffects all = t.FinishRound(r, {0, 2});
    const auto told = AllOf<Lead::Tell>(all);
    ASSERT_EQ(told.size(), r == 5 ? 1u : 0u) << "round " << r;
    if (r < 5) continue;
    EXPECT_EQ(told[0].peer, WorkerPeer(1));
    EXPECT_EQ(std::get<ByeMessage>(told[0].body).code, Code::kLeftOut);
    EXPECT_THAT(Warnings(all), HasSubstr("worker 1 is out of the job"));
    EXPECT_TRUE(Closes(all));
  }
  EXPECT_EQ(t.lead().SessionOf(WorkerPeer(1)), 0u);
  LeadEffects all;
  for (uint64_t r = 6; r < 20; ++r) {
    LeadTesting::Append(&all, t.FinishRound(r, {0, 2}));
  }
  EXPECT_EQ(Leases(all).back().members.size(), 2u);
}

TEST(LeadLossTest, AWorkerThatIsNotHeardIsClosedOutOfEveryOpenRound) {
  LeadConfig config = WithDeadline(1, 3, absl::Seconds(60));
  config.patience.dead_after = absl::Seconds(2);
  LeadTesting t(config);
  t.Gather();
  t.Silence(WorkerPeer(1));
  EXPECT_FALSE(Closes(t.PassTime(absl::Milliseconds(1950))));
  const LeadEffects lost = t.PassTime(absl::Milliseconds(50));
  EXPECT_THAT(ClosedFor(lost, 0), ElementsAre(0, 2));
  EXPECT_THAT(ClosedFor(lost, 1), ElementsAre(0, 2));
  EXPECT_THAT(Warnings(lost), HasSubstr("worker 1 is out of the job: not "
                                        "heard for 2s"));
  EXPECT_FALSE(t.lead().finished());
}

TEST(LeadLossTest, AWorkerThatLeavesSaysWhy) {
  LeadTesting t(JobOf(1, 2, 100));
  t.Gather();
  EXPECT_THAT(Warnings(t.Do(Lead::LeaveIn{WorkerPeer(1), "no power"})),
              HasSubstr("no power"));
  EXPECT_THAT(t.Do(Lead::LeaveIn{WorkerPeer(1), "again"}), IsEmpty());
  const auto record = TheOne<Lead::Record>(t.FinishRound(0, {0})).record;
  ASSERT_EQ(record.left_out.size(), 1u);
  EXPECT_THAT(record.left_out[0].why, HasSubstr("no power"));
}

// One round was already closed to the worker that goes; the others must not
// wait for it either.
TEST(LeadLossTest, TheLastOneOfARoundIsClosedOutOfTheRoundsAfterItToo) {
  LeadTesting t(WithDeadline(1, 2, absl::Seconds(1)));
  t.Gather();
  t.CompleteEverywhere(0, {0});
  EXPECT_THAT(ClosedFor(t.PassTime(absl::Seconds(1)), 0), ElementsAre(0));
  const LeadEffects left = t.Do(Lead::LeaveIn{WorkerPeer(0), "tired"});
  EXPECT_THAT(ClosedFor(left, 1), ElementsAre(1));
}

TEST(LeadLossTest, WithoutWorkersTheJobEndsAsTooFew) {
  LeadConfig config = JobOf(2, 2, 100);
  config.snapshot.dir = "snap";
  LeadTesting t(config);
  t.Gather();
  t.Do(Lead::LeaveIn{WorkerPeer(0), "tired"});
  const LeadEffects all = t.Do(Lead::LeaveIn{WorkerPeer(1), "tired"});
  EXPECT_THAT(ClosedFor(all, 0), IsEmpty());
  EXPECT_THAT(ClosedFor(all, 1), IsEmpty());
  EXPECT_TRUE(Leases(all).back().HasMark(Mark::Kind::kStop, 2));
  t.FinishRound(0, {});
  t.FinishRound(1, {});
  t.SnapshotDone(ServerPeer(0), 2);
  t.SnapshotDone(ServerPeer(1), 2);
  t.Hashes(2, {});
  const auto finish =
      TheOne<Lead::Finish>(t.Do(Lead::CommittedIn{2, absl::OkStatus()}));
  EXPECT_EQ(finish.summary.code, Code::kTooFew);
  EXPECT_EQ(ExitCodeOf(finish.summary.code), 4);
  EXPECT_FALSE(finish.summary.complete);
}

// Also when the end was already marked: its last rounds had nobody.
TEST(LeadLossTest, WithoutWorkersForTheLastRoundsTheJobIsNotComplete) {
  LeadTesting t(JobOf(1, 1, 2));
  t.Gather();
  t.Do(Lead::LeaveIn{WorkerPeer(0), "tired"});
  t.FinishRound(0, {});
  t.FinishRound(1, {});
  const auto finish = TheOne<Lead::Finish>(t.Hashes(2, {}));
  EXPECT_EQ(finish.summary.code, Code::kTooFew);
  EXPECT_FALSE(finish.summary.complete);
}

TEST(LeadLossTest, ARoundWithNobodyWaitsForSomebody) {
  LeadConfig config = WithDeadline(1, 2, absl::Seconds(1));
  config.patience.insufficient_for = absl::Seconds(20);
  LeadTesting t(config);
  t.Gather();
  t.CompleteEverywhere(0, {});
  const LeadEffects over = t.PassTime(absl::Seconds(1));
  EXPECT_THAT(Warnings(over),
              testing::AllOf(HasSubstr("worker 0"), HasSubstr("worker 1")));
  EXPECT_FALSE(Closes(t.PassTime(absl::Seconds(15))));
  t.CompleteEverywhere(0, {1});
  EXPECT_EQ(t.lead().GetProgress(t.now()).members, 2u);
  const LeadEffects on = t.FinishRound(0, {1});
  EXPECT_FALSE(t.lead().finished());
  EXPECT_THAT(TheOne<Lead::Record>(on).record.participants, ElementsAre(1));
}

TEST(LeadLossTest, ARoundWithNobodyStopsTheJobInTheEnd) {
  LeadConfig config = WithDeadline(1, 2, absl::Seconds(1));
  config.patience.insufficient_for = absl::Seconds(20);
  LeadTesting t(config);
  t.Gather();
  t.CompleteEverywhere(0, {});
  EXPECT_FALSE(Closes(t.PassTime(absl::Milliseconds(20950))));
  const LeadEffects all = t.PassTime(absl::Milliseconds(100));
  EXPECT_THAT(ClosedFor(all, 0), IsEmpty());
  EXPECT_TRUE(Leases(all).back().HasMark(Mark::Kind::kStop, 2));
  t.FinishRound(0, {});
  t.FinishRound(1, {});
  EXPECT_EQ(TheOne<Lead::Finish>(t.Hashes(2, {0, 1})).summary.code,
            Code::kTooFew);
}

TEST(LeadLossTest, ALostServerEndsTheJob) {
  LeadConfig config = JobOf(2, 1, 100);
  config.patience.dead_after = absl::Seconds(2);
  LeadTesting t(config);
  t.Gather();
  t.Silence(ServerPeer(1));
  const LeadEffects all = t.PassTime(absl::Seconds(2));
  const auto finish = TheOne<Lead::Finish>(all);
  EXPECT_EQ(finish.summary.code, Code::kLost);
  EXPECT_EQ(ExitCodeOf(finish.summary.code), 3);
  EXPECT_THAT(finish.summary.words, HasSubstr("server 1 is lost"));
  EXPECT_EQ(Told<ByeMessage>(all).size(), 1u);
}

// ---- Bad rounds -------------------------------------------------------------

LeadEffects BadRound(LeadTesting* t, uint64_t round, uint64_t coordinates,
                     std::vector<uint32_t> bad_workers) {
  ShardDoneMessage done;
  done.round = round;
  done.participants = {0, 1, 2};
  done.bad_coordinates = coordinates;
  done.first_bad = coordinates > 0 ? 17 : -1;
  for (uint32_t worker : bad_workers) done.bad.push_back({worker, 1});
  return t->Do(Lead::ShardDoneIn{0, done});
}

TEST(LeadBadRoundTest, TooManyInARowStopTheJob) {
  LeadConfig config = JobOf(1, 3, 1000);
  config.job.max_bad_rounds = 3;
  LeadTesting t(config);
  t.Gather();
  LeadEffects all;
  // A good one in between begins the count anew.
  for (uint64_t r = 0; r < 6; ++r) {
    all = BadRound(&t, r, r == 2 ? 0 : 5, {});
    const bool stops = !Leases(all).empty() &&
                       Leases(all).back().from == Leases(all).back().until;
    EXPECT_EQ(stops, r == 5) << "round " << r;
  }
  EXPECT_THAT(Warnings(all), HasSubstr("no result at 5 coordinates, "
                                       "first at tensor[17]"));
  uint64_t stop = Leases(all).back().until;
  for (uint64_t r = 6; r < stop; ++r) BadRound(&t, r, 5, {});
  const auto finish = TheOne<Lead::Finish>(t.Hashes(stop, {0, 1, 2}));
  EXPECT_EQ(finish.summary.code, Code::kBadRounds);
  EXPECT_EQ(ExitCodeOf(finish.summary.code), 4);
  EXPECT_THAT(finish.summary.words, HasSubstr("tensor[17]"));
}

TEST(LeadBadRoundTest, AlsoWhenTheEndWasAlreadyMarked) {
  LeadConfig config = JobOf(1, 3, 2);
  config.job.max_bad_rounds = 2;
  LeadTesting t(config);
  t.Gather();
  BadRound(&t, 0, 5, {});
  BadRound(&t, 1, 5, {});
  EXPECT_EQ(TheOne<Lead::Finish>(t.Hashes(2, {0, 1, 2})).summary.code,
            Code::kBadRounds);
}

TEST(LeadBadRoundTest, WhoSentBadValuesIsNamedUnlessItIsMostOfThem) {
  LeadTesting t(JobOf(1, 3, 1000));
  t.Gather();
  EXPECT_THAT(Warnings(BadRound(&t, 0, 0, {1})),
              HasSubstr("worker 1 sent values that are not finite"));
  EXPECT_THAT(Warnings(BadRound(&t, 1, 0, {1, 2})), IsEmpty());
}

// ---- clip_norm --------------------------------------------------------------

std::vector<ScaleMessage> ScalesOf(const std::vector<ExactSum>& shards,
                                   double clip_norm) {
  LeadConfig config = JobOf(static_cast<int>(shards.size()) + 1, 1, 100);
  config.shard_chunks.back() = 0;  // a shard without chunks has no norm
  config.job.clip_norm = clip_norm;
  LeadTesting t(config);
  t.Gather();
  std::vector<ScaleMessage> scales;
  for (size_t s = 0; s < shards.size(); ++s) {
    EXPECT_THAT(scales, IsEmpty());
    const NormMessage norm{0, shards[s]};
    const LeadEffects all = t.Do(Lead::NormIn{static_cast<int>(s), norm});
    scales = Told<ScaleMessage>(all);
    t.Do(Lead::NormIn{static_cast<int>(s), norm});  // told again
  }
  return scales;
}

TEST(LeadClipTest, TheScaleIsThatOfTheWholeGradient) {
  std::vector<ExactSum> shards(2);
  shards[0].Add(9);
  shards[1].Add(16);
  auto scales = ScalesOf(shards, 2.5);
  ASSERT_EQ(scales.size(), 1u);
  EXPECT_EQ(scales[0].round, 0u);
  EXPECT_EQ(scales[0].scale, 0.5);
  scales = ScalesOf(shards, 5);
  EXPECT_EQ(scales[0].scale, 1);
  scales = ScalesOf(shards, 1e9);
  EXPECT_EQ(scales[0].scale, 1);
}

// A double would lose every 0.9 beside 1e16; the exact sum loses none, however
// the terms are spread.
TEST(LeadClipTest, TheSumIsExactForAnyNumberOfShards) {
  const double expected = 1 / std::sqrt(1e16 + 900);
  ASSERT_NE(expected, 1 / std::sqrt(1e16));
  for (size_t shards : {1, 2, 3, 7}) {
    std::vector<ExactSum> sums(shards);
    sums[shards - 1].Add(1e16);
    for (size_t i = 0; i < 1000; ++i) sums[i % shards].Add(0.9);
    const auto scales = ScalesOf(sums, 1);
    ASSERT_EQ(scales.size(), 1u);
    EXPECT_EQ(scales[0].scale, expected) << shards << " shards";
  }
}

TEST(LeadClipTest, AGradientOfNothingIsNotScaled) {
  EXPECT_EQ(ScalesOf(std::vector<ExactSum>(1), 1)[0].scale, 1);
}

TEST(LeadClipTest, WithoutClippingNormsAreIgnored) {
  LeadTesting t(JobOf(1, 1, 10));
  t.Gather();
  EXPECT_THAT(t.Do(Lead::NormIn{0, {0, ExactSum()}}), IsEmpty());
}

}  // namespace
}  // namespace parapet
