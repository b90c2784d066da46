// Rounds of a shard under a rule on distances.

#include "tests/server/round_fixture.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<uint32_t> WorkersOf(const std::vector<Contribution>& rows) {
  std::vector<uint32_t> workers;
  for (const Contribution& row : rows) workers.push_back(row.worker);
  return workers;
}

RoundConfig Exchange(int64_t chunks) {
  RoundConfig config = Chunks(chunks);
  config.exchange = true;
  return config;
}

class RoundExchangeTest : public testing::Test {
 protected:
  explicit RoundExchangeTest(RoundConfig config = Exchange(2)) : t_(config) {
    t_.Lease(0, 4, {0, 1, 2});
  }
  // Everybody has pushed everything and it is measured.
  RoundEffects PushEverything(uint64_t round = 0) {
    RoundEffects all;
    for (uint32_t w : {0, 1, 2}) {
      for (auto& e : t_.PushAll(w, round)) all.push_back(std::move(e));
    }
    return all;
  }

  RoundTesting t_;
};

TEST_F(RoundExchangeTest, AChunkIsMeasuredOnceItIsWhole) {
  t_.Push(2, 0, 1, "c");
  EXPECT_FALSE(Has<Round::Measure>(t_.Push(0, 0, 1, "a")));
  const RoundEffects effects = t_.Push(1, 0, 1, "b");
  const auto measure = One<Round::Measure>(effects);
  EXPECT_EQ(measure.round, 0u);
  EXPECT_EQ(measure.local, 1);
  EXPECT_THAT(WorkersOf(measure.rows), ElementsAre(0, 1, 2));
  EXPECT_EQ(measure.rows[2].data.ToString(), "c");
  EXPECT_FALSE(Has<Round::Reduce>(effects));
}

TEST_F(RoundExchangeTest, OnlyAWholeShardIsReported) {
  for (uint32_t w : {0, 1, 2}) t_.Push(w, 0, 1);
  EXPECT_FALSE(Has<Round::ReportDistances>(t_.Do(Round::MeasuredIn{0, 1})));
  for (uint32_t w : {0, 1, 2}) t_.Push(w, 0, 0);
  const auto report =
      One<Round::ReportDistances>(t_.Do(Round::MeasuredIn{0, 0}));
  EXPECT_EQ(report.round, 0u);
  EXPECT_THAT(report.workers, ElementsAre(0, 1, 2));
  EXPECT_FALSE(Has<Round::ReportDistances>(t_.Do(Round::MeasuredIn{0, 0})))
      << "told twice";
}

TEST_F(RoundExchangeTest, TheDecisionReducesEveryChunkFromTheFirstOn) {
  EXPECT_FALSE(Has<Round::Reduce>(PushEverything()));
  const auto reduces = Only<Round::Reduce>(t_.Decide(0, {0, 2}));
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(reduces[0].local, 0);
  EXPECT_EQ(reduces[1].local, 1);
  for (const auto& reduce : reduces) {
    EXPECT_THAT(WorkersOf(reduce.rows), ElementsAre(0, 2));
    ASSERT_NE(reduce.plan, nullptr);
    EXPECT_TRUE(reduce.step);
  }
  EXPECT_FALSE(Has<Round::Reduce>(t_.Decide(0, {0, 2}))) << "told twice";
  t_.Do(Round::ReducedIn{0, 0, {}, 0, -1});
  const auto done =
      One<Round::ReportDone>(t_.Do(Round::ReducedIn{0, 1, {}, 0, -1}));
  EXPECT_THAT(done.message.participants, ElementsAre(0, 2));
  EXPECT_THAT(done.message.exceptions, IsEmpty());
  EXPECT_FALSE(done.message.carried);
  EXPECT_EQ(t_.round().version(), 1u);
}

TEST_F(RoundExchangeTest, TheNextRoundIsMeasuredAgain) {
  PushEverything(0);
  t_.Settle(t_.Decide(0, {0, 1, 2}));
  EXPECT_EQ(Only<Round::Measure>(PushEverything(1)).size(), 2u);
  t_.Settle(t_.Decide(1, {1}));
  EXPECT_EQ(t_.round().version(), 2u);
}

TEST_F(RoundExchangeTest, CreditIsForAWholeShardUntilTheDecision) {
  for (uint32_t w : {0, 1, 2}) t_.Settle(t_.Push(w, 0, 1));
  // The window of two chunks has not moved.
  const auto need =
      One<Round::SendNeed>(t_.Do(Round::LinkIn{0, 1, t_.AllLocals(true)}));
  EXPECT_EQ(need.credit, 2u);
  EXPECT_THAT(need.locals, ElementsAre(true, false));
}

TEST_F(RoundExchangeTest, WhatIsHeldIsComparedUntilTheDecision) {
  t_.PushAll(0, 0);
  t_.PushAll(1, 0);
  t_.PushAll(2, 0);
  EXPECT_EQ(One<Round::SendAck>(t_.Push(0, 0, 1)).status,
            AckStatus::kDuplicate);
  EXPECT_EQ(One<Round::Strike>(t_.Push(0, 0, 1, "other")).code,
            Code::kEquivocation);
}

