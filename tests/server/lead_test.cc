// The lead: who is admitted, and how a job begins.

#include "server/lead.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/server/lead_fixture.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- Admission --------------------------------------------------------------

TEST(LeadAdmitTest, AdmitsAWorkerWithATokenOfItsOwn) {
  LeadConfig config = JobOf(1, 2, 10);
  config.version = 6;
  config.resume_from = "snap/step-6";
  LeadTesting t(config);
  const auto first = TheOne<Lead::Admit>(t.Hello(WorkerPeer(0)));
  EXPECT_EQ(first.via, 1u);
  EXPECT_EQ(first.peer, WorkerPeer(0));
  EXPECT_NE(first.session, 0u);
  EXPECT_EQ(first.message.version, 6u);
  EXPECT_EQ(first.message.snapshot, "snap/step-6");
  const auto second = TheOne<Lead::Admit>(t.Hello(WorkerPeer(1)));
  EXPECT_NE(second.session, first.session);
  EXPECT_EQ(t.lead().SessionOf(WorkerPeer(0)), first.session);
  EXPECT_EQ(t.lead().SessionOf(EvaluatorPeer(0)), 0u);
}

TEST(LeadAdmitTest, TellsAServerWhatToLoad) {
  LeadConfig config = JobOf(2, 1, 10);
  config.version = 6;
  config.resume_from = "snap/step-6";
  LeadTesting t(config);
  const auto told = TheOne<Lead::Tell>(t.Hello(ServerPeer(1)));
  EXPECT_EQ(told.peer, ServerPeer(1));
  EXPECT_EQ(std::get<LoadMessage>(told.body).snapshot, "snap/step-6");
  t.Loaded(1);
  EXPECT_THAT(AllOf<Lead::Tell>(t.Hello(ServerPeer(1))), IsEmpty());
}

class LeadRefusalTest : public testing::Test {
 protected:
  RefuseMessage Refusal(const HelloMessage& hello) {
    const LeadEffects all = t_.Do(Lead::HelloIn{9, hello});
    EXPECT_THAT(AllOf<Lead::Admit>(all), IsEmpty());
    const auto refuse = TheOne<Lead::Refuse>(all);
    EXPECT_EQ(refuse.via, 9u);
    // Whoever runs the lead reads why as well.
    EXPECT_THAT(Warnings(all), HasSubstr(refuse.message.words));
    return refuse.message;
  }

  LeadTesting t_{JobOf(2, 2, 10)};
};

TEST_F(LeadRefusalTest, AnotherProtocol) {
  HelloMessage hello = t_.HelloOf(WorkerPeer(0));
  hello.protocol = kProtocolVersion + 1;
  const RefuseMessage refusal = Refusal(hello);
  EXPECT_EQ(refusal.code, Code::kProtocol);
  EXPECT_THAT(refusal.words,
              HasSubstr(absl::StrCat("protocol ", kProtocolVersion + 1)));
}

TEST_F(LeadRefusalTest, AnIdThatTheJobDoesNotHave) {
  for (const Peer& peer :
       {WorkerPeer(2), ServerPeer(2), EvaluatorPeer(0), WorkerPeer(~0u)}) {
    const RefuseMessage refusal = Refusal(t_.HelloOf(peer));
    EXPECT_EQ(refusal.code, Code::kUnknownPeer);
    EXPECT_THAT(refusal.words, HasSubstr(NameOf(peer)));
  }
}

TEST_F(LeadRefusalTest, AnotherJobWithTheLineThatDiffers) {
  JobConfig other = JobOf(2, 2, 10).job;
  other.batch = 8;
  HelloMessage hello = t_.HelloOf(WorkerPeer(0));
  hello.job = other.ToText();
  const RefuseMessage refusal = Refusal(hello);
  EXPECT_EQ(refusal.code, Code::kJobDiffers);
  EXPECT_THAT(refusal.words, testing::AllOf(HasSubstr("it has batch=8"),
                                            HasSubstr("the lead has batch=4"),
                                            HasSubstr("worker 0")));
}

TEST_F(LeadRefusalTest, AJobWithALineLessOrMore) {
  HelloMessage hello = t_.HelloOf(WorkerPeer(0));
  const std::string job = hello.job;
  hello.job = "";
  EXPECT_EQ(Refusal(hello).code, Code::kJobDiffers);
  hello.job = job + "more=1\n";
  EXPECT_THAT(Refusal(hello).words, HasSubstr("more=1"));
}

