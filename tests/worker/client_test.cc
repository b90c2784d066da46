#include "worker/client.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/hash.h"
#include "tests/worker/client_fixture.h"

namespace parapet {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using ClientTest = ClientTesting;
constexpr std::array<float, kPhases> kNoPhases{};

std::vector<float> FloatsOf(const Payload& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), payload.size());
  return values;
}

// ---- Joining and ending -----------------------------------------------------

TEST_F(ClientTest, JoinsAndHearsOfTheSnapshot) {
  Servers().snapshot = "snap/step-7";
  const auto snapshot = MakeClient().Join();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(*snapshot, "snap/step-7");
}

TEST_F(ClientTest, ARefusalIsInTheError) {
  Servers().refuse = "it has batch=8";
  Client& client = MakeClient();
  EXPECT_THAT(client.Join().status().message(), HasSubstr("batch=8"));
  EXPECT_EQ(client.code(), Code::kJobDiffers);
  EXPECT_FALSE(client.WaitNext().ok());
  EXPECT_FALSE(client.Leave().ok());
}

TEST_F(ClientTest, EndsAtOnceIfNobodyAnswers) {
  Servers().answer = false;
  MakeClient();
  client_.reset();
}

TEST_F(ClientTest, ABrokenTransportEndsIt) {
  Client& client = Joined();
  Servers().BreakTransport();
  EXPECT_THAT(client.WaitNext().status().message(),
              HasSubstr("no more sockets"));
  EXPECT_EQ(client.code(), Code::kFailed);
}

TEST_F(ClientTest, TheEndIsASnapshotAndAGoodbye) {
  Client& client = Joined();
  Servers().GiveVersion(0);
  Servers().GiveLease(0, 0,
                      {{Mark::Kind::kStop, 0}, {Mark::Kind::kSnapshot, 0}});
  const Client::Next next = NextOf(client);
  EXPECT_EQ(next.kind, Client::Next::Kind::kEnd);
  EXPECT_EQ(next.version, 0u);
  EXPECT_TRUE(next.snapshot);
  Servers().Bye(Code::kOk, "");
  EXPECT_TRUE(client.Leave().ok());
  EXPECT_EQ(client.code(), Code::kOk);
}

TEST_F(ClientTest, TheEndWaitsForTheWholeVersion) {
  Client& client = Joined();
  Servers().GiveLease(0, 0, {{Mark::Kind::kStop, 0}});
  for (int64_t chunk : {0, 1, 2, 3}) Servers().GiveChunk(0, chunk);
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(20));
    Servers().GiveChunk(0, 4);
  });
  EXPECT_EQ(NextOf(client).kind, Client::Next::Kind::kEnd);
  std::vector<float> weights(kElements, -1);
  client.BeginRound({});
  EXPECT_TRUE(client.Fetch({0, kElements}, weights.data()).ok());
  later.join();
}

TEST_F(ClientTest, ABadGoodbyeIsAnErrorWithItsWords) {
  Client& client = Joined();
  Servers().Bye(Code::kLeftOut, "left out of 3 rounds");
  EXPECT_THAT(client.WaitNext().status().message(),
              HasSubstr("left out of 3 rounds"));
  EXPECT_THAT(client.Leave().message(), HasSubstr("left out of 3 rounds"));
  EXPECT_EQ(ExitCodeOf(client.code()), 5);
}

TEST_F(ClientTest, AStopBeforeItIsAdmittedEndsIt) {
  Servers().answer = false;
  Client& client = MakeClient();
  client.RequestStop();
  client.RequestStop();
  EXPECT_TRUE(absl::IsCancelled(client.Join().status()));
  EXPECT_EQ(client.code(), Code::kStopped);
  EXPECT_TRUE(client.Leave().ok());
}

TEST_F(ClientTest, AStopWhileTheAnswerIsOnItsWayIsTold) {
  Servers().answer = false;
  Client& client = MakeClient();
  Servers().WaitForAHello();
  client.RequestStop();
  Servers().AnswerNow();
  EXPECT_EQ(Servers().Wait<StoppingMessage>(1)[0].first, 0);
  EXPECT_TRUE(client.Join().ok());
}

TEST_F(ClientTest, AStopIsToldToTheLeadOnce) {
  Client& client = Joined();
  std::thread other([&client] { client.RequestStop(); });
  other.join();
  client.RequestStop();
  EXPECT_EQ(Servers().Wait<StoppingMessage>(1)[0].first, 0);
  client.RequestStop();
  client.TellLead(LeaveMessage{"x"});  // what follows comes after it
  Servers().Wait<LeaveMessage>(1);
  EXPECT_THAT(Servers().Wait<StoppingMessage>(1), SizeIs(1));
}

