// Rounds: who is sent which version, and which versions are kept for it.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "server/round.h"
#include "tests/server/round_fixture.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Sent = std::vector<std::pair<uint64_t, int64_t>>;

// What a peer is sent, as (version, chunk).
Sent SentTo(const Peer& peer, const RoundEffects& effects) {
  Sent sent;
  for (const auto& e : Only<Round::SendWeights>(effects)) {
    if (e.peer == peer) sent.push_back({e.version, e.local});
  }
  return sent;
}

std::vector<uint64_t> Dropped(const RoundEffects& effects) {
  std::vector<uint64_t> versions;
  for (const auto& e : Only<Round::DropVersion>(effects)) {
    versions.push_back(e.version);
  }
  return versions;
}

TEST(RoundFeedTest, ANewWorkerGetsEverythingThatItNeeds) {
  RoundTesting t(Chunks(3));
  t.Lease(0, 1, {0});
  const RoundEffects all = t.Need(Worker(0), 0, t.AllLocals(true));
  // From the layout's beginning: what a forward pass reads first.
  EXPECT_EQ(SentTo(Worker(0), all), (Sent{{0, 0}, {0, 1}, {0, 2}}));
  EXPECT_EQ(Only<Round::SendWeights>(all)[0].credit, 3u);
}

TEST(RoundFeedTest, AWorkerMayAskBeforeThereIsALease) {
  RoundTesting t(Chunks(1));
  EXPECT_EQ(SentTo(Worker(0), t.Need(Worker(0), 0, {true})), (Sent{{0, 0}}));
}

TEST(RoundFeedTest, EveryLinkBringsItsOwn) {
  RoundTesting t(Chunks(4));
  const std::vector<bool> even = {true, false, true, false};
  const std::vector<bool> odd = {false, true, false, true};
  EXPECT_EQ(SentTo(Worker(0), t.Do(Round::NeedIn{Worker(0), 0, even, even})),
            (Sent{{0, 0}, {0, 2}}));
  EXPECT_EQ(SentTo(Worker(0), t.Do(Round::NeedIn{Worker(0), 0, odd, odd})),
            (Sent{{0, 1}, {0, 3}}));
}

TEST(RoundFeedTest, WhoHasProvenAVersionGetsTheNextAsItIsMade) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0, 1});
  for (uint32_t w : {0, 1}) t.Need(Worker(w), 0, t.AllLocals(true));
  t.Push(0, 0, 1);  // this proves that it has version 0
  t.Push(1, 0, 1);
  RoundEffects all = t.Do(Round::ReducedIn{0, 1, {}, 0, -1});
  EXPECT_EQ(SentTo(Worker(0), all), (Sent{{1, 1}}));
  EXPECT_EQ(SentTo(Worker(1), all), (Sent{{1, 1}}));
  t.Push(0, 0, 0);
  all = t.Settle(t.Push(1, 0, 0));
  EXPECT_EQ(SentTo(Worker(0), all), (Sent{{1, 0}}));
  EXPECT_EQ(SentTo(Worker(1), all), (Sent{{1, 0}}));
}

TEST(RoundFeedTest, AnAbstentionProvesAsWell) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0, 1});
  for (uint32_t w : {0, 1}) t.Need(Worker(w), 0, {true});
  t.Push(0, 0, 0);
  EXPECT_EQ(SentTo(Worker(1), t.Settle(t.Abstain(1, 0))), (Sent{{1, 0}}));
}

TEST(RoundFeedTest, WhatALinkLostIsSentAgainOnTheNextOne) {
  RoundTesting t(Chunks(3));
  t.Lease(0, 1, {0});
  t.Need(Worker(0), 0, t.AllLocals(true));
  // Chunk 1 did not arrive.
  EXPECT_EQ(SentTo(Worker(0), t.Need(Worker(0), 0, {false, true, false})),
            (Sent{{0, 1}}));
}

