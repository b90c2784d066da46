// The wire: what is encoded comes back.

#include "common/wire.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/wire_messages.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Frames {
  std::string header;
  Payload payload;
};

Frames Encoded(Body body, uint64_t term = 5, uint64_t session = 6) {
  static Encoder encoder;
  Frames frames;
  frames.header = std::string(
      encoder.Encode({term, session, std::move(body)}, &frames.payload));
  return frames;
}

// What a message of this kind is after a trip.
template <typename M>
M Trip(const M& message) {
  const Frames frames = Encoded(message);
  const auto decoded = Decode(frames.header, frames.payload, WireLimits());
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  if (!decoded.ok()) return M();
  EXPECT_EQ(decoded->term, 5u);
  EXPECT_EQ(decoded->session, 6u);
  EXPECT_TRUE(std::holds_alternative<M>(decoded->body));
  return std::get<M>(decoded->body);
}
template <typename M>
M TripOfSome() {
  for (const Body& body : EveryMessage()) {
    if (auto* m = std::get_if<M>(&body)) return Trip(*m);
  }
  ADD_FAILURE() << "no such message";
  return M();
}

TEST(WireTest, ThereIsOneOfEveryKind) {
  const std::vector<Body> all = EveryMessage();
  ASSERT_EQ(all.size(), std::variant_size_v<Body>);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].index(), i);
}

// Encoding what was decoded gives the same bytes, so no field is lost that the
// wire has.
TEST(WireTest, EveryMessageSurvivesATrip) {
  for (const Body& body : EveryMessage()) {
    SCOPED_TRACE(body.index());
    const Frames first = Encoded(body, 1, ~uint64_t{0});
    EXPECT_LE(first.header.size(), 4096u);
    const auto decoded = Decode(first.header, first.payload, WireLimits());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->body.index(), body.index());
    const Frames second =
        Encoded(decoded->body, decoded->term, decoded->session);
    EXPECT_EQ(second.header, first.header);
    EXPECT_EQ(second.payload.ToString(), first.payload.ToString());
  }
}

TEST(WireTest, AMessageOfDefaultsSurvivesATrip) {
  EXPECT_EQ(Trip(HelloMessage()).job, "");
  EXPECT_EQ(Trip(WelcomeMessage()).snapshot, "");
  EXPECT_EQ(Trip(AckMessage()).status, AckStatus::kKept);
  EXPECT_THAT(Trip(NeedWeightsMessage()).locals, IsEmpty());
  EXPECT_TRUE(Trip(CompleteMessage()).workers.Empty());
  EXPECT_TRUE(Trip(CloseMessage()).workers.Empty());
  EXPECT_EQ(Trip(LeaseMessage()).lease, Lease());
  EXPECT_EQ(Trip(ShardDoneMessage()).first_bad, -1);
  EXPECT_EQ(Trip(NormMessage()).squares.Round(), 0);
}

TEST(WireTest, Hello) {
  const auto m = TripOfSome<HelloMessage>();
  EXPECT_EQ(m.protocol, 1u);
  EXPECT_EQ(m.peer, (Peer{Role::kEvaluator, 6}));
  EXPECT_EQ(m.link, 2);
  EXPECT_EQ(m.nonce, 33u);
  EXPECT_EQ(m.layout_hash, 44u);
  EXPECT_EQ(m.samples, 55u);
  EXPECT_EQ(m.fingerprint, "cpu");
  EXPECT_EQ(m.job, "batch=4\n");
}

TEST(WireTest, Lease) {
  EXPECT_EQ(TripOfSome<LeaseMessage>().lease, SomeLease());
}

TEST(WireTest, PushAndWeights) {
  const auto push = TripOfSome<PushMessage>();
  EXPECT_EQ(push.round, 8u);
  EXPECT_EQ(push.chunk, 9u);
  EXPECT_EQ(push.samples, 32u);
  EXPECT_EQ(push.dtype, DType::kFloat16);
  EXPECT_EQ(push.scale, 1024);
  EXPECT_EQ(push.data.ToString(), Chunk(64).ToString());
  const auto weights = TripOfSome<WeightsMessage>();
  EXPECT_EQ(weights.version, 9u);
  EXPECT_EQ(weights.chunk, 10u);
  EXPECT_EQ(weights.dtype, DType::kBFloat16);
  EXPECT_EQ(weights.credit, 77u);
  EXPECT_EQ(weights.data.size(), 32u);
}

// The payload is the sender's memory, not a copy of it.
TEST(WireTest, TensorsAreNotCopied) {
  const Payload data = Chunk(100);
  const Frames frames = Encoded(PushMessage{0, 0, 1, DType::kFloat32, 1, data});
  EXPECT_EQ(frames.payload.data(), data.data());
  const auto decoded = Decode(frames.header, frames.payload, WireLimits());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<PushMessage>(decoded->body).data.data(), data.data());
}

