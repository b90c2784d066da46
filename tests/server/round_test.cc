#include "server/round.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/server/round_fixture.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<uint32_t> WorkersOf(const Round::Reduce& reduce) {
  std::vector<uint32_t> workers;
  for (const Contribution& row : reduce.rows) workers.push_back(row.worker);
  return workers;
}

// ---- Gathering and reducing -------------------------------------------------

TEST(RoundTest, ReducesAChunkWhenItsLastMemberHasPushedIt) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0, 1});
  EXPECT_THAT(t.Push(0, 0, 1), IsEmpty());
  EXPECT_THAT(t.Push(0, 0, 0), IsEmpty());
  const auto reduce = One<Round::Reduce>(t.Push(1, 0, 1));
  EXPECT_EQ(reduce.round, 0u);
  EXPECT_EQ(reduce.local, 1);
  EXPECT_TRUE(reduce.step);
  EXPECT_EQ(reduce.facts.lr, 0.5);
  EXPECT_EQ(t.round().version(), 0u);
  EXPECT_FALSE(Has<Round::ReportDone>(t.Do(Round::ReducedIn{0, 1, {}, 0, -1})));
  t.Push(1, 0, 0);
  const auto done =
      One<Round::ReportDone>(t.Do(Round::ReducedIn{0, 0, {}, 0, -1}));
  EXPECT_EQ(done.message.round, 0u);
  EXPECT_THAT(done.message.participants, ElementsAre(0, 1));
  EXPECT_FALSE(done.message.carried);
  EXPECT_EQ(t.round().version(), 1u);
}

TEST(RoundTest, RowsAreInWorkerOrderWhateverTheOrderOfArrival) {
  std::vector<uint32_t> order = {2, 5, 11};
  do {
    RoundTesting t(Chunks(1));
    t.Lease(0, 1, {2, 5, 11});
    RoundEffects last;
    for (uint32_t worker : order) {
      last = t.Push(worker, 0, 0, std::string(1, static_cast<char>(worker)),
                    worker % 8 + 1);
    }
    const auto reduce = One<Round::Reduce>(last);
    ASSERT_THAT(WorkersOf(reduce), ElementsAre(2, 5, 11));
    for (const Contribution& row : reduce.rows) {
      EXPECT_EQ(row.data.ToString(),
                std::string(1, static_cast<char>(row.worker)));
      EXPECT_EQ(row.samples, row.worker % 8 + 1);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(RoundTest, WhatIsPushedBeforeTheLeaseCounts) {
  RoundTesting t(Chunks(1));
  EXPECT_THAT(t.Push(1, 0, 0), IsEmpty());
  EXPECT_THAT(t.Push(0, 0, 0), IsEmpty());
  EXPECT_THAT(t.Push(7, 0, 0), IsEmpty());  // no member, as it turns out
  const auto reduce = One<Round::Reduce>(t.Lease(0, 1, {0, 1}));
  EXPECT_THAT(WorkersOf(reduce), ElementsAre(0, 1));
  const auto done =
      One<Round::ReportDone>(t.Do(Round::ReducedIn{0, 0, {}, 0, -1}));
  EXPECT_THAT(done.message.participants, ElementsAre(0, 1));
  EXPECT_THAT(done.message.exceptions, IsEmpty());
}

TEST(RoundTest, NothingIsReducedBeyondTheLeases) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0});
  EXPECT_EQ(t.round().version(), 0u);
  t.PushAll(0, 0);
  EXPECT_EQ(t.round().version(), 1u);
  EXPECT_THAT(t.PushAll(0, 1), IsEmpty());
  EXPECT_TRUE(Has<Round::Reduce>(t.Lease(1, 2, {0})));
}

TEST(RoundTest, ALeaseToldAgainChangesNothing) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0}, {{Mark::Kind::kHash, 1}});
  EXPECT_THAT(t.Lease(0, 2, {0}, {{Mark::Kind::kHash, 1}}), IsEmpty());
  const RoundEffects all = t.PushAll(0, 0);
  EXPECT_EQ(One<Round::HashVersion>(all).version, 1u);
  EXPECT_THAT(t.Lease(0, 2, {0}, {{Mark::Kind::kHash, 1}}), IsEmpty());
  EXPECT_EQ(t.round().version(), 1u);
}