TEST_F(LeadRefusalTest, AModelOfAnotherLayout) {
  HelloMessage hello = t_.HelloOf(ServerPeer(1));
  hello.layout_hash ^= 1;
  const RefuseMessage refusal = Refusal(hello);
  EXPECT_EQ(refusal.code, Code::kJobDiffers);
  EXPECT_THAT(refusal.words, HasSubstr("layout"));
}

TEST_F(LeadRefusalTest, AWorkerWithOtherData) {
  HelloMessage hello = t_.HelloOf(WorkerPeer(1));
  hello.samples = 999;
  EXPECT_THAT(Refusal(hello).words,
              testing::AllOf(HasSubstr("999"), HasSubstr("1000")));
}

TEST_F(LeadRefusalTest, ASecondProcessWithTheSameId) {
  t_.Hello(WorkerPeer(0));
  HelloMessage hello = t_.HelloOf(WorkerPeer(0));
  hello.nonce = 4;
  const RefuseMessage refusal = Refusal(hello);
  EXPECT_EQ(refusal.code, Code::kAlreadyHere);
  EXPECT_THAT(refusal.words,
              testing::AllOf(HasSubstr("there is a worker 0 already"),
                             HasSubstr("an id of its own")));
}

// Whatever life it claims to be: server 0 is the lead itself.
TEST_F(LeadRefusalTest, WhoClaimsToBeTheLead) {
  for (uint64_t nonce : {0, 1, 1000}) {
    HelloMessage hello = t_.HelloOf(ServerPeer(0));
    hello.nonce = nonce;
    EXPECT_EQ(Refusal(hello).code, Code::kAlreadyHere) << "nonce " << nonce;
  }
}

TEST_F(LeadRefusalTest, WhoLeftAndComesBackAsAnother) {
  t_.Gather();
  t_.Do(Lead::LeaveIn{WorkerPeer(0), "tired"});
  HelloMessage hello = t_.HelloOf(WorkerPeer(0));
  hello.nonce = 4;
  const RefuseMessage refusal = Refusal(hello);
  EXPECT_EQ(refusal.code, Code::kAlreadyHere);
  EXPECT_THAT(refusal.words, HasSubstr("cannot come back"));
}

TEST(LeadAdmitTest, WhoIsOutOfTheJobHearsWhy) {
  LeadTesting t(JobOf(1, 2, 10));
  t.Gather();
  t.Do(Lead::LeaveIn{WorkerPeer(0), "tired"});
  EXPECT_EQ(t.lead().SessionOf(WorkerPeer(0)), 0u);
  const auto refuse = TheOne<Lead::Refuse>(t.Hello(WorkerPeer(0)));
  EXPECT_EQ(refuse.message.code, Code::kWrongSession);
  EXPECT_THAT(refuse.message.words, HasSubstr("tired"));
}

TEST(LeadAdmitTest, OwnDataMayHaveAnySize) {
  LeadConfig config = JobOf(1, 2, 10);
  config.job.data_split = "own";
  config.samples = 0;
  LeadTesting t(config);
  t.Loaded(0);
  HelloMessage hello = t.HelloOf(WorkerPeer(0));
  hello.samples = 6;
  t.Do(Lead::HelloIn{1, hello});
  hello = t.HelloOf(WorkerPeer(1));
  hello.samples = 3;
  const auto leases = Leases(t.Do(Lead::HelloIn{1, hello}));
  ASSERT_EQ(leases.size(), 1u);
  // Two rounds of 4 and 2, by the largest.
  ASSERT_EQ(leases[0].facts.size(), 2u);
  EXPECT_EQ(leases[0].facts[0].samples, 4u);
  EXPECT_EQ(leases[0].facts[1].samples, 2u);
}

TEST(LeadAdmitTest, AJobWithoutASampleFails) {
  LeadConfig config = JobOf(1, 1, 10);
  config.job.data_split = "own";
  config.samples = 0;
  LeadTesting t(config);
  t.Loaded(0);
  const auto finish = TheOne<Lead::Finish>(t.Hello(WorkerPeer(0)));
  EXPECT_EQ(finish.summary.code, Code::kFailed);
}