TEST(WireTest, AckAndNeed) {
  const auto ack = TripOfSome<AckMessage>();
  EXPECT_EQ(ack.round, 8u);
  EXPECT_EQ(ack.chunk, 9u);
  EXPECT_EQ(ack.status, AckStatus::kLate);
  EXPECT_EQ(ack.credit, 78u);
  const auto weights = TripOfSome<NeedWeightsMessage>();
  EXPECT_EQ(weights.version, 9u);
  // Whole bytes: zeros are added.
  ASSERT_EQ(weights.locals.size(), 16u);
  EXPECT_EQ(std::count(weights.locals.begin(), weights.locals.end(), true), 3);
  EXPECT_TRUE(weights.locals[0] && weights.locals[2] && weights.locals[8]);
  const auto gradients = TripOfSome<NeedGradientsMessage>();
  EXPECT_EQ(gradients.round, 8u);
  EXPECT_EQ(gradients.credit, 79u);
  EXPECT_FALSE(gradients.locals[0]);
  EXPECT_TRUE(gradients.locals[1]);
}

TEST(WireTest, ReportsOfWorkers) {
  const auto done = TripOfSome<RoundDoneMessage>();
  EXPECT_EQ(done.round, 8u);
  EXPECT_EQ(done.loss_sum, 3.5);
  EXPECT_EQ(done.correct, 20u);
  EXPECT_EQ(done.samples, 32u);
  EXPECT_THAT(done.phases, ElementsAre(1, 2, 3, 4, 5));
  const auto ping = TripOfSome<PingMessage>();
  EXPECT_EQ(ping.nonce, 1u);
  EXPECT_EQ(ping.round, 8u);
  EXPECT_EQ(ping.phase, Phase::kPush);
  const auto hash = TripOfSome<VersionHashMessage>();
  EXPECT_EQ(hash.version, 9u);
  EXPECT_EQ(hash.master, 0xaau);
  EXPECT_EQ(hash.wire, 0xbbu);
  const auto snapshot = TripOfSome<SnapshotDoneMessage>();
  EXPECT_EQ(snapshot.version, 12u);
  EXPECT_TRUE(snapshot.ok);
  EXPECT_EQ(snapshot.file, (FileEntry{"worker-3.safetensors", 1000, 0xcc}));
  EXPECT_EQ(snapshot.words, "w");
  const auto report = TripOfSome<EvalReportMessage>();
  EXPECT_EQ(report.version, 12u);
  EXPECT_EQ(report.loss_sum, 4.5);
  EXPECT_EQ(report.correct, 80u);
  EXPECT_EQ(report.samples, 100u);
  EXPECT_EQ(report.seconds, 0.5);
}

TEST(WireTest, DistancesAndDecisions) {
  const auto report = TripOfSome<ShardReportMessage>();
  EXPECT_EQ(report.round, 8u);
  EXPECT_THAT(report.workers, ElementsAre(1, 5));
  EXPECT_EQ(report.finite, (std::vector<bool>{true, false}));
  ASSERT_EQ(report.sums->size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ((*report.sums)[i].Serialize(),
              (*SomeReport().sums)[i].Serialize());
  }
  const auto decision = TripOfSome<DecisionMessage>();
  EXPECT_EQ(decision.round, 8u);
  EXPECT_THAT(decision.workers, ElementsAre(1, 5));
  EXPECT_TRUE(decision.bad);
  EXPECT_EQ(decision.rows, 2u);
  EXPECT_EQ(decision.weights, SomeDecision().weights);
  EXPECT_EQ(decision.op, 2);
  EXPECT_EQ(decision.f, 1u);
  EXPECT_EQ(decision.scale, 0.5);
}

// Nobody at all is still a report and a decision.
TEST(WireTest, DistancesOfNobody) {
  ShardReportMessage report;
  report.sums = std::make_shared<std::vector<ExactSum>>(1);
  EXPECT_THAT(Trip(report).workers, IsEmpty());
  EXPECT_THAT(Trip(DecisionMessage()).workers, IsEmpty());
}

