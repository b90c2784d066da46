// The session: its links, how long it waits for what, and evaluators.

#include <algorithm>
#include <string>
#include <vector>

#include "tests/worker/session_fixture.h"
#include "worker/session.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

int ConnectsTo(const LinkKey& link, const SessionEffects& effects) {
  int count = 0;
  for (const auto& e : EffectsOf<Session::Connect>(effects)) {
    count += e.link == link ? 1 : 0;
  }
  return count;
}

std::string Logged(const SessionEffects& effects) {
  std::string words;
  for (const auto& e : EffectsOf<Session::Log>(effects)) {
    words += e.words + "\n";
  }
  return words;
}

// ---- Reconnecting -----------------------------------------------------------

TEST(SessionLinkTest, ALostLinkIsOpenedAnewAndAsksForWhatItLacks) {
  SessionTesting t;
  t.Join();
  t.Weights(0, 0);
  t.Weights(0, 2);
  EXPECT_THAT(Logged(t.Down({0, 1})),
              HasSubstr("lost link 1 to server 0: cable"));
  EXPECT_EQ(ConnectsTo({0, 1}, t.Tick()), 0);
  EXPECT_EQ(ConnectsTo({0, 1}, t.PassTime(absl::Milliseconds(20))), 1);
  const auto need = SentOn<NeedWeightsMessage>(LinkKey{0, 1}, t.Open({0, 1}));
  ASSERT_THAT(need, SizeIs(1));
  EXPECT_THAT(need[0].locals, ElementsAre(false, false, true));
}

TEST(SessionLinkTest, WithTheWholeVersionItSaysSo) {
  SessionTesting t;
  t.Join();
  t.AllWeights(0);
  t.Down({0, 1});
  t.PassTime(absl::Milliseconds(20));
  const auto need = SentOn<NeedWeightsMessage>(LinkKey{0, 1}, t.Open({0, 1}));
  ASSERT_THAT(need, SizeIs(1));
  EXPECT_EQ(need[0].version, 0u);
  EXPECT_THAT(need[0].locals, IsEmpty());
}

TEST(SessionLinkTest, TriesAreFurtherAndFurtherApart) {
  SessionTesting t;
  t.Join();
  int tries = 0;
  for (int i = 0; i < 500; ++i) {  // five seconds
    for (const auto& e :
         EffectsOf<Session::Connect>(t.PassTime(absl::Milliseconds(10)))) {
      ++tries;
      t.Down(e.link);
    }
    if (i == 0) t.Down({1, 1});
  }
  // 20, 40, 80, ... ms apart, then a second.
  EXPECT_GE(tries, 8);
  EXPECT_LE(tries, 14);
}

TEST(SessionLinkTest, AWelcomeForgivesFailures) {
  SessionTesting t;
  t.Join();
  for (int i = 0; i < 6; ++i) {
    t.Down({1, 1});
    t.PassTime(absl::Seconds(2));
  }
  t.Open({1, 1});
  t.Down({1, 1});
  EXPECT_EQ(ConnectsTo({1, 1}, t.PassTime(absl::Milliseconds(20))), 1);
}

TEST(SessionLinkTest, SilenceOfAServerClosesAllItsLinks) {
  SessionTesting t(2);
  t.Join();
  SessionEffects all;
  // Server 0 is heard, server 1 is not.
  for (int i = 0; i < 101; ++i) {
    for (auto& e : t.PassTime(absl::Milliseconds(100), false)) {
      all.push_back(std::move(e));
    }
    t.Hear({0, 0}, PongMessage{0, 0});
  }
  std::vector<LinkKey> closed;
  for (const auto& e : EffectsOf<Session::Close>(all)) {
    closed.push_back(e.link);
  }
  EXPECT_THAT(closed, ElementsAre(LinkKey{1, 0}, LinkKey{1, 1}, LinkKey{1, 2}));
  EXPECT_FALSE(t.session().finished());
  EXPECT_EQ(ConnectsTo({1, 0}, all) +
                ConnectsTo({1, 0}, t.PassTime(absl::Milliseconds(50))),
            1);
}

// ---- Pings ------------------------------------------------------------------

TEST(SessionPingTest, EveryControlLinkHearsThePhase) {
  SessionTesting t;
  t.Join();
  t.Do(Session::PhaseIn{4, Phase::kBackward});
  const SessionEffects all = t.PassTime(absl::Seconds(3));
  for (int server : {0, 1}) {
    const auto pings = SentOn<PingMessage>(LinkKey{server, 0}, all);
    ASSERT_THAT(pings, SizeIs(3));
    EXPECT_EQ(pings[0].round, 4u);
    EXPECT_EQ(pings[0].phase, Phase::kBackward);
  }
  EXPECT_THAT(Sent<PingMessage>(all), SizeIs(6));
}