TEST(LeadAdmitTest, TheSameProcessAgainKeepsItsToken) {
  LeadTesting t(JobOf(1, 1, 100));
  t.Loaded(0);
  const auto first = TheOne<Lead::Admit>(t.Hello(WorkerPeer(0)));
  const LeadEffects again = t.Hello(WorkerPeer(0));
  EXPECT_EQ(TheOne<Lead::Admit>(again).session, first.session);
  // And hears again what is in force.
  const auto told = TheOne<Lead::Tell>(again);
  EXPECT_EQ(std::get<LeaseMessage>(told.body).lease.from, 0u);
}

TEST(LeadAdmitTest, AServerThatConnectsAgainHearsOfClosesAndScalesToo) {
  LeadConfig config = JobOf(2, 2, 100);
  config.job.clip_norm = 1;
  LeadTesting t(config);
  t.Gather();
  t.Do(Lead::LeaveIn{WorkerPeer(0), "tired"});
  ExactSum squares;
  squares.Add(4);
  t.Do(Lead::NormIn{0, {0, squares}});
  t.Do(Lead::NormIn{1, {0, squares}});
  int leases = 0, closes = 0, scales = 0;
  for (const auto& told : AllOf<Lead::Tell>(t.Hello(ServerPeer(1)))) {
    leases += std::holds_alternative<LeaseMessage>(told.body) ? 1 : 0;
    closes += std::holds_alternative<CloseMessage>(told.body) ? 1 : 0;
    scales += std::holds_alternative<ScaleMessage>(told.body) ? 1 : 0;
  }
  EXPECT_GE(leases, 1);
  EXPECT_EQ(closes, 2);  // of both rounds that are leased
  EXPECT_EQ(scales, 1);
}

TEST(LeadAdmitTest, AnotherLifeOfASilentProcessIsTakenBeforeTheJobBegins) {
  LeadTesting t(JobOf(1, 2, 10));
  const auto first = TheOne<Lead::Admit>(t.Hello(WorkerPeer(0)));
  t.Silence(WorkerPeer(0));
  t.PassTime(absl::Seconds(10));
  HelloMessage hello = t.HelloOf(WorkerPeer(0));
  hello.nonce = 4;
  const auto second = TheOne<Lead::Admit>(t.Do(Lead::HelloIn{1, hello}));
  EXPECT_NE(second.session, first.session);
}

TEST(LeadAdmitTest, AnEvaluatorMayComeBackAsAnother) {
  LeadConfig config = JobOf(1, 1, 100);
  config.evaluators = 1;
  LeadTesting t(config);
  t.Gather();
  t.Do(Lead::LeaveIn{EvaluatorPeer(0), "restarts"});
  HelloMessage hello = t.HelloOf(EvaluatorPeer(0));
  hello.nonce = 4;
  EXPECT_EQ(TheOne<Lead::Admit>(t.Do(Lead::HelloIn{1, hello})).peer,
            EvaluatorPeer(0));
}

// ---- Beginning --------------------------------------------------------------

TEST(LeadBeginTest, BeginsWhenTheLastOneIsThere) {
  LeadConfig config = JobOf(2, 2, 10);
  config.evaluators = 1;
  LeadTesting t(config);
  EXPECT_THAT(Leases(t.Hello(WorkerPeer(0))), IsEmpty());
  EXPECT_THAT(Leases(t.Hello(WorkerPeer(1))), IsEmpty());
  EXPECT_THAT(Leases(t.Hello(ServerPeer(1))), IsEmpty());
  EXPECT_THAT(Leases(t.Loaded(1)), IsEmpty());
  EXPECT_THAT(Leases(t.Loaded(0)), IsEmpty());
  const auto leases = Leases(t.Hello(EvaluatorPeer(0)));
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].term, 5u);
  ASSERT_EQ(leases[0].members.size(), 2u);
  EXPECT_EQ(leases[0].members[1].id, 1u);
  EXPECT_EQ(leases[0].members[1].session, t.lead().SessionOf(WorkerPeer(1)));
  EXPECT_EQ(leases[0].evaluators.size(), 1u);
}

TEST(LeadBeginTest, WarnsOfWorkersThatComputeDifferently) {
  LeadTesting t(JobOf(1, 2, 10));
  t.Loaded(0);
  t.Hello(WorkerPeer(0));
  HelloMessage hello = t.HelloOf(WorkerPeer(1));
  hello.fingerprint = "cpu (AVX2)";
  EXPECT_THAT(Warnings(t.Do(Lead::HelloIn{1, hello})),
              HasSubstr("cpu; cpu (AVX2)"));
  LeadTesting same(JobOf(1, 2, 10));
  EXPECT_THAT(Warnings(same.Gather()), IsEmpty());
}