TEST(RoundFeedTest, AWholeVersionLostWithItsLinkIsSentAgain) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0});
  t.Need(Worker(0), 0, t.AllLocals(true));
  EXPECT_EQ(SentTo(Worker(0), t.PushAll(0, 0)), (Sent{{1, 1}, {1, 0}}));
  // Nothing of version 1 arrived: the worker only knows that it has version 0.
  EXPECT_EQ(SentTo(Worker(0), t.Need(Worker(0), 0, {})),
            (Sent{{1, 0}, {1, 1}}));
}

TEST(RoundFeedTest, AChunkThatIsNotMadeYetIsSentOnceItIs) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0});
  t.Need(Worker(0), 0, t.AllLocals(true));
  t.Settle(t.Push(0, 0, 1));
  // The link broke; chunk 1 of version 1 had arrived.
  EXPECT_THAT(SentTo(Worker(0), t.Need(Worker(0), 1, {true, false})),
              IsEmpty());
  EXPECT_EQ(SentTo(Worker(0), t.Settle(t.Push(0, 0, 0))), (Sent{{1, 0}}));
}

TEST(RoundFeedTest, AnotherServerMayHaveBegunTheVersionFirst) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0});
  t.Need(Worker(0), 0, t.AllLocals(true));
  // Version 1 is whole elsewhere, so a new link asks for its chunk of it. The
  // other link lacks its own as well, and does not ask.
  const std::vector<bool> mine = {true, false};
  EXPECT_THAT(SentTo(Worker(0), t.Do(Round::NeedIn{Worker(0), 1, mine, mine})),
              IsEmpty());
  EXPECT_EQ(SentTo(Worker(0), t.PushAll(0, 0)), (Sent{{1, 1}, {1, 0}}));
}

TEST(RoundFeedTest, ALinkHearsWhichGradientsTheShardLacks) {
  RoundTesting t(Chunks(4));
  t.Lease(0, 2, {0, 1});
  t.Push(0, 0, 3);
  auto need = One<Round::SendNeed>(
      t.Do(Round::LinkIn{0, 2, {false, true, false, true}}));
  EXPECT_EQ(need.worker, 0u);
  EXPECT_EQ(need.link, 2);
  EXPECT_EQ(need.round, 0u);
  EXPECT_EQ(need.credit, 4u);
  EXPECT_THAT(need.locals, ElementsAre(false, true, false, false));
  t.Close(0, {1});
  need = One<Round::SendNeed>(t.Do(Round::LinkIn{0, 2, t.AllLocals(true)}));
  EXPECT_EQ(need.locals, t.AllLocals(false));
}

TEST(RoundFeedTest, NothingIsLackedFromWhoAbstained) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 1, {0, 1});
  t.Abstain(0, 0);
  EXPECT_EQ(
      One<Round::SendNeed>(t.Do(Round::LinkIn{0, 1, t.AllLocals(true)})).locals,
      t.AllLocals(false));
}

TEST(RoundFeedTest, ALaggardGetsItsVersionWholeAndThenTheNewest) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 9, {0, 1});
  for (uint32_t w : {0, 1}) t.Need(Worker(w), 0, {true});
  for (uint64_t r = 0; r < 3; ++r) t.Close(r, {0});
  RoundEffects all;
  for (uint64_t r = 0; r < 3; ++r) {
    const RoundEffects some = t.PushAll(0, r);
    EXPECT_THAT(SentTo(Worker(1), some), IsEmpty());
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_THAT(Dropped(all), ElementsAre(1, 2));  // 0 is kept for worker 1
  // Late, but it proves that worker 1 has version 0.
  EXPECT_EQ(SentTo(Worker(1), t.Push(1, 0, 0)), (Sent{{3, 0}}));
  t.Push(1, 3, 0);
  EXPECT_THAT(Dropped(t.PushAll(0, 3)), ElementsAre(0, 3));
}

TEST(RoundFeedTest, WhoAsksForAVersionThatIsGoneGetsTheNewest) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0, 1});
  t.Close(0, {0});
  t.Need(Worker(0), 0, t.AllLocals(true));
  t.PushAll(0, 0);
  EXPECT_EQ(SentTo(Worker(1), t.Need(Worker(1), 0, t.AllLocals(true))),
            (Sent{{1, 0}, {1, 1}}));
}

