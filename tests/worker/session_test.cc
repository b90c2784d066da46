// The session: joining, receiving versions and pushing gradients.

#include "worker/session.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/worker/session_fixture.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<LinkKey> Connects(const SessionEffects& effects) {
  std::vector<LinkKey> links;
  for (const auto& e : EffectsOf<Session::Connect>(effects)) {
    links.push_back(e.link);
  }
  return links;
}

std::vector<int64_t> Received(const SessionEffects& effects) {
  std::vector<int64_t> chunks;
  for (const auto& e : EffectsOf<Session::NewChunk>(effects)) {
    chunks.push_back(e.chunk);
  }
  return chunks;
}

// ---- Joining ----------------------------------------------------------------

TEST(SessionJoinTest, TheLeadComesFirst) {
  SessionTesting t;
  EXPECT_THAT(Connects(t.Tick()), ElementsAre(LinkKey{0, 0}));
  EXPECT_THAT(t.Tick(), IsEmpty());
  const auto hello = SentOn<HelloMessage>(LinkKey{0, 0}, t.Up({0, 0}));
  ASSERT_THAT(hello, SizeIs(1));
  EXPECT_EQ(hello[0].protocol, kProtocolVersion);
  EXPECT_EQ(hello[0].peer, (Peer{Role::kWorker, 3}));
  EXPECT_EQ(hello[0].link, 0);
  EXPECT_EQ(hello[0].nonce, 77u);
  EXPECT_EQ(hello[0].layout_hash, 88u);
  EXPECT_EQ(hello[0].samples, 99u);
  EXPECT_EQ(hello[0].fingerprint, "cpu");
  EXPECT_EQ(hello[0].job, "batch=4\n");
  EXPECT_FALSE(t.session().complete());
}

TEST(SessionJoinTest, OnceAdmittedEveryLinkIsOpenedWithTheToken) {
  SessionTesting t(2);
  t.Tick();
  t.Up({0, 0});
  const SessionEffects all = t.Hear({0, 0}, WelcomeMessage{7, "snap/step-7"});
  const auto admitted = EffectsOf<Session::Admitted>(all);
  ASSERT_THAT(admitted, SizeIs(1));
  EXPECT_EQ(admitted[0].version, 7u);
  EXPECT_EQ(admitted[0].snapshot, "snap/step-7");
  ASSERT_THAT(EffectsOf<Session::NewVersion>(all), SizeIs(1));
  EXPECT_EQ(t.session().version(), 7u);
  EXPECT_THAT(Connects(all),
              ElementsAre(LinkKey{0, 1}, LinkKey{0, 2}, LinkKey{1, 0},
                          LinkKey{1, 1}, LinkKey{1, 2}));
  const auto sends = EffectsOf<Session::Send>(t.Up({1, 2}));
  ASSERT_THAT(sends, SizeIs(1));
  EXPECT_EQ(sends[0].message.session, SessionTesting::kToken);
  EXPECT_EQ(sends[0].message.term, SessionTesting::kTerm);
  const auto& hello = std::get<HelloMessage>(sends[0].message.body);
  EXPECT_EQ(hello.link, 2);
  EXPECT_EQ(hello.job, "");
}

TEST(SessionJoinTest, EveryDataLinkAsksForItsChunks) {
  SessionTesting t(3);
  t.Tick();
  t.Open({0, 0});
  // Server 1 has chunks 1, 3 and 5, on links 2, 1 and 3.
  for (const auto& [link, locals] :
       std::vector<std::pair<uint16_t, std::vector<bool>>>{
           {1, {false, true, false}},
           {2, {true, false, false}},
           {3, {false, false, true}}}) {
    const LinkKey key{1, link};
    const auto need = SentOn<NeedWeightsMessage>(key, t.Open(key));
    ASSERT_THAT(need, SizeIs(1));
    EXPECT_EQ(need[0].version, 0u);
    EXPECT_EQ(need[0].locals, locals);
  }
}

TEST(SessionJoinTest, ARefusalEndsIt) {
  SessionTesting t;
  t.Tick();
  t.Up({0, 0});
  const auto finish = EffectsOf<Session::Finish>(t.Do(Session::MessageIn{
      {0, 0}, {0, 0, RefuseMessage{Code::kJobDiffers, "batch=8"}}}));
  ASSERT_THAT(finish, SizeIs(1));
  EXPECT_EQ(finish[0].code, Code::kJobDiffers);
  EXPECT_THAT(finish[0].words, HasSubstr("batch=8"));
  EXPECT_TRUE(t.session().finished());
  EXPECT_THAT(t.Tick(), IsEmpty());
}