TEST(LeadBeginTest, NamesWhomItWaitsFor) {
  LeadConfig config = JobOf(3, 2, 10);
  config.evaluators = 1;
  LeadTesting t(config);
  t.Loaded(0);
  t.Hello(ServerPeer(2));
  t.Hello(WorkerPeer(0));
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(9950))), IsEmpty());
  const std::string words = Warnings(t.PassTime(absl::Milliseconds(50)));
  EXPECT_THAT(words,
              testing::AllOf(HasSubstr("server 1"),
                             HasSubstr("server 2 to load its shard"),
                             HasSubstr("worker 1"), HasSubstr("evaluator 0"),
                             Not(HasSubstr("worker 0"))));
  // Again after as long, not all the time.
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(9950))), IsEmpty());
}

TEST(LeadBeginTest, GivesUpAfterStartTimeout) {
  LeadConfig config = JobOf(1, 2, 10);
  config.patience.start_timeout = absl::Seconds(30);
  LeadTesting t(config);
  t.Loaded(0);
  t.Hello(WorkerPeer(0));
  LeadEffects all = t.PassTime(absl::Milliseconds(29950));
  EXPECT_THAT(AllOf<Lead::Finish>(all), IsEmpty());
  all = t.PassTime(absl::Milliseconds(50));
  const auto finish = TheOne<Lead::Finish>(all);
  EXPECT_EQ(finish.summary.code, Code::kLost);
  EXPECT_FALSE(finish.summary.complete);
  EXPECT_THAT(finish.summary.words, HasSubstr("worker 1"));
  EXPECT_EQ(Told<ByeMessage>(all).size(), 1u);
  EXPECT_TRUE(t.lead().finished());
  EXPECT_THAT(t.Hello(WorkerPeer(1)), IsEmpty());
}

TEST(LeadBeginTest, AServerThatCannotLoadEndsTheJob) {
  LeadTesting t(JobOf(2, 1, 10));
  t.Hello(ServerPeer(1));
  const auto finish =
      TheOne<Lead::Finish>(t.Do(Lead::LoadedIn{1, {false, "torn file"}}));
  EXPECT_EQ(finish.summary.code, Code::kFailed);
  EXPECT_THAT(finish.summary.words,
              testing::AllOf(HasSubstr("server 1"), HasSubstr("torn file")));
}

TEST(LeadBeginTest, AStopBeforeItBeginsEndsIt) {
  LeadTesting t(JobOf(1, 1, 10));
  const auto finish = TheOne<Lead::Finish>(t.Do(Lead::StopIn{"SIGTERM"}));
  EXPECT_EQ(finish.summary.code, Code::kStopped);
  EXPECT_EQ(ExitCodeOf(finish.summary.code), 0);
}

TEST(LeadBeginTest, AWorkerThatDiedWhileOthersCameIsMissedAfterwards) {
  LeadTesting t(JobOf(1, 2, 10));
  t.Loaded(0);
  t.Hello(WorkerPeer(0));
  t.Silence(WorkerPeer(0));
  t.PassTime(absl::Seconds(20));
  EXPECT_EQ(Leases(t.Hello(WorkerPeer(1))).size(), 1u);
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(50))),
              HasSubstr("worker 0 is out of the job"));
}

TEST(LeadBeginTest, NothingLeftToTrainStopsAtOnce) {
  LeadConfig config = JobOf(1, 1, 10);
  config.version = 10;
  config.snapshot.dir = "snap";
  LeadTesting t(config);
  const auto leases = Leases(t.Gather());
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].from, 10u);
  EXPECT_EQ(leases[0].until, 10u);
  EXPECT_TRUE(leases[0].HasMark(Mark::Kind::kStop, 10));
  EXPECT_FALSE(leases[0].HasMark(Mark::Kind::kSnapshot, 10));
  const auto finish = TheOne<Lead::Finish>(t.Hashes(10, {0}));
  EXPECT_TRUE(finish.summary.complete);
  EXPECT_EQ(finish.summary.weights_hash, 10u);
}

}  // namespace
}  // namespace parapet