// ---- Telling the lead -------------------------------------------------------

TEST(SessionTellTest, TheLeadHearsAtOnceOrWhenItsLinkIsBack) {
  SessionTesting t;
  t.Join();
  EXPECT_THAT(SentOn<RoundDoneMessage>(
                  LinkKey{0, 0}, t.Do(Session::TellLeadIn{RoundDoneMessage{}})),
              SizeIs(1));
  t.Down({0, 0});
  EXPECT_THAT(t.Do(Session::TellLeadIn{RoundDoneMessage{1, 0, 0, 0, {}}}),
              IsEmpty());
  EXPECT_THAT(t.Do(Session::TellLeadIn{RoundDoneMessage{2, 0, 0, 0, {}}}),
              IsEmpty());
  t.PassTime(absl::Milliseconds(20));
  const auto told = SentOn<RoundDoneMessage>(LinkKey{0, 0}, t.Open({0, 0}));
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].round, 1u);
  EXPECT_EQ(told[1].round, 2u);
  // It is admitted already: no version begins anew.
  EXPECT_EQ(t.session().version(), 0u);
}

// It may have been lost with the link.
TEST(SessionTellTest, WhatTheLeadWaitsForIsToldAgain) {
  SessionTesting t;
  t.Join();
  EXPECT_THAT(Sent<VersionHashMessage>(
                  t.Do(Session::TellLeadIn{VersionHashMessage{4, 0, 9}})),
              SizeIs(1));
  t.Down({0, 0});
  t.Do(Session::TellLeadIn{StoppingMessage{"x"}});
  t.PassTime(absl::Milliseconds(20));
  const SessionEffects all = t.Open({0, 0});
  ASSERT_THAT(Sent<VersionHashMessage>(all), SizeIs(1));
  EXPECT_EQ(Sent<VersionHashMessage>(all)[0].version, 4u);
  EXPECT_THAT(Sent<StoppingMessage>(all), SizeIs(1));
}

TEST(SessionTellTest, WhatIsKeptForTheLeadIsBounded) {
  SessionTesting t;
  t.Join();
  t.Down({0, 0});
  for (int i = 0; i < 1000; ++i) {
    t.Do(Session::TellLeadIn{RoundDoneMessage{}});
  }
  t.PassTime(absl::Milliseconds(20));
  for (int i = 0; i < 1000; ++i) {
    t.Do(Session::TellLeadIn{VersionHashMessage{}});
  }
  const SessionEffects all = t.Open({0, 0});
  EXPECT_THAT(Sent<RoundDoneMessage>(all), SizeIs(64));
  EXPECT_THAT(Sent<VersionHashMessage>(all), SizeIs(64));
}

// ---- Waiting ----------------------------------------------------------------

std::vector<Session::Finish> Finishes(const SessionEffects& effects) {
  return EffectsOf<Session::Finish>(effects);
}

TEST(SessionWaitTest, ALeadThatDoesNotAnswerIsGivenUp) {
  SessionTesting t;
  t.Tick();
  t.Do(Session::DownIn{{0, 0}, "connection refused"});
  EXPECT_THAT(Finishes(t.PassTime(absl::Minutes(5) - absl::Milliseconds(60))),
              IsEmpty());
  const auto finish = Finishes(t.PassTime(absl::Milliseconds(110)));
  ASSERT_THAT(finish, SizeIs(1));
  EXPECT_EQ(finish[0].code, Code::kLost);
  EXPECT_THAT(finish[0].words, HasSubstr("connection refused"));
}

TEST(SessionWaitTest, ALostLeadEndsIt) {
  SessionTesting t;
  t.Join();
  t.Down({0, 0});
  EXPECT_THAT(Finishes(t.PassTime(absl::Milliseconds(9900))), IsEmpty());
  const auto finish = Finishes(t.PassTime(absl::Milliseconds(200)));
  ASSERT_THAT(finish, SizeIs(1));
  EXPECT_EQ(finish[0].code, Code::kLost);
  EXPECT_EQ(ExitCodeOf(finish[0].code), 3);
  EXPECT_THAT(finish[0].words, testing::AllOf(HasSubstr("the lead is lost"),
                                              HasSubstr("cable")));
}

TEST(SessionWaitTest, ASilentLeadIsLostToo) {
  SessionTesting t;
  t.Join();
  EXPECT_THAT(Finishes(t.PassTime(absl::Seconds(60))), IsEmpty());
  EXPECT_THAT(Finishes(t.PassTime(absl::Milliseconds(9000), false)), IsEmpty());
  EXPECT_THAT(Finishes(t.PassTime(absl::Milliseconds(1500), false)), SizeIs(1));
}

