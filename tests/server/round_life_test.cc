// Rounds: closing, clipping, marks, reports and deadlines.

#include <string>
#include <vector>

#include "server/round.h"
#include "tests/server/round_fixture.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- Close ------------------------------------------------------------------

TEST(RoundCloseTest, WhoIsClosedOutLeavesExceptionsAsRunsOfTurns) {
  RoundTesting t(Chunks(8));
  t.Lease(0, 1, {0, 1, 2});
  // Worker 2 sends turns 0, 1, 3, 4, 5 and 7, worker 1 everything.
  for (int64_t turn : {0, 1, 3, 4, 5, 7}) t.Push(2, 0, 7 - turn);
  t.PushAll(1, 0);
  // Worker 0 does not send turn 5, so worker 2's turn 5 is not used yet.
  for (int64_t turn : {0, 1, 2, 3, 4, 6, 7}) t.Settle(t.Push(0, 0, 7 - turn));
  const RoundEffects closed = t.Settle(t.Close(0, {0, 1}));
  // Turns 2 and 6 had only lacked worker 2; turn 5 still lacks worker 0.
  EXPECT_EQ(Only<Round::Reduce>(closed).size(), 2u);
  const RoundEffects last = t.Push(0, 0, 2);
  EXPECT_EQ(One<Round::Reduce>(last).rows.size(), 2u);
  const auto done = One<Round::ReportDone>(t.Settle(last));
  EXPECT_THAT(done.message.participants, ElementsAre(0, 1));
  ASSERT_EQ(done.message.exceptions.size(), 3u);
  const std::vector<std::pair<uint64_t, uint64_t>> runs = {
      {0, 1}, {3, 4}, {7, 7}};
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(done.message.exceptions[i].worker, 2u);
    EXPECT_EQ(done.message.exceptions[i].first_turn, runs[i].first);
    EXPECT_EQ(done.message.exceptions[i].last_turn, runs[i].second);
  }
}

TEST(RoundCloseTest, WhatAClosedOutWorkerSendsIsLate) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0, 1});
  t.Push(1, 0, 1);
  t.Close(0, {0});
  EXPECT_EQ(t.round().Held(1, 0, 1), nullptr);
  EXPECT_EQ(One<Round::SendAck>(t.Push(1, 0, 0)).status, AckStatus::kLate);
  EXPECT_EQ(One<Round::SendAck>(t.Push(1, 0, 1)).status, AckStatus::kLate);
  const RoundEffects all = t.PushAll(0, 0);
  EXPECT_EQ(Only<Round::Reduce>(all)[0].rows.size(), 1u);
  EXPECT_THAT(One<Round::ReportDone>(all).message.exceptions, IsEmpty());
}

TEST(RoundCloseTest, ACloseMayComeBeforeItsRoundOpens) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 3, {0, 1});
  EXPECT_THAT(t.Close(2, {1}), IsEmpty());
  for (uint64_t r : {0, 1}) {
    t.PushAll(0, r);
    t.PushAll(1, r);
  }
  EXPECT_EQ(t.round().version(), 2u);
  EXPECT_EQ(One<Round::SendAck>(t.Push(0, 2, 0)).status, AckStatus::kLate);
  EXPECT_THAT(One<Round::ReportDone>(t.PushAll(1, 2)).message.participants,
              ElementsAre(1));
}

TEST(RoundCloseTest, ACloseMayComeBeforeTheLease) {
  RoundTesting t(Chunks(1));
  t.Close(0, {1});
  t.Push(0, 0, 0);
  t.Push(1, 0, 0);
  const auto reduce = One<Round::Reduce>(t.Lease(0, 1, {0, 1}));
  ASSERT_EQ(reduce.rows.size(), 1u);
  EXPECT_EQ(reduce.rows[0].worker, 1u);
}

TEST(RoundCloseTest, ClosedForEverybodyTheVersionIsCarried) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0, 1});
  t.Push(0, 0, 1);
  const RoundEffects all = t.Settle(t.Close(0, {}));
  EXPECT_EQ(Only<Round::Carry>(all).size(), 2u);
  EXPECT_TRUE(One<Round::ReportDone>(all).message.carried);
  EXPECT_EQ(t.round().version(), 1u);
}

TEST(RoundCloseTest, SeveralRoundsClosedForEverybodyEndAtOnce) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 3, {0}, {{Mark::Kind::kStop, 3}});
  t.Close(1, {});
  t.Close(2, {});
  t.Settle(t.Close(0, {}));
  EXPECT_EQ(t.round().version(), 3u);
  EXPECT_TRUE(t.round().stopped());
}