TEST(WireTest, WordsAndCodes) {
  EXPECT_EQ(TripOfSome<WelcomeMessage>().version, 12u);
  EXPECT_EQ(TripOfSome<WelcomeMessage>().snapshot, "snap/step-12");
  EXPECT_EQ(TripOfSome<RefuseMessage>().code, Code::kJobDiffers);
  EXPECT_EQ(TripOfSome<RefuseMessage>().words, "it has batch=8");
  EXPECT_EQ(TripOfSome<ByeMessage>().code, Code::kLeftOut);
  EXPECT_EQ(TripOfSome<ByeMessage>().words, "too slow");
  EXPECT_EQ(TripOfSome<LeaveMessage>().words, "tired");
  EXPECT_EQ(TripOfSome<StoppingMessage>().words, "SIGTERM");
  EXPECT_EQ(TripOfSome<LoadMessage>().version, 12u);
  EXPECT_EQ(TripOfSome<LoadMessage>().snapshot, "snap/step-12");
  EXPECT_TRUE(TripOfSome<LoadedMessage>().ok);
  EXPECT_EQ(TripOfSome<LoadedMessage>().words, "fine");
  EXPECT_EQ(TripOfSome<PongMessage>().version, 9u);
  EXPECT_EQ(TripOfSome<AbstainMessage>().round, 8u);
}

TEST(WireTest, ReportsOfServers) {
  const auto done = TripOfSome<ShardDoneMessage>();
  EXPECT_EQ(done.round, 5u);
  EXPECT_THAT(done.participants, ElementsAre(0, 2, 9));
  ASSERT_EQ(done.exceptions.size(), 2u);
  EXPECT_EQ(done.exceptions[0].worker, 3u);
  EXPECT_EQ(done.exceptions[0].first_turn, 1u);
  EXPECT_EQ(done.exceptions[0].last_turn, 4u);
  ASSERT_EQ(done.bad.size(), 1u);
  EXPECT_EQ(done.bad[0].worker, 2u);
  EXPECT_EQ(done.bad[0].values, 100u);
  EXPECT_EQ(done.bad_coordinates, 6u);
  EXPECT_EQ(done.first_bad, 1234567890123);
  EXPECT_TRUE(done.carried);
  EXPECT_EQ(done.bytes_pushed, uint64_t{1} << 50);
  EXPECT_EQ(done.bytes_published, 99u);
  ASSERT_EQ(done.strikes.size(), 3u);
  EXPECT_EQ(done.strikes[1].worker, 2u);
  EXPECT_EQ(done.strikes[1].code, Code::kOverCredit);
  EXPECT_EQ(done.strikes[1].count, uint64_t{1} << 40);
  EXPECT_EQ(done.strikes[2].worker, 9u);
  const auto norm = TripOfSome<NormMessage>();
  EXPECT_EQ(norm.round, 8u);
  EXPECT_EQ(norm.squares.Round(), 1e300);
  EXPECT_EQ(TripOfSome<ScaleMessage>().scale, 0.75);
  EXPECT_EQ(TripOfSome<CompleteMessage>().workers, SomeIds());
  EXPECT_EQ(TripOfSome<CloseMessage>().workers, SomeIds());
}

TEST(WireTest, PhasesThatAreNoTimesCountAsNothing) {
  RoundDoneMessage done;
  done.phases = {std::nanf(""), -1, std::numeric_limits<float>::infinity(), 0,
                 2};
  EXPECT_THAT(Trip(done).phases, ElementsAre(0, 0, 0, 0, 2));
}

TEST(WireTest, LongWordsAreCutNotRefused) {
  const std::string words(10000, 'x');
  EXPECT_EQ(Trip(ByeMessage{Code::kFailed, words}).words,
            words.substr(0, WireLimits().text));
  EXPECT_EQ(Trip(SnapshotDoneMessage{1, false, {}, words}).words.size(),
            WireLimits().text);
}

TEST(WireTest, TheLargestLeaseThatAJobCanHaveFits) {
  Lease lease{1, 0, 64, {}, {}, {}, {}};
  for (uint32_t id = 0; id <= 65535; ++id) lease.members.push_back({id, 1});
  lease.facts.resize(64);
  for (uint64_t v = 1; v <= 64; ++v) {
    lease.marks.push_back({Mark::Kind::kHash, v});
    lease.marks.push_back({Mark::Kind::kSnapshot, v});
  }
  EXPECT_EQ(Trip(LeaseMessage{lease}).lease, lease);
}

TEST(WireTest, IdsUpToTheLimit) {
  IdSet set;
  set.Insert(65535);
  EXPECT_EQ(Trip(CloseMessage{1, set}).workers, set);
}

TEST(WireTest, FramesMayLieAtAnyAddress) {
  for (const Body& body : EveryMessage()) {
    const Frames frames = Encoded(body);
    for (size_t shift = 0; shift < 8; ++shift) {
      std::string header(shift, '\0'), bytes(shift, '\0');
      header += frames.header;
      bytes += frames.payload.ToString();
      const Payload whole = Payload::FromString(bytes);
      const Payload payload(whole.owner(), whole.data() + shift,
                            whole.size() - shift);
      const auto decoded = Decode(absl::string_view(header).substr(shift),
                                  payload, WireLimits());
      EXPECT_TRUE(decoded.ok()) << body.index() << " " << decoded.status();
    }
  }
}

}  // namespace
}  // namespace parapet