TEST_F(ClientTest, QuittingSaysWhy) {
  Client& client = Joined();
  client.Quit("no disk");
  EXPECT_EQ(Servers().Wait<LeaveMessage>(1)[0].second.words, "no disk");
  EXPECT_FALSE(client.WaitNext().ok());
}

// ---- A round ----------------------------------------------------------------

TEST_F(ClientTest, ARoundHasItsShareOfTheSamples) {
  Client& client = Joined();
  Servers().GiveVersion(0);
  Servers().GiveLease(0, 13);
  Client::Next next = NextOf(client);
  EXPECT_EQ(next.kind, Client::Next::Kind::kRound);
  EXPECT_EQ(next.version, 0u);
  EXPECT_EQ(next.epoch, 0u);
  EXPECT_FALSE(next.snapshot);
  // Nine samples for two members: the first has five, this one four.
  EXPECT_EQ(next.share.begin, 5u);
  EXPECT_EQ(next.share.count, 4u);
  Servers().GiveVersion(12);
  next = NextOf(client);
  EXPECT_EQ(next.version, 12u);
  EXPECT_EQ(next.epoch, 1u);
  EXPECT_EQ(next.share.begin, 12 * 9 + 5u);
}

TEST_F(ClientTest, OwnDataHasItsOwnShare) {
  Client& client = Joined(Role::kWorker, true);
  Servers().GiveVersion(0);
  Servers().GiveLease(0, 9);
  Client::Next next = NextOf(client);
  EXPECT_EQ(next.share.begin, 0u);
  EXPECT_EQ(next.share.count, 4u);
  Servers().GiveVersion(2);  // position 18 of 20 samples
  EXPECT_EQ(NextOf(client).share.count, 2u);
  Servers().GiveVersion(3);
  EXPECT_EQ(NextOf(client).share.count, 0u);
}

TEST_F(ClientTest, ARoundBeginsWithTheFirstChunk) {
  Client& client = Joined();
  Servers().GiveLease(0, 1);
  Servers().GiveChunk(0, 0);
  EXPECT_EQ(NextOf(client).kind, Client::Next::Kind::kRound);
}

TEST_F(ClientTest, EveryRoundIsGivenOnce) {
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveVersion(0);
  EXPECT_EQ(NextOf(client).version, 0u);
  Servers().GiveVersion(1);
  EXPECT_EQ(NextOf(client).version, 1u);
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(20));
    Servers().GiveVersion(5);
  });
  EXPECT_EQ(NextOf(client).version, 5u);
  later.join();
}

TEST_F(ClientTest, WaitsForALeaseThatNamesIt) {
  Client& client = Joined();
  Servers().GiveVersion(0);
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(20));
    Servers().GiveLease(0, 1, {{Mark::Kind::kSnapshot, 0}});
  });
  EXPECT_TRUE(NextOf(client).snapshot);
  later.join();
}

TEST_F(ClientTest, FetchWritesEveryChunkThatHoldsSomeOfTheRange) {
  Client& client = Joined();
  Servers().GiveLease(0, 1);
  Servers().GiveVersion(0);
  client.BeginRound(NextOf(client));
  std::vector<float> weights(kElements, -1);
  EXPECT_TRUE(client.Fetch({7, 9}, weights.data()).ok());
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(weights[i], i < 16 ? FakeServers::WeightOf(0, i / 8) : -1);
  }
  // Only once in a round: what the loop wrote there since stays.
  weights[3] = 5;
  EXPECT_TRUE(client.Fetch({0, 36}, weights.data()).ok());
  EXPECT_EQ(weights[3], 5);
  EXPECT_EQ(weights[35], FakeServers::WeightOf(0, 4));
  EXPECT_TRUE(client.Fetch({9, 9}, weights.data()).ok());
}

TEST_F(ClientTest, FetchWaitsForWhatIsStillToCome) {
  Client& client = Joined();
  Servers().GiveLease(0, 1);
  Servers().GiveChunk(0, 0);
  client.BeginRound(NextOf(client));
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(20));
    for (int64_t chunk : {4, 3, 2, 1}) Servers().GiveChunk(0, chunk);
  });
  std::vector<float> weights(kElements, -1);
  EXPECT_TRUE(client.Await({0, kElements}).ok());
  EXPECT_THAT(weights, Each(-1));  // it only waits
  EXPECT_TRUE(client.Fetch({0, kElements}, weights.data()).ok());
  EXPECT_EQ(weights[20], FakeServers::WeightOf(0, 2));
  later.join();
}