TEST(RoundCloseTest, ClosesOfARoundAddUp) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0, 1, 2});
  t.Close(0, {0, 1});
  t.Push(1, 0, 0);
  EXPECT_EQ(One<Round::Reduce>(t.Close(0, {1, 2})).rows.size(), 1u);
}

TEST(RoundCloseTest, ACloseOfAnOldRoundIsIgnored) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0});
  t.PushAll(0, 0);
  EXPECT_THAT(t.Close(0, {}), IsEmpty());
  EXPECT_TRUE(Has<Round::Reduce>(t.Push(0, 1, 0)));
}

TEST(RoundCloseTest, APartlyReducedRoundIsNotCarried) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0, 1});
  t.Push(0, 0, 1);
  t.Settle(t.Push(1, 0, 1));
  const RoundEffects all = t.Settle(t.Close(0, {}));
  EXPECT_EQ(Only<Round::Carry>(all).size(), 1u);
  const auto done = One<Round::ReportDone>(all);
  EXPECT_FALSE(done.message.carried);
  EXPECT_EQ(done.message.exceptions.size(), 2u);
}

// ---- A shard without chunks -------------------------------------------------

TEST(RoundEmptyShardTest, GoesThroughItsLeasesAtOnce) {
  RoundTesting t(Chunks(0));
  const auto done =
      Only<Round::ReportDone>(t.Lease(0, 3, {0, 2}, {{Mark::Kind::kHash, 2}}));
  ASSERT_EQ(done.size(), 3u);
  for (uint64_t r = 0; r < 3; ++r) {
    EXPECT_EQ(done[r].message.round, r);
    EXPECT_THAT(done[r].message.participants, ElementsAre(0, 2));
    // It says nothing about whether anybody took part.
    EXPECT_FALSE(done[r].message.carried);
  }
  EXPECT_EQ(t.round().version(), 3u);
  EXPECT_EQ(One<Round::SendAck>(t.Abstain(0, 2)).status, AckStatus::kLate);
}

TEST(RoundEmptyShardTest, ActsOnMarks) {
  RoundTesting t(Chunks(0));
  const RoundEffects all = t.Lease(0, 2, {0},
                                   {{Mark::Kind::kSnapshot, 1},
                                    {Mark::Kind::kHash, 1},
                                    {Mark::Kind::kStop, 2}});
  EXPECT_EQ(One<Round::TakeSnapshot>(all).version, 1u);
  EXPECT_EQ(One<Round::HashVersion>(all).version, 1u);
  EXPECT_TRUE(t.round().stopped());
}

// ---- clip_norm --------------------------------------------------------------

RoundConfig TwoPhase(int64_t chunks) {
  RoundConfig config = Chunks(chunks);
  config.two_phase = true;
  return config;
}

TEST(RoundClipTest, StepsWhenTheScaleIsThere) {
  RoundTesting t(TwoPhase(2));
  t.Lease(0, 1, {0});
  const RoundEffects pushed = t.Push(0, 0, 1);
  EXPECT_FALSE(One<Round::Reduce>(pushed).step);
  EXPECT_FALSE(Has<Round::ReportNorm>(t.Settle(pushed)));
  EXPECT_THAT(t.Do(Round::ScaleIn{0, 0.5}), IsEmpty());  // too early
  EXPECT_EQ(One<Round::ReportNorm>(t.Settle(t.Push(0, 0, 0))).round, 0u);
  EXPECT_THAT(t.Do(Round::ScaleIn{1, 0.5}), IsEmpty());
  const RoundEffects scaled = t.Do(Round::ScaleIn{0, 0.25});
  const auto steps = Only<Round::Step>(scaled);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].local, 0);
  EXPECT_EQ(steps[1].local, 1);
  EXPECT_EQ(steps[0].scale, 0.25);
  EXPECT_EQ(steps[0].facts.lr, 0.5);
  EXPECT_THAT(t.Do(Round::ScaleIn{0, 0.75}), IsEmpty());
  EXPECT_EQ(t.round().version(), 0u);
  EXPECT_TRUE(Has<Round::ReportDone>(t.Settle(scaled)));
  EXPECT_EQ(t.round().version(), 1u);
}

TEST(RoundClipTest, ACarriedRoundWaitsForItsScaleToo) {
  RoundTesting t(TwoPhase(2));
  t.Lease(0, 1, {0});
  const RoundEffects all = t.Settle(t.Abstain(0, 0));
  const auto carries = Only<Round::Carry>(all);
  ASSERT_EQ(carries.size(), 2u);
  EXPECT_FALSE(carries[0].step);
  EXPECT_TRUE(Has<Round::ReportNorm>(all));
  EXPECT_TRUE(One<Round::ReportDone>(t.Settle(t.Do(Round::ScaleIn{0, 1})))
                  .message.carried);
}