TEST(RoundFeedTest, AtMostTwoOldVersionsAreKept) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 9, {0, 1, 2, 3});
  t.Need(Worker(0), 0, {true});
  for (uint64_t r = 0; r < 9; ++r) t.Close(r, {0});
  RoundEffects all;
  // Workers 1, 2 and 3 each begin to receive another version and never go on.
  for (uint32_t w = 1; w <= 3; ++w) {
    t.Need(Worker(w), w - 1, {true});
    all = t.PushAll(0, w - 1);
    EXPECT_EQ(Dropped(all).size(), w == 3 ? 1u : 0u);
  }
  // Version 0 was one too many: worker 1 is sent the newest instead.
  EXPECT_THAT(Dropped(all), ElementsAre(0));
  EXPECT_EQ(SentTo(Worker(1), all), (Sent{{3, 0}}));
}

TEST(RoundFeedTest, WhatNobodyNeedsIsDroppedAtOnce) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 5, {0});
  t.Need(Worker(0), 0, {true});
  for (uint64_t r = 0; r < 5; ++r) {
    EXPECT_THAT(Dropped(t.PushAll(0, r)), ElementsAre(r));
  }
}

TEST(RoundFeedTest, WhoLeftIsSentNothingAndHoldsNothing) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0, 1});
  for (uint32_t w : {0, 1}) t.Need(Worker(w), 0, {true});
  t.Close(0, {0});
  t.PushAll(0, 0);
  t.Lease(1, 3, {0});
  const RoundEffects all = t.PushAll(0, 1);
  EXPECT_THAT(Dropped(all), ElementsAre(0, 1));
  EXPECT_THAT(SentTo(Worker(1), all), IsEmpty());
}

// ---- Evaluators -------------------------------------------------------------

TEST(RoundFeedTest, AnEvaluatorGetsMarkedVersionsOnly) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 4, {0}, {{Mark::Kind::kEvaluate, 2}}, {0});
  EXPECT_THAT(SentTo(Evaluator(0), t.Need(Evaluator(0), 0, {})), IsEmpty());
  EXPECT_THAT(SentTo(Evaluator(0), t.PushAll(0, 0)), IsEmpty());
  EXPECT_EQ(SentTo(Evaluator(0), t.PushAll(0, 1)), (Sent{{2, 0}, {2, 1}}));
  // Until it says that it has it, the version is kept.
  const std::vector<bool> lacks = {false, true};
  EXPECT_THAT(Dropped(t.PushAll(0, 2)), IsEmpty());
  EXPECT_EQ(SentTo(Evaluator(0), t.Need(Evaluator(0), 2, lacks)),
            (Sent{{2, 1}}));
  t.Need(Evaluator(0), 2, {});
  EXPECT_THAT(Dropped(t.PushAll(0, 3)), ElementsAre(2, 3));
}

TEST(RoundFeedTest, AnEvaluatorThatConnectsAfterTheMarkIsSentTheVersion) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 2, {0}, {{Mark::Kind::kEvaluate, 1}}, {0});
  t.PushAll(0, 0);  // sent into the void
  EXPECT_EQ(SentTo(Evaluator(0), t.Need(Evaluator(0), 0, {})), (Sent{{1, 0}}));
}

TEST(RoundFeedTest, AnEvaluatorThatIsSentANewerVersionStaysWithThat) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0, 1},
          {{Mark::Kind::kEvaluate, 1}, {Mark::Kind::kEvaluate, 2}}, {0});
  for (uint32_t w : {0, 1}) t.Need(Worker(w), 0, t.AllLocals(true));
  t.PushAll(0, 0);
  t.PushAll(1, 0);
  t.Close(1, {0});
  t.PushAll(0, 1);  // version 1 is kept for worker 1
  // A link broke with chunks of both versions.
  const std::vector<bool> mine = {true, false};
  EXPECT_EQ(
      SentTo(Evaluator(0), t.Do(Round::NeedIn{Evaluator(0), 1, mine, mine})),
      (Sent{{2, 0}}));
}