TEST(RoundTest, FactsAreThoseOfTheRound) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0});
  t.Lease(2, 4, {0});
  for (uint64_t r = 0; r < 4; ++r) {
    const RoundEffects pushed = t.Push(0, r, 0);
    EXPECT_EQ(One<Round::Reduce>(pushed).facts.position, r);
    t.Settle(pushed);
  }
}

TEST(RoundTest, AnAnswerThatFitsNothingIsIgnored) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0});
  EXPECT_THAT(t.Do(Round::ReducedIn{0, 0, {}, 0, -1}), IsEmpty());
  t.Push(0, 0, 1);
  EXPECT_THAT(t.Do(Round::ReducedIn{1, 1, {}, 0, -1}), IsEmpty());
  EXPECT_THAT(t.Do(Round::SteppedIn{0, 1}), IsEmpty());
  t.Do(Round::ReducedIn{0, 1, {}, 0, -1});
  EXPECT_THAT(t.Do(Round::ReducedIn{0, 1, {}, 0, -1}), IsEmpty());
  EXPECT_EQ(t.round().version(), 0u);
}

TEST(RoundTest, BadValuesAreAddedUpByWorker) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0, 1});
  for (int64_t local : {1, 0}) {
    t.Push(0, 0, local);
    t.Push(1, 0, local);
  }
  t.Do(Round::ReducedIn{0, 1, {{1, 3}}, 2, 70});
  const auto done = One<Round::ReportDone>(
      t.Do(Round::ReducedIn{0, 0, {{0, 1}, {1, 4}}, 5, 7}));
  ASSERT_EQ(done.message.bad.size(), 2u);
  EXPECT_EQ(done.message.bad[0].worker, 1u);
  EXPECT_EQ(done.message.bad[0].values, 7u);
  EXPECT_EQ(done.message.bad[1].worker, 0u);
  EXPECT_EQ(done.message.bad[1].values, 1u);
  EXPECT_EQ(done.message.bad_coordinates, 7u);
  EXPECT_EQ(done.message.first_bad, 7);
}

// ---- Abstentions ------------------------------------------------------------

TEST(RoundTest, WhoAbstainsHasNoRow) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0, 1, 2});
  t.Push(2, 0, 0);
  EXPECT_THAT(t.Abstain(1, 0), IsEmpty());
  EXPECT_THAT(t.Abstain(1, 0), IsEmpty());
  const RoundEffects pushed = t.Push(0, 0, 0);
  EXPECT_THAT(WorkersOf(One<Round::Reduce>(pushed)), ElementsAre(0, 2));
  const auto done = One<Round::ReportDone>(t.Settle(pushed));
  EXPECT_THAT(done.message.participants, ElementsAre(0, 2));
}

TEST(RoundTest, AnAbstentionCanBeTheLastThingMissing) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0, 1});
  t.PushAll(0, 0);
  const auto reduces = Only<Round::Reduce>(t.Abstain(1, 0));
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(reduces[0].local, 1);  // in the order of turns
  EXPECT_EQ(reduces[1].local, 0);
}

TEST(RoundTest, WhenAllAbstainTheVersionIsCarried) {
  RoundTesting t(Chunks(3));
  t.Lease(0, 1, {0, 1});
  t.Abstain(0, 0);
  const RoundEffects all = t.Settle(t.Abstain(1, 0));
  EXPECT_FALSE(Has<Round::Reduce>(all));
  const auto carries = Only<Round::Carry>(all);
  ASSERT_EQ(carries.size(), 3u);
  EXPECT_TRUE(carries[0].step);
  const auto done = One<Round::ReportDone>(all);
  EXPECT_TRUE(done.message.carried);
  EXPECT_THAT(done.message.participants, IsEmpty());
  EXPECT_EQ(t.round().version(), 1u);
}