TEST(RoundClipTest, EveryRoundHasAScaleOfItsOwn) {
  RoundTesting t(TwoPhase(1));
  t.Lease(0, 3, {0});
  for (uint64_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(Has<Round::ReportNorm>(t.PushAll(0, r)));
    const double scale = 1.0 / static_cast<double>(r + 2);
    const RoundEffects scaled = t.Settle(t.Do(Round::ScaleIn{r, scale}));
    EXPECT_EQ(One<Round::Step>(scaled).scale, scale);
    EXPECT_EQ(t.round().version(), r + 1);
  }
}

// ---- Marks ------------------------------------------------------------------

TEST(RoundMarkTest, SnapshotAndHashAreOfTheirVersionAndBeforeTheNextRound) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 3, {0}, {{Mark::Kind::kSnapshot, 2}, {Mark::Kind::kHash, 2}});
  t.Push(0, 0, 0);
  EXPECT_FALSE(Has<Round::TakeSnapshot>(t.Settle(t.PushAll(0, 0))));
  t.Do(Round::ReducedIn{0, 0, {}, 0, -1});
  const RoundEffects all = t.PushAll(0, 1);
  EXPECT_EQ(One<Round::TakeSnapshot>(all).version, 2u);
  EXPECT_EQ(One<Round::HashVersion>(all).version, 2u);
  EXPECT_FALSE(Has<Round::TakeSnapshot>(t.PushAll(0, 2)));
}

TEST(RoundMarkTest, StopsWhereTheLeaseSays) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0}, {{Mark::Kind::kStop, 2}});
  t.PushAll(0, 0);
  EXPECT_FALSE(t.round().stopped());
  t.PushAll(0, 1);
  EXPECT_TRUE(t.round().stopped());
  EXPECT_EQ(t.round().NextDeadline(), absl::InfiniteFuture());
}

TEST(RoundMarkTest, AStopLeaseMayComeEarly) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0});
  const RoundTesting::Marks marks = {{Mark::Kind::kStop, 2},
                                     {Mark::Kind::kSnapshot, 2},
                                     {Mark::Kind::kHash, 2}};
  EXPECT_THAT(t.Lease(2, 2, {0}, marks), IsEmpty());
  EXPECT_FALSE(t.round().stopped());
  t.PushAll(0, 0);
  EXPECT_FALSE(t.round().stopped());
  const RoundEffects all = t.PushAll(0, 1);
  EXPECT_TRUE(t.round().stopped());
  EXPECT_EQ(One<Round::TakeSnapshot>(all).version, 2u);
  EXPECT_EQ(One<Round::HashVersion>(all).version, 2u);
}

TEST(RoundMarkTest, AStopLeaseForTheOpenVersionActsAtOnce) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0});
  t.PushAll(0, 0);
  const RoundTesting::Marks marks = {{Mark::Kind::kStop, 1},
                                     {Mark::Kind::kHash, 1}};
  const RoundEffects all = t.Lease(1, 1, {0}, marks);
  EXPECT_EQ(One<Round::HashVersion>(all).version, 1u);
  EXPECT_TRUE(t.round().stopped());
  EXPECT_THAT(t.Lease(1, 1, {0}, marks), IsEmpty());
}

TEST(RoundMarkTest, AStopLeaseThatIsOverIsIgnored) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0});
  t.PushAll(0, 0);
  t.PushAll(0, 1);
  EXPECT_THAT(t.Lease(1, 1, {0}, {{Mark::Kind::kStop, 1}}), IsEmpty());
  EXPECT_FALSE(t.round().stopped());
}

TEST(RoundMarkTest, AJobCanStopWhereItBegins) {
  RoundConfig config = Chunks(1);
  config.version = 40;
  RoundTesting t(config);
  const RoundEffects all =
      t.Lease(40, 40, {0}, {{Mark::Kind::kStop, 40}, {Mark::Kind::kHash, 40}});
  EXPECT_EQ(One<Round::HashVersion>(all).version, 40u);
  EXPECT_TRUE(t.round().stopped());
}

TEST(RoundMarkTest, NothingIsReducedAfterTheStop) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0}, {{Mark::Kind::kStop, 1}});
  t.PushAll(0, 0);
  EXPECT_FALSE(Has<Round::Reduce>(t.Push(0, 1, 0)));
  EXPECT_EQ(t.round().version(), 1u);
}