TEST(RoundFeedTest, ARestartedEvaluatorIsNotSentWhatIsGone) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 4, {0}, {{Mark::Kind::kEvaluate, 1}}, {0});
  t.Need(Evaluator(0), 0, {});
  t.PushAll(0, 0);
  t.Need(Evaluator(0), 1, {});
  EXPECT_THAT(Dropped(t.PushAll(0, 1)), ElementsAre(1));
  for (const auto& [version, local] :
       SentTo(Evaluator(0), t.Need(Evaluator(0), 0, {}))) {
    EXPECT_NE(version, 1u);
  }
}

TEST(RoundFeedTest, AStopCanAskForAnEvaluationOfTheOpenVersion) {
  RoundTesting t(Chunks(1));
  t.Lease(0, 1, {0}, {}, {0});
  t.PushAll(0, 0);
  const RoundTesting::Marks marks = {{Mark::Kind::kStop, 1},
                                     {Mark::Kind::kEvaluate, 1}};
  EXPECT_EQ(SentTo(Evaluator(0), t.Lease(1, 1, {0}, marks, {0})),
            (Sent{{1, 0}}));
}

// ---- Hostile and random -----------------------------------------------------

TEST(RoundFeedTest, NumbersThatMakeNoSenseDoNoHarm) {
  RoundTesting t(Chunks(2));
  t.Lease(0, 2, {0, 1}, {}, {0});
  for (const Peer& peer : {Worker(1), Evaluator(0)}) {
    for (uint64_t version :
         {~uint64_t{0}, uint64_t{1} << 63, (uint64_t{1} << 63) - 1}) {
      t.Need(peer, version, {});
      t.Need(peer, version, t.AllLocals(true));
      t.Need(peer, version, {});
    }
  }
  t.PushAll(1, 0);
  EXPECT_TRUE(Has<Round::ReportDone>(t.PushAll(0, 0)));
  EXPECT_EQ(SentTo(Worker(1), t.Need(Worker(1), 1, t.AllLocals(true))),
            (Sent{{1, 0}, {1, 1}}));
}

// Random events, also senseless ones, and what must hold whatever comes.
class RandomRounds {
 public:
  static constexpr int64_t kChunks = 3;
  static constexpr uint32_t kWorkers = 4;