// ---- What is refused --------------------------------------------------------

TEST(RoundTest, ALatePushIsAcknowledgedAsLate) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0});
  t.PushAll(0, 0);
  const auto ack = One<Round::SendAck>(t.Push(0, 0, 1));
  EXPECT_EQ(ack.worker, 0u);
  EXPECT_EQ(ack.round, 0u);
  EXPECT_EQ(ack.local, 1);
  EXPECT_EQ(ack.status, AckStatus::kLate);
  EXPECT_EQ(ack.credit, 4u);  // all of round 1
  EXPECT_EQ(One<Round::SendAck>(t.Abstain(0, 0)).status, AckStatus::kLate);
}

TEST(RoundTest, WhoIsNoMemberIsLate) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0});
  EXPECT_EQ(One<Round::SendAck>(t.Push(3, 0, 0)).status, AckStatus::kLate);
  EXPECT_EQ(t.round().Held(3, 0, 0), nullptr);
}

TEST(RoundTest, TheSameChunkAgainIsADuplicateAndCountsOnce) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0, 1});
  t.Push(0, 0, 0, "abc");
  EXPECT_EQ(One<Round::SendAck>(t.Push(0, 0, 0, "abc")).status,
            AckStatus::kDuplicate);
  const RoundEffects pushed = t.Push(1, 0, 0);
  EXPECT_EQ(One<Round::Reduce>(pushed).rows.size(), 2u);
  // Once it is used it is not compared any more.
  EXPECT_EQ(One<Round::SendAck>(t.Push(0, 0, 0, "xyz")).status,
            AckStatus::kDuplicate);
}

TEST(RoundTest, OtherBytesForAHeldChunkAreEquivocation) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0, 1});
  t.Push(0, 0, 0, "abc");
  const auto strike = One<Round::Strike>(t.Push(0, 0, 0, "abd"));
  EXPECT_EQ(strike.worker, 0u);
  EXPECT_EQ(strike.code, Code::kEquivocation);
  EXPECT_THAT(strike.words, HasSubstr("other bytes"));
  const auto reduce = One<Round::Reduce>(t.Push(1, 0, 0));
  EXPECT_EQ(reduce.rows[0].data.ToString(), "abc");
}

TEST(RoundTest, HeldIsWhatWasPushedAndNotYetUsed) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0, 1});
  EXPECT_EQ(t.round().Held(0, 0, 0), nullptr);
  t.Push(0, 0, 0, "abc");
  ASSERT_NE(t.round().Held(0, 0, 0), nullptr);
  EXPECT_EQ(t.round().Held(0, 0, 0)->ToString(), "abc");
  EXPECT_EQ(t.round().Held(0, 1, 0), nullptr);
  EXPECT_EQ(t.round().Held(1, 0, 0), nullptr);
  t.Push(1, 0, 0);
  EXPECT_EQ(t.round().Held(0, 0, 0), nullptr);
}

TEST(RoundTest, AWorkerMustStayWithinItsCredit) {
  RoundConfig config = Chunks(4);
  config.window = 2;
  RoundTesting t(config);
  t.Lease(0, 2, {0, 1});
  t.Push(0, 0, 3);
  t.Push(0, 0, 2);
  const auto strike = One<Round::Strike>(t.Push(0, 0, 1));
  EXPECT_EQ(strike.code, Code::kOverCredit);
  EXPECT_EQ(t.round().Held(0, 0, 1), nullptr);
  // Credit moves with the first turn that is not being reduced yet.
  t.Push(1, 0, 2);
  EXPECT_TRUE(Has<Round::Strike>(t.Push(0, 0, 1)));
  t.Push(1, 0, 3);
  EXPECT_FALSE(Has<Round::Strike>(t.Push(0, 0, 1)));
  EXPECT_FALSE(Has<Round::Strike>(t.Push(0, 0, 0)));
}