TEST(SessionWaitTest, WhoHasTheLastVersionNeedsNoGoodbye) {
  SessionTesting t;
  t.Join();
  t.AllWeights(0);
  t.Lease(0, 0, {{Mark::Kind::kStop, 0}});
  t.Down({0, 0});
  const auto finish = Finishes(t.PassTime(absl::Seconds(11)));
  ASSERT_THAT(finish, SizeIs(1));
  EXPECT_EQ(finish[0].code, Code::kOk);
}

TEST(SessionWaitTest, WithoutTheLastVersionItIsALoss) {
  SessionTesting t;
  t.Join();
  t.Weights(0, 0);
  t.Lease(0, 0, {{Mark::Kind::kStop, 0}});
  t.Down({0, 0});
  EXPECT_EQ(Finishes(t.PassTime(absl::Seconds(11)))[0].code, Code::kLost);
}

TEST(SessionWaitTest, SaysWhichServersItWaitsToBeConnectedTo) {
  SessionTesting t;
  t.Tick();
  t.Open({0, 0});
  t.Down({1, 0});
  const std::string words = Logged(t.PassTime(absl::Milliseconds(10050)));
  EXPECT_THAT(words, HasSubstr("waits to be connected to server 1 (cable)"));
  EXPECT_THAT(words, Not(HasSubstr("server 0")));
}

TEST(SessionWaitTest, SaysWhichChunksItLacks) {
  SessionTesting t;
  t.Join();
  t.AllWeights(0);
  for (int64_t chunk : {0, 1, 2, 4}) t.Weights(1, chunk);
  EXPECT_THAT(Logged(t.PassTime(absl::Seconds(21))),
              HasSubstr("for version 1: it lacks 2 chunks of server 1"));
}

TEST(SessionWaitTest, AWholeVersionIsNoReasonToComplain) {
  SessionTesting t;
  t.Join();
  t.AllWeights(0);
  EXPECT_EQ(Logged(t.PassTime(absl::Seconds(60))), "");
}

// What a hostile lead says must not fill the memory.
TEST(SessionWaitTest, EndlessLeasesAreNotKept) {
  SessionTesting t;
  t.Join();
  // Each is told to the owner, which keeps a few; a known one is not. The
  // first is forgotten after so many.
  t.Lease(1000, 1001);
  for (uint64_t i = 1; i < 2000; ++i) t.Lease(1000 + i, 1001 + i);
  EXPECT_THAT(EffectsOf<Session::NewLease>(t.Lease(1000, 1001)), SizeIs(1));
}

// ---- Evaluators -------------------------------------------------------------

TEST(SessionEvaluatorTest, WaitsForAVersionAndSaysWhenItHasIt) {
  SessionTesting t(1, Role::kEvaluator);
  t.Tick();
  const SessionEffects admitted = t.Open({0, 0});
  EXPECT_THAT(EffectsOf<Session::NewVersion>(admitted), IsEmpty());
  for (int server : {0, 1}) {
    const LinkKey link{server, 1};
    const auto need = SentOn<NeedWeightsMessage>(link, t.Open(link));
    ASSERT_THAT(need, SizeIs(1));
    EXPECT_THAT(need[0].locals, IsEmpty());
  }
  EXPECT_FALSE(t.session().complete());
  SessionEffects all = t.Weights(5, 3);
  ASSERT_THAT(EffectsOf<Session::NewVersion>(all), SizeIs(1));
  EXPECT_EQ(EffectsOf<Session::NewVersion>(all)[0].version, 5u);
  EXPECT_THAT(Sent<NeedWeightsMessage>(all), IsEmpty());
  all = t.AllWeights(5);
  EXPECT_TRUE(t.session().complete());
  const auto need = Sent<NeedWeightsMessage>(all);
  ASSERT_THAT(need, SizeIs(2));  // one to each server
  EXPECT_EQ(need[0].version, 5u);
  EXPECT_THAT(need[0].locals, IsEmpty());
}

TEST(SessionEvaluatorTest, AfterALossItAsksForTheRest) {
  SessionTesting t(1, Role::kEvaluator);
  t.Join();
  t.Weights(5, 3);
  t.Down({1, 1});
  t.PassTime(absl::Milliseconds(20));
  const auto need = SentOn<NeedWeightsMessage>(LinkKey{1, 1}, t.Open({1, 1}));
  ASSERT_THAT(need, SizeIs(1));
  EXPECT_EQ(need[0].version, 5u);
  EXPECT_THAT(need[0].locals, ElementsAre(true, false, true));
}

TEST(SessionEvaluatorTest, HashesNothing) {
  SessionTesting t(1, Role::kEvaluator);
  t.Join();
  t.Lease(0, 2, {{Mark::Kind::kHash, 1}});
  EXPECT_THAT(EffectsOf<Session::HashVersion>(t.AllWeights(1)), IsEmpty());
}

}  // namespace
}  // namespace parapet