TEST(SessionJoinTest, ALaterRefusalIsOnlyLogged) {
  SessionTesting t;
  t.Join();
  const SessionEffects all =
      t.Hear({1, 0}, RefuseMessage{Code::kOverCredit, "too much"});
  ASSERT_THAT(EffectsOf<Session::Log>(all), SizeIs(1));
  EXPECT_THAT(EffectsOf<Session::Log>(all)[0].words,
              testing::AllOf(HasSubstr("server 1"), HasSubstr("too much"),
                             HasSubstr("over_credit")));
  EXPECT_FALSE(t.session().finished());
}

TEST(SessionJoinTest, MessagesOfAnotherLifeAreIgnored) {
  SessionTesting t;
  t.Join();
  for (const auto& [term, token] : std::vector<std::pair<uint64_t, uint64_t>>{
           {SessionTesting::kTerm, 1}, {1, SessionTesting::kToken}, {0, 0}}) {
    const Message bye{term, token, ByeMessage{Code::kOk, ""}};
    EXPECT_THAT(t.Do(Session::MessageIn{{0, 0}, bye}), IsEmpty());
  }
  EXPECT_FALSE(t.session().finished());
}

TEST(SessionJoinTest, OnlyTheLeadSaysGoodbyeAndGivesLeases) {
  SessionTesting t;
  t.Join();
  EXPECT_THAT(t.Hear({1, 0}, ByeMessage{Code::kOk, ""}), IsEmpty());
  EXPECT_THAT(t.Hear({1, 0}, LeaseMessage{}), IsEmpty());
  const auto finish = EffectsOf<Session::Finish>(
      t.Hear({0, 0}, ByeMessage{Code::kLeftOut, "too slow"}));
  ASSERT_THAT(finish, SizeIs(1));
  EXPECT_EQ(finish[0].code, Code::kLeftOut);
  EXPECT_EQ(finish[0].words, "too slow");
}

// ---- Receiving --------------------------------------------------------------