  explicit RandomRounds(uint64_t seed) : random_(seed, 0), t_(Config()) {
    for (int64_t local = 0; local < kChunks; ++local) made_.insert({0, local});
    complete_ = {0};
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) Step();
  }
  uint64_t version() { return t_.round().version(); }

 private:
  static RoundConfig Config() {
    RoundConfig config = Chunks(kChunks);
    config.window = 2;
    return config;
  }
  uint64_t Below(uint64_t n) { return random_.Below(n); }
  uint32_t AnyWorker() { return static_cast<uint32_t>(Below(kWorkers)); }
  uint64_t NearVersion() {
    const uint64_t v = version() + Below(5);
    return Below(20) == 0 ? ~uint64_t{0} - Below(3) : v - std::min(v, Below(4));
  }
  std::vector<bool> Bits() {
    std::vector<bool> bits;
    for (int64_t i = 0; i < kChunks; ++i) bits.push_back(Below(2) == 0);
    return bits;
  }
  std::vector<uint32_t> SomeWorkers() {
    std::vector<uint32_t> some;
    for (uint32_t w = 0; w < kWorkers; ++w) {
      if (Below(3) > 0) some.push_back(w);
    }
    return some;
  }

  void Step() {
    switch (Below(10)) {
      case 0:
        if (until_ < version() + 3) {
          const uint64_t from = until_;
          until_ += Below(3) + 1;
          RoundTesting::Marks marks = {{Mark::Kind::kEvaluate, until_}};
          Check(t_.Lease(from, until_, SomeWorkers(), marks, {0}));
        }
        return;
      case 1:
        return Check(t_.Close(NearVersion(), SomeWorkers()));
      case 2:
        return Check(t_.Abstain(AnyWorker(), NearVersion()));
      case 3: {
        const Peer peer = Below(3) == 0 ? Evaluator(0) : Worker(AnyWorker());
        const bool nothing = Below(2) == 0;
        return Check(t_.Need(peer, NearVersion(),
                             nothing ? std::vector<bool>() : Bits()));
      }
      case 4:
        return Check(t_.Do(Round::LinkIn{AnyWorker(), 1, Bits()}));
      case 5:
        return Check(t_.Tick(absl::Milliseconds(Below(2000))));
      case 6:
      case 7:
        return Answer();
      default:
        return Check(t_.Push(AnyWorker(), version(),
                             static_cast<int64_t>(Below(kChunks)), "g",
                             static_cast<uint32_t>(Below(10) + 1)));
    }
  }

  // Ends a piece of work, any of them.
  void Answer() {
    if (work_.empty()) return;
    const size_t i = Below(work_.size());
    const auto [round, local] = work_[i];
    work_.erase(work_.begin() + static_cast<ptrdiff_t>(i));
    made_.insert({round + 1, local});
    Check(t_.Do(Round::ReducedIn{round, local, {}, 0, -1}));
  }

  void Begin(uint64_t round, int64_t local) {
    EXPECT_EQ(round, version());
    EXPECT_TRUE(begun_.insert({round, local}).second) << "reduced twice";
    work_.push_back({round, local});
  }

  void Check(const RoundEffects& effects) {
    for (const Round::Effect& effect : effects) {
      std::visit([this](const auto& e) { CheckOne(e); }, effect);
    }
    // The newest, and two more.
    EXPECT_LE(complete_.size(), 3u);
    const Peer other{Role::kWorker, 0};
    const uint64_t credit =
        One<Round::SendNeed>(
            t_.Do(Round::LinkIn{other.id, 1, t_.AllLocals(false)}))
            .credit;
    EXPECT_GE(credit, credit_);
    credit_ = credit;
  }

  template <typename T>
  void CheckOne(const T&) {}
  void CheckOne(const Round::Reduce& e) {
    for (size_t i = 1; i < e.rows.size(); ++i) {
      EXPECT_LT(e.rows[i - 1].worker, e.rows[i].worker);
    }
    EXPECT_FALSE(e.rows.empty());
    Begin(e.round, e.local);
  }
  void CheckOne(const Round::Carry& e) { Begin(e.round, e.local); }
  void CheckOne(const Round::SendWeights& e) {
    EXPECT_TRUE(made_.contains({e.version, e.local}))
        << "version " << e.version << " chunk " << e.local << " is not made";
    EXPECT_FALSE(dropped_.contains(e.version))
        << "version " << e.version << " was dropped";
  }
  void CheckOne(const Round::DropVersion& e) {
    EXPECT_TRUE(dropped_.insert(e.version).second);
    EXPECT_EQ(complete_.erase(e.version), 1u);
    EXPECT_LT(e.version, version());
  }
  void CheckOne(const Round::ReportDone& e) {
    for (int64_t local = 0; local < kChunks; ++local) {
      EXPECT_TRUE(made_.contains({e.message.round + 1, local}));
    }
    complete_.insert(e.message.round + 1);
  }

  Random random_;
  RoundTesting t_;
  uint64_t until_ = 0, credit_ = 0;
  std::vector<std::pair<uint64_t, int64_t>> work_;
  std::set<std::pair<uint64_t, int64_t>> made_, begun_;
  std::set<uint64_t> dropped_, complete_;
};

TEST(RoundFeedTest, WhateverComesWhatIsSentExists) {
  uint64_t versions = 0;
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRounds rounds(seed);
    rounds.Run(2000);
    versions += rounds.version();
  }
  EXPECT_GT(versions, 60 * 20u);  // else it tested little
}

}  // namespace
}  // namespace parapet