TEST_F(ClientTest, AWholeVersionStaysForTheRoundThatBegan) {
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveVersion(0);
  const Client::Next next = NextOf(client);
  client.BeginRound(next);
  Servers().GiveVersion(1);  // chunk by chunk, while this round goes on
  Servers().GiveLease(1, 1, {{Mark::Kind::kHash, 1}});
  Servers().Wait<VersionHashMessage>(1);  // it has all of version 1
  std::vector<float> weights(kElements, -1);
  EXPECT_TRUE(client.Fetch({0, kElements}, weights.data()).ok());
  EXPECT_EQ(weights[20], FakeServers::WeightOf(0, 2));
}

TEST_F(ClientTest, WhoIsLeftBehindBeginsAnew) {
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveChunk(0, 0);
  client.BeginRound(NextOf(client));
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(20));
    Servers().GiveVersion(4);
  });
  std::vector<float> weights(kElements, -1);
  EXPECT_TRUE(absl::IsAborted(client.Fetch({0, kElements}, weights.data())));
  EXPECT_TRUE(absl::IsAborted(client.Await({35, 36})));
  later.join();
  EXPECT_EQ(NextOf(client).version, 4u);
}

TEST_F(ClientTest, WaitsEndWhenTheJobDoes) {
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveChunk(0, 0);
  client.BeginRound(NextOf(client));
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(20));
    Servers().Bye(Code::kLost, "server 1 is lost");
  });
  EXPECT_THAT(client.Await({0, kElements}).message(),
              HasSubstr("server 1 is lost"));
  later.join();
}

// ---- Pushing ----------------------------------------------------------------

// The chunks that were pushed to a server, in order.
std::vector<uint64_t> ChunksTo(
    int server, const std::vector<std::pair<int, PushMessage>>& pushes) {
  std::vector<uint64_t> chunks;
  for (const auto& [to, push] : pushes) {
    if (to == server) chunks.push_back(push.chunk);
  }
  return chunks;
}

TEST_F(ClientTest, AChunkIsSentWhenAllOfItIsFinal) {
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveVersion(0);
  float* gradient = client.BeginRound(NextOf(client));
  for (int64_t i = 0; i < kElements; ++i) gradient[i] = static_cast<float>(i);
  client.Push({30, 36});
  client.Push({20, 30});
  // Chunk 4 is whole, chunk 3 too; chunk 2 lacks four elements.
  Servers().Wait<PushMessage>(2);
  client.Push({0, 20});
  client.EndRound(12.5, 3, {1, 2, 3, 4, 5});
  const auto pushes = Servers().Wait<PushMessage>(5);
  ASSERT_THAT(pushes, SizeIs(5));
  EXPECT_THAT(ChunksTo(0, pushes), ElementsAre(4, 2, 0));
  EXPECT_THAT(ChunksTo(1, pushes), ElementsAre(3, 1));
  for (const auto& [server, push] : pushes) {
    const Range range = map_.ChunkRange(static_cast<int64_t>(push.chunk));
    const std::vector<float> values = FloatsOf(push.data);
    ASSERT_EQ(static_cast<int64_t>(values.size()), range.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i],
                static_cast<float>(range.begin) + static_cast<float>(i));
    }
    EXPECT_EQ(push.samples, 4u);
    EXPECT_EQ(push.scale, 1);
  }
  const auto done = Servers().Wait<RoundDoneMessage>(1);
  EXPECT_EQ(done[0].first, 0);  // the lead
  EXPECT_EQ(done[0].second.loss_sum, 12.5);
  EXPECT_EQ(done[0].second.correct, 3u);
  EXPECT_EQ(done[0].second.samples, 4u);
  EXPECT_EQ(done[0].second.phases[4], 5);
}

// The memory of a gradient that is still being sent is not given out again.
TEST_F(ClientTest, EveryRoundHasAGradientOfItsOwn) {
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  for (uint64_t round = 0; round < 3; ++round) {
    Servers().GiveVersion(round);
    float* gradient = client.BeginRound(NextOf(client));
    std::fill(gradient, gradient + kElements, static_cast<float>(round + 1));
    client.Push({0, kElements});
    client.EndRound(0, 0, kNoPhases);
    Servers().Wait<PushMessage>(5 * (round + 1));
  }
  for (const auto& [server, push] : Servers().Wait<PushMessage>(15)) {
    EXPECT_THAT(FloatsOf(push.data), Each(static_cast<float>(push.round + 1)));
  }
}

TEST_F(ClientTest, AbstainsFromARound) {
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveVersion(0);
  client.Abstain(NextOf(client));
  const auto told = Servers().Wait<AbstainMessage>(2);
  EXPECT_EQ(told[0].second.round, 0u);
  EXPECT_NE(told[0].first, told[1].first);
}