TEST(SessionReceiveTest, EveryChunkOnce) {
  SessionTesting t;
  t.Join();
  SessionEffects all = t.Weights(0, 4);
  ASSERT_THAT(Received(all), ElementsAre(4));
  EXPECT_EQ(EffectsOf<Session::NewChunk>(all)[0].data.ToString(),
            t.Bytes(0, 4).ToString());
  EXPECT_THAT(Received(t.Weights(0, 4)), IsEmpty());
  EXPECT_THAT(Received(t.AllWeights(0)), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_TRUE(t.session().complete());
}

TEST(SessionReceiveTest, WhatIsNotAChunkOfThatServerIsIgnored) {
  SessionTesting t;
  t.Join();
  const Payload good = t.Bytes(0, 0);
  const Payload shorter(good.owner(), good.data(), good.size() - 1);
  for (const WeightsMessage& m :
       {WeightsMessage{0, 1, DType::kFloat32, 0, good},  // server 1's
        WeightsMessage{0, 6, DType::kFloat32, 0, good},
        WeightsMessage{0, ~uint64_t{0}, DType::kFloat32, 0, good},
        WeightsMessage{0, 0, DType::kFloat16, 0, good},
        WeightsMessage{0, 0, DType::kFloat32, 0, shorter}}) {
    EXPECT_THAT(t.Hear({0, 1}, m), IsEmpty());
  }
}

TEST(SessionReceiveTest, TheNextVersionBeginsWithItsFirstChunk) {
  SessionTesting t;
  t.Join();
  t.AllWeights(0);
  const SessionEffects all = t.Weights(1, 5);
  ASSERT_THAT(EffectsOf<Session::NewVersion>(all), SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<Session::NewVersion>(all[0]));
  EXPECT_EQ(EffectsOf<Session::NewVersion>(all)[0].version, 1u);
  EXPECT_THAT(Received(all), ElementsAre(5));
  // No need to ask: the other servers send it by themselves.
  EXPECT_THAT(Sent<NeedWeightsMessage>(all), IsEmpty());
  EXPECT_THAT(t.Weights(0, 2), IsEmpty());  // of the old one
}

TEST(SessionReceiveTest, WhoFellBehindTellsTheOthersWhatItWants) {
  SessionTesting t;
  t.Join();
  t.Weights(0, 0);
  const SessionEffects all = t.Weights(5, 0);
  ASSERT_THAT(EffectsOf<Session::NewVersion>(all), SizeIs(1));
  EXPECT_THAT(SentOn<NeedWeightsMessage>(LinkKey{0, 1}, all), IsEmpty());
  const auto need = SentOn<NeedWeightsMessage>(LinkKey{1, 1}, all);
  ASSERT_THAT(need, SizeIs(1));
  EXPECT_EQ(need[0].version, 5u);
  EXPECT_THAT(need[0].locals, ElementsAre(true, true, true));
}

TEST(SessionReceiveTest, AMarkedVersionIsHashedOnceItIsWhole) {
  SessionTesting t;
  t.Join();
  t.Lease(0, 2, {{Mark::Kind::kHash, 0}, {Mark::Kind::kHash, 1}});
  EXPECT_THAT(EffectsOf<Session::HashVersion>(t.AllWeights(0)), SizeIs(1));
  t.Weights(1, 0);
  t.Weights(1, 1);
  EXPECT_THAT(EffectsOf<Session::HashVersion>(t.Lease(2, 3)), IsEmpty());
  const auto hashes = EffectsOf<Session::HashVersion>(t.AllWeights(1));
  ASSERT_THAT(hashes, SizeIs(1));
  EXPECT_EQ(hashes[0].version, 1u);
  EXPECT_THAT(EffectsOf<Session::HashVersion>(t.AllWeights(2)), IsEmpty());
}

TEST(SessionReceiveTest, TheMarkMayComeAfterTheVersion) {
  SessionTesting t;
  t.Join();
  t.AllWeights(0);
  const std::vector<Mark> marks = {{Mark::Kind::kStop, 0},
                                   {Mark::Kind::kHash, 0}};
  EXPECT_THAT(EffectsOf<Session::HashVersion>(t.Lease(0, 0, marks)), SizeIs(1));
  EXPECT_THAT(t.Lease(0, 0, marks), IsEmpty());
}

TEST(SessionReceiveTest, ALeaseIsNewsOnce) {
  SessionTesting t;
  t.Join();
  EXPECT_THAT(EffectsOf<Session::NewLease>(t.Lease(0, 2)), SizeIs(1));
  EXPECT_THAT(t.Lease(0, 2), IsEmpty());
  EXPECT_THAT(EffectsOf<Session::NewLease>(t.Lease(2, 3)), SizeIs(1));
}

// ---- Pushing ----------------------------------------------------------------

TEST(SessionPushTest, ToEachServerInTheOrderOfItsTurns) {
  SessionTesting t;
  t.Join();
  EXPECT_THAT(Pushed(t.Ready(0, 2)), IsEmpty());
  EXPECT_THAT(Pushed(t.Ready(0, 0)), IsEmpty());
  EXPECT_THAT(Pushed(t.Ready(0, 5)), ElementsAre(5));
  EXPECT_THAT(Pushed(t.Ready(0, 4)), ElementsAre(4, 2, 0));
  EXPECT_THAT(Pushed(t.Ready(0, 1)), IsEmpty());
  EXPECT_THAT(Pushed(t.Ready(0, 3)), ElementsAre(3, 1));
  EXPECT_EQ(t.session().bytes_pushed(), 6 * 32u);
}

TEST(SessionPushTest, AnAttackersMessageGoesAsItIs) {
  SessionTesting t(3);
  t.Join();
  t.Ready(0, 5);
  const Session::PushAsIsIn late{{7, 5, 4, DType::kFloat32, 2, t.Bytes(7, 5)}};
  const auto push = SentOn<PushMessage>(LinkKey{1, 3}, t.Do(late));
  ASSERT_THAT(push, SizeIs(1));
  EXPECT_EQ(push[0].round, 7u);
  EXPECT_EQ(push[0].chunk, 5u);
  // It changes nothing about what is pushed by the rules.
  EXPECT_EQ(t.session().bytes_pushed(), 32u);
  t.Down({1, 3});
  EXPECT_THAT(Pushed(t.Do(late)), IsEmpty());
}

TEST(SessionPushTest, AMessageHasEverything) {
  SessionTesting t(3);
  t.Join();
  const auto push = SentOn<PushMessage>(LinkKey{1, 3}, t.Ready(0, 5));
  ASSERT_THAT(push, SizeIs(1));
  EXPECT_EQ(push[0].round, 0u);
  EXPECT_EQ(push[0].chunk, 5u);
  EXPECT_EQ(push[0].samples, 4u);
  EXPECT_EQ(push[0].dtype, DType::kFloat32);
  EXPECT_EQ(push[0].scale, 2);
  EXPECT_EQ(push[0].data.ToString(), t.Bytes(0, 5).ToString());
}

TEST(SessionPushTest, WithinTheCredit) {
  SessionTesting t;
  t.Tick();
  t.Open({0, 0});
  t.Open({0, 1});
  t.Need({0, 1}, 0, 1, {true, true, true});
  for (int64_t chunk : {4, 2, 0}) {
    EXPECT_THAT(Pushed(t.Ready(0, chunk)), SizeIs(chunk == 4 ? 1 : 0));
  }
  EXPECT_THAT(Pushed(t.Hear({0, 1}, AckMessage{0, 4, AckStatus::kKept, 2})),
              ElementsAre(2));
  // Credit is absolute: an older word takes none back.
  EXPECT_THAT(Pushed(t.Hear({0, 1}, AckMessage{0, 4, AckStatus::kKept, 1})),
              IsEmpty());
  // Weights bring credit too, even those that are not wanted.
  EXPECT_THAT(Pushed(t.Weights(0, 2, 2)), IsEmpty());
  EXPECT_THAT(Pushed(t.Weights(0, 2, 3)), ElementsAre(0));
}

TEST(SessionPushTest, CreditIsCountedOverAllRounds) {
  SessionTesting t;
  t.Join(2);
  // Three chunks a round: the credit of 9 is for round 2 only.
  for (int64_t chunk : {4, 2, 0}) {
    EXPECT_THAT(Pushed(t.Ready(2, chunk)), SizeIs(1));
  }
  for (int64_t chunk : {4, 2, 0}) {
    EXPECT_THAT(Pushed(t.Ready(3, chunk)), IsEmpty());
  }
  EXPECT_THAT(Pushed(t.Hear({0, 1}, AckMessage{2, 0, AckStatus::kKept, 11})),
              ElementsAre(4, 2));
}

TEST(SessionPushTest, ANewRoundTakesThePlaceOfTheOld) {
  SessionTesting t;
  t.Join();
  t.Ready(0, 4);
  t.Ready(0, 0);
  // Round 0 went on without this worker.
  t.Hear({0, 1}, AckMessage{0, 4, AckStatus::kLate, 6});
  EXPECT_THAT(Pushed(t.Ready(1, 4)), ElementsAre(4));
  EXPECT_THAT(Pushed(t.Ready(1, 2)), ElementsAre(2));  // not chunk 0 of round 0
  EXPECT_THAT(Pushed(t.Ready(1, 0)), ElementsAre(0));
}

TEST(SessionPushTest, ALinkThatIsDownHoldsUpItsServerOnly) {
  SessionTesting t(3);
  t.Join();
  t.Down({1, 1});  // chunk 3
  EXPECT_THAT(Pushed(t.Ready(0, 5)), ElementsAre(5));
  EXPECT_THAT(Pushed(t.Ready(0, 3)), IsEmpty());
  EXPECT_THAT(Pushed(t.Ready(0, 1)), IsEmpty());  // after chunk 3
  EXPECT_THAT(Pushed(t.Ready(0, 4)), ElementsAre(4));
  t.PassTime(absl::Milliseconds(20));
  t.Open({1, 1});
  EXPECT_THAT(Pushed(t.Need({1, 1}, 0, 3, {false, true, false})),
              ElementsAre(3, 1));
}

TEST(SessionPushTest, AfterALossWhatTheServerLacksIsSentAgain) {
  SessionTesting t;
  t.Join();
  for (int64_t chunk : {4, 2}) t.Ready(0, chunk);
  t.Down({0, 1});
  EXPECT_THAT(Pushed(t.Ready(0, 0)), IsEmpty());
  t.PassTime(absl::Milliseconds(20));
  t.Open({0, 1});
  // Chunk 4 arrived, chunk 2 was lost.
  EXPECT_THAT(Pushed(t.Need({0, 1}, 0, 3, {true, true, false})),
              ElementsAre(2, 0));
}

TEST(SessionPushTest, ALostLinkLeavesTheOtherLinksChunksAlone) {
  SessionTesting t(3);
  t.Join();
  for (int64_t chunk : {5, 3, 1}) t.Ready(0, chunk);
  t.Down({1, 2});  // chunk 1
  t.PassTime(absl::Milliseconds(20));
  t.Open({1, 2});
  EXPECT_THAT(Pushed(t.Need({1, 2}, 0, 3, {true, false, false})),
              ElementsAre(1));
}

TEST(SessionPushTest, AServerThatIsFurtherLacksNothingOfThisRound) {
  SessionTesting t;
  t.Join();
  for (int64_t chunk : {4, 2, 0}) t.Ready(0, chunk);
  t.Down({0, 1});
  t.PassTime(absl::Milliseconds(20));
  t.Open({0, 1});
  EXPECT_THAT(Pushed(t.Need({0, 1}, 1, 6, {true, true, true})), IsEmpty());
  EXPECT_THAT(Pushed(t.Ready(1, 4)), ElementsAre(4));
}

TEST(SessionPushTest, WhoIsClosedOutPushesNoMore) {
  SessionTesting t;
  t.Join();
  t.Down({0, 1});
  for (int64_t chunk : {4, 2, 0}) t.Ready(0, chunk);
  t.PassTime(absl::Milliseconds(20));
  t.Open({0, 1});
  EXPECT_THAT(Pushed(t.Need({0, 1}, 0, 3, {false, false, false})), IsEmpty());
  EXPECT_THAT(Pushed(t.Need({0, 1}, 0, 3, {})), IsEmpty());
}

// ---- Abstaining -------------------------------------------------------------

TEST(SessionAbstainTest, EveryServerHearsOfIt) {
  SessionTesting t;
  t.Join();
  const SessionEffects all = t.Do(Session::AbstainIn{0});
  for (int server : {0, 1}) {
    const auto abstain = SentOn<AbstainMessage>(LinkKey{server, 1}, all);
    ASSERT_THAT(abstain, SizeIs(1));
    EXPECT_EQ(abstain[0].round, 0u);
  }
  EXPECT_THAT(Pushed(t.Hear({0, 1}, AckMessage{0, 0, AckStatus::kKept, 9})),
              IsEmpty());
}

TEST(SessionAbstainTest, AfterALossIfTheServerStillWaits) {
  SessionTesting t;
  t.Join();
  t.Down({1, 1});
  EXPECT_THAT(Sent<AbstainMessage>(t.Do(Session::AbstainIn{0})), SizeIs(1));
  t.PassTime(absl::Milliseconds(20));
  t.Open({1, 1});
  EXPECT_THAT(SentOn<AbstainMessage>(LinkKey{1, 1},
                                     t.Need({1, 1}, 0, 3, {true, true, true})),
              SizeIs(1));
}

// An abstention travels on the first data link, which may carry no chunk.
TEST(SessionAbstainTest, AlsoOnALinkWithoutChunks) {
  SessionTesting t(2);  // all of server 1's chunks are on link 2
  t.Join();
  t.Down({1, 1});
  EXPECT_THAT(Sent<AbstainMessage>(t.Do(Session::AbstainIn{0})), SizeIs(1));
  t.PassTime(absl::Milliseconds(20));
  t.Open({1, 1});
  EXPECT_THAT(SentOn<AbstainMessage>(
                  LinkKey{1, 1}, t.Need({1, 1}, 0, 3, {false, false, false})),
              SizeIs(1));
}

TEST(SessionAbstainTest, TheNextRoundIsPushedAgain) {
  SessionTesting t;
  t.Join();
  t.Do(Session::AbstainIn{0});
  t.Hear({0, 1}, AckMessage{0, 0, AckStatus::kKept, 6});
  EXPECT_THAT(Pushed(t.Ready(1, 4)), ElementsAre(4));
}

}  // namespace
}  // namespace parapet