// ---- Reports and deadlines --------------------------------------------------

IdSet CompleteIn(const RoundEffects& effects) {
  const auto reports = Only<Round::ReportComplete>(effects);
  return reports.empty() ? SetOf({99}) : reports.back().message.workers;
}

TEST(RoundReportTest, SaysWhoIsCompleteAfterAWhileAndThenOnEveryChange) {
  RoundConfig config = Chunks(2);
  config.report_after = absl::Seconds(1);
  RoundTesting t(config);
  EXPECT_EQ(t.round().NextDeadline(), absl::InfiniteFuture());
  t.Lease(0, 1, {0, 1, 2});
  EXPECT_EQ(t.round().NextDeadline(), t.now() + absl::Seconds(1));
  EXPECT_FALSE(Has<Round::ReportComplete>(t.PushAll(1, 0)));
  EXPECT_THAT(t.Tick(absl::Milliseconds(999)), IsEmpty());
  EXPECT_EQ(CompleteIn(t.Tick(absl::Milliseconds(1))), SetOf({1}));
  t.Push(2, 0, 1);
  EXPECT_FALSE(Has<Round::ReportComplete>(t.Tick(absl::Seconds(1))));
  EXPECT_EQ(CompleteIn(t.Push(2, 0, 0)), SetOf({1, 2}));
  EXPECT_EQ(CompleteIn(t.Abstain(0, 0)), SetOf({0, 1, 2}));
}

TEST(RoundReportTest, SaysAlsoThatNobodyIsComplete) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0});
  EXPECT_EQ(CompleteIn(t.Tick(absl::Seconds(1))), IdSet());
}

TEST(RoundReportTest, WithAQuorumEveryWorkerIsReportedAtOnce) {
  RoundConfig config = Chunks(1);
  config.report_always = true;
  RoundTesting t(config);
  t.Lease(0, 2, {0, 1});
  EXPECT_EQ(CompleteIn(t.Push(1, 0, 0)), SetOf({1}));
  t.Settle(t.Push(0, 0, 0));
  EXPECT_EQ(CompleteIn(t.Push(0, 1, 0)), SetOf({0}));
}

// Who has pushed all that its credit allows waits for others, not they for it.
TEST(RoundReportTest, WhoIsHeldUpByItsCreditIsComplete) {
  RoundConfig config = Chunks(4);
  config.window = 2;
  config.report_always = true;
  RoundTesting t(config);
  t.Lease(0, 1, {0, 1});
  t.Push(0, 0, 3);
  EXPECT_EQ(CompleteIn(t.Push(0, 0, 2)), SetOf({0}));
  // With worker 1's first chunk the credit is one more.
  EXPECT_EQ(CompleteIn(t.Push(1, 0, 3)), IdSet());
  EXPECT_EQ(CompleteIn(t.Push(0, 0, 1)), SetOf({0}));
}

TEST(RoundReportTest, NamesWhomItWaitsForAndHowMuchTheySent) {
  RoundConfig config = Chunks(3);
  config.patience = absl::Seconds(10);
  RoundTesting t(config);
  t.Lease(0, 1, {0, 1, 2});
  t.PushAll(0, 0);
  t.Push(2, 0, 2);
  t.Push(2, 0, 1);
  EXPECT_FALSE(Has<Round::Waiting>(t.Tick(absl::Milliseconds(9999))));
  const auto waiting = One<Round::Waiting>(t.Tick(absl::Milliseconds(1)));
  EXPECT_EQ(waiting.round, 0u);
  EXPECT_EQ(waiting.since, absl::Seconds(10));
  ASSERT_EQ(waiting.who.size(), 2u);
  EXPECT_EQ(waiting.who[0].worker, 1u);
  EXPECT_EQ(waiting.who[0].received, 0);
  EXPECT_EQ(waiting.who[1].worker, 2u);
  EXPECT_EQ(waiting.who[1].received, 2);
  EXPECT_EQ(t.round().NextDeadline(), t.now() + absl::Seconds(10));
  EXPECT_FALSE(Has<Round::Waiting>(t.Tick(absl::Seconds(9))));
  EXPECT_TRUE(Has<Round::Waiting>(t.Tick(absl::Seconds(1))));
}

TEST(RoundReportTest, ARoundIsOpenFromItsLeaseOn) {
  RoundTesting t(Chunks(1));
  t.Tick(absl::Seconds(100));
  t.Lease(0, 1, {0});
  EXPECT_THAT(t.Tick(absl::Milliseconds(999)), IsEmpty());
}

}  // namespace
}  // namespace parapet