// Three workers that push as far as the credit that they were told of.
class CreditRun {
 public:
  explicit CreditRun(const RoundConfig& config)
      : chunks_(config.chunks), t_(config) {
    t_.Lease(0, 3, {0, 1, 2});
    for (uint32_t w = 0; w < 3; ++w) {
      Learn(t_.Do(Round::LinkIn{w, 1, t_.AllLocals(true)}));
      Learn(t_.Need({Role::kWorker, w}, 0, t_.AllLocals(true)));
    }
  }
  // Goes on until nobody may push any more.
  uint64_t Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (uint32_t w = 0; w < 3; ++w) moved = PushNext(w) || moved;
    }
    return t_.round().version();
  }

 private:
  bool PushNext(uint32_t w) {
    const auto round = static_cast<uint64_t>(sent_[w] / chunks_);
    if (static_cast<uint64_t>(sent_[w]) >= credit_[w]) return false;
    if (round >= 3 || round > t_.round().version()) return false;
    const int64_t local = chunks_ - 1 - sent_[w] % chunks_;
    Learn(t_.Settle(t_.Push(w, round, local)));
    ++sent_[w];
    return true;
  }
  void Learn(const RoundEffects& effects) {
    EXPECT_FALSE(Has<Round::Strike>(effects));
    for (const auto& e : Only<Round::SendNeed>(effects)) {
      credit_[e.worker] = std::max(credit_[e.worker], e.credit);
    }
    for (const auto& e : Only<Round::SendAck>(effects)) {
      credit_[e.worker] = std::max(credit_[e.worker], e.credit);
    }
    for (const auto& e : Only<Round::SendWeights>(effects)) {
      credit_[e.peer.id] = std::max(credit_[e.peer.id], e.credit);
    }
    for (const auto& e : Only<Round::ReportNorm>(effects)) {
      Learn(t_.Settle(t_.Do(Round::ScaleIn{e.round, 1})));
    }
  }

  const int64_t chunks_;
  RoundTesting t_;
  std::vector<int64_t> sent_ = {0, 0, 0};
  std::vector<uint64_t> credit_ = {0, 0, 0};
};

TEST(RoundTest, CreditsNeverLockUp) {
  for (const bool two_phase : {false, true}) {
    for (int64_t window : {0, 1, 2, 3, 5, 7}) {
      RoundConfig config = Chunks(5);
      config.window = window;
      config.two_phase = two_phase;
      EXPECT_EQ(CreditRun(config).Run(), 3u)
          << "window " << window << (two_phase ? " with clip_norm" : "");
    }
  }
}

TEST(RoundTest, SamplesAreWithinTheBatchAndTheSameForAllChunks) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0});
  auto strike = One<Round::Strike>(t.Push(0, 0, 1, "g", 9));
  EXPECT_EQ(strike.code, Code::kBadSamples);
  EXPECT_THAT(strike.words, HasSubstr("8"));
  EXPECT_TRUE(Has<Round::Reduce>(t.Push(0, 0, 1, "g", 8)));
  strike = One<Round::Strike>(t.Push(0, 0, 0, "g", 7));
  EXPECT_EQ(strike.code, Code::kBadSamples);
  EXPECT_TRUE(Has<Round::Reduce>(t.Push(0, 0, 0, "g", 8)));
}

TEST(RoundTest, PushingAndAbstainingIsEquivocation) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0, 1});
  t.Abstain(0, 0);
  EXPECT_EQ(One<Round::Strike>(t.Push(0, 0, 1)).code, Code::kEquivocation);
  t.Push(1, 0, 1);
  EXPECT_EQ(One<Round::Strike>(t.Abstain(1, 0)).code, Code::kEquivocation);
}

TEST(RoundTest, ARoundThatIsNotOpenYetIsAProtocolError) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0});
  EXPECT_EQ(One<Round::Strike>(t.Push(0, 1, 0)).code, Code::kProtocol);
  EXPECT_EQ(One<Round::Strike>(t.Abstain(0, ~uint64_t{0})).code,
            Code::kProtocol);
}

}  // namespace
}  // namespace parapet