TEST_F(ClientTest, ABfloat16WireCarriesHalf) {
  Servers(DType::kBFloat16);
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveVersion(0);
  float* gradient = client.BeginRound(NextOf(client));
  std::fill(gradient, gradient + kElements, 1.5f);
  client.Push({32, 36});
  const auto pushes = Servers().Wait<PushMessage>(1);
  EXPECT_EQ(pushes[0].second.dtype, DType::kBFloat16);
  ASSERT_EQ(pushes[0].second.data.size(), 8u);
  std::vector<float> decoded(4);
  device_->Decode(pushes[0].second.data.data(), DType::kBFloat16, 1, 4,
                  decoded.data());
  EXPECT_THAT(decoded, Each(1.5f));
  std::vector<float> weights(kElements);
  EXPECT_TRUE(client.Fetch({0, 8}, weights.data()).ok());
  EXPECT_EQ(weights[0], FakeServers::WeightOf(0, 0));
}

// On a float16 wire nothing is sent before it is known that all of it fits.
TEST_F(ClientTest, AFloat16GradientIsSentWholeAtTheEnd) {
  Servers(DType::kFloat16);
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  Servers().GiveVersion(0);
  float* gradient = client.BeginRound(NextOf(client));
  std::fill(gradient, gradient + kElements, 1.5f);
  client.Push({0, kElements});
  client.TellLead(EvalReportMessage{});  // later than any push would be
  Servers().Wait<EvalReportMessage>(1);
  EXPECT_THAT(Servers().Wait<PushMessage>(0), SizeIs(0));
  client.EndRound(0, 0, kNoPhases);
  const auto pushes = Servers().Wait<PushMessage>(5);
  EXPECT_EQ(pushes[0].second.scale, 2);
  std::vector<float> decoded(4);
  device_->Decode(pushes[0].second.data.data(), DType::kFloat16, 2, 4,
                  decoded.data());
  EXPECT_THAT(decoded, Each(1.5f));
}

TEST_F(ClientTest, AFloat16GradientThatDoesNotFitAbstains) {
  Servers(DType::kFloat16);
  Client& client = Joined();
  Servers().GiveLease(0, 9);
  for (uint64_t round = 0; round < 2; ++round) {
    Servers().GiveVersion(round);
    float* gradient = client.BeginRound(NextOf(client));
    std::fill(gradient, gradient + kElements, 1.5f);
    if (round == 0) gradient[17] = 40000;  // times 2 is beyond 65504
    client.Push({0, kElements});
    client.EndRound(0, 0, kNoPhases);
  }
  const auto abstains = Servers().Wait<AbstainMessage>(2);
  for (const auto& [server, abstain] : abstains) {
    EXPECT_EQ(abstain.round, 0u);
  }
  // The next round is pushed as ever.
  for (const auto& [server, push] : Servers().Wait<PushMessage>(5)) {
    EXPECT_EQ(push.round, 1u);
  }
}

// ---- Hashes and evaluators --------------------------------------------------

TEST_F(ClientTest, TellsTheHashOfAMarkedVersion) {
  Joined();
  Servers().GiveLease(0, 2, {{Mark::Kind::kHash, 1}});
  Servers().GiveVersion(0);
  Servers().GiveVersion(1);
  const auto told = Servers().Wait<VersionHashMessage>(1);
  EXPECT_EQ(told[0].first, 0);
  EXPECT_EQ(told[0].second.version, 1u);
  EXPECT_EQ(told[0].second.master, 0u);
  std::vector<float> weights;
  for (int64_t i = 0; i < kElements; ++i) {
    weights.push_back(FakeServers::WeightOf(1, i / 8));
  }
  const absl::Span<const std::byte> bytes(
      reinterpret_cast<const std::byte*>(weights.data()), weights.size() * 4);
  EXPECT_EQ(told[0].second.wire, HashLeaves(bytes, 0, 4, 8));
}

TEST_F(ClientTest, AnEvaluatorGetsWholeVersions) {
  Client& client = Joined(Role::kEvaluator);
  for (int64_t chunk : {0, 1, 2, 3}) Servers().GiveChunk(6, chunk);
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(20));
    Servers().GiveChunk(6, 4);
  });
  const Client::Next next = NextOf(client);
  later.join();
  EXPECT_EQ(next.kind, Client::Next::Kind::kEvaluate);
  EXPECT_EQ(next.version, 6u);
  client.BeginRound(next);
  std::vector<float> weights(kElements, -1);
  EXPECT_TRUE(client.Fetch({0, kElements}, weights.data()).ok());
  EXPECT_EQ(weights[35], FakeServers::WeightOf(6, 4));
  Servers().GiveVersion(8);
  EXPECT_EQ(NextOf(client).version, 8u);
  Servers().Bye(Code::kOk, "");
  EXPECT_TRUE(absl::IsCancelled(client.WaitNext().status()));
  EXPECT_TRUE(client.Leave().ok());
}

}  // namespace
}  // namespace parapet