TEST_F(RoundExchangeTest, WhoAbstainsIsNotMeasured) {
  t_.Abstain(1, 0);
  t_.PushAll(0, 0);
  const RoundEffects effects = t_.PushAll(2, 0);
  EXPECT_THAT(WorkersOf(Only<Round::Measure>(effects)[0].rows),
              ElementsAre(0, 2));
  EXPECT_THAT(One<Round::ReportDistances>(effects).workers, ElementsAre(0, 2));
}

TEST_F(RoundExchangeTest, WhereEverybodyAbstainsTheWeightsStay) {
  RoundEffects effects;
  for (uint32_t w : {0, 1, 2}) effects = t_.Abstain(w, 0);
  EXPECT_THAT(One<Round::ReportDistances>(effects).workers, IsEmpty());
  effects = t_.Settle(t_.Decide(0, {}));
  EXPECT_EQ(Only<Round::Carry>(effects).size(), 2u);
  EXPECT_TRUE(One<Round::ReportDone>(effects).message.carried);
}

TEST_F(RoundExchangeTest, WhoIsClosedOutIsNotReported) {
  // The first chunk was measured with worker 2.
  for (uint32_t w : {0, 1, 2}) t_.Settle(t_.Push(w, 0, 1));
  t_.Push(0, 0, 0);
  t_.Push(1, 0, 0);
  const RoundEffects effects = t_.Settle(t_.Close(0, {0, 1}));
  EXPECT_THAT(WorkersOf(One<Round::Measure>(effects).rows), ElementsAre(0, 1));
  EXPECT_THAT(One<Round::ReportDistances>(effects).workers, ElementsAre(0, 1));
  EXPECT_EQ(One<Round::SendAck>(t_.Push(2, 0, 0)).status, AckStatus::kLate);
  const auto done =
      One<Round::ReportDone>(t_.Settle(t_.Decide(0, {0, 1}))).message;
  EXPECT_THAT(done.participants, ElementsAre(0, 1));
  EXPECT_THAT(done.exceptions, IsEmpty());
}

// The lead sends none for a round that it has decided; one that comes late all
// the same changes nothing.
TEST_F(RoundExchangeTest, ACloseAfterTheDecisionChangesNothing) {
  PushEverything();
  t_.Decide(0, {0, 1, 2});
  EXPECT_THAT(t_.Close(0, {0}), IsEmpty());
  t_.Do(Round::ReducedIn{0, 0, {}, 0, -1});
  const auto done =
      One<Round::ReportDone>(t_.Do(Round::ReducedIn{0, 1, {}, 0, -1}));
  EXPECT_THAT(done.message.participants, ElementsAre(0, 1, 2));
}

TEST_F(RoundExchangeTest, ADecisionOnWhatIsNotHereIsRefused) {
  t_.PushAll(0, 0);
  EXPECT_THAT(One<Round::RefuseDecision>(t_.Decide(0, {0})).words,
              HasSubstr("not here"))
      << "before the shard is measured";
  t_.Abstain(2, 0);
  t_.PushAll(1, 0);
  EXPECT_TRUE(Has<Round::RefuseDecision>(t_.Decide(0, {0, 2})));
  EXPECT_TRUE(Has<Round::RefuseDecision>(t_.Decide(0, {0, 9})));
  EXPECT_TRUE(Has<Round::Reduce>(t_.Decide(0, {0, 1})));
}

TEST_F(RoundExchangeTest, ALateDecisionOfAnotherRoundIsIgnored) {
  PushEverything(0);
  t_.Settle(t_.Decide(0, {0, 1, 2}));
  EXPECT_THAT(t_.Decide(0, {0, 1, 2}), IsEmpty());
  EXPECT_THAT(t_.Decide(7, {0, 1, 2}), IsEmpty());
}

TEST_F(RoundExchangeTest, ItWaitsForTheLead) {
  PushEverything();
  const auto waiting = One<Round::Waiting>(t_.Tick(absl::Seconds(11)));
  EXPECT_THAT(waiting.who, IsEmpty());
}

class RoundExchangeClipTest : public RoundExchangeTest {
 protected:
  RoundExchangeClipTest() : RoundExchangeTest(Config()) {}
  static RoundConfig Config() {
    RoundConfig config = Exchange(2);
    config.two_phase = true;
    return config;
  }
};

TEST_F(RoundExchangeClipTest, TheScaleComesAfterTheDecision) {
  PushEverything();
  const RoundEffects effects = t_.Settle(t_.Decide(0, {0, 1}));
  for (const auto& reduce : Only<Round::Reduce>(effects))
    EXPECT_FALSE(reduce.step);
  EXPECT_EQ(One<Round::ReportNorm>(effects).round, 0u);
  EXPECT_FALSE(Has<Round::Step>(effects));
  const RoundEffects steps = t_.Settle(t_.Do(Round::ScaleIn{0, 0.5}));
  EXPECT_EQ(Only<Round::Step>(steps).size(), 2u);
  EXPECT_THAT(One<Round::ReportDone>(steps).message.participants,
              ElementsAre(0, 1));
}

class RoundExchangeEmptyTest : public RoundExchangeTest {
 protected:
  RoundExchangeEmptyTest() : RoundExchangeTest(Exchange(0)) {}
};

// It has nothing to measure, and runs ahead.
TEST_F(RoundExchangeEmptyTest, AShardWithoutChunksReportsNothing) {
  EXPECT_EQ(t_.round().version(), 4u);
  EXPECT_THAT(t_.Decide(4, {0, 1, 2}), IsEmpty());
}

}  // namespace
}  // namespace parapet
