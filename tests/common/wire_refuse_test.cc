// The wire: what is refused. Frames are built by hand here, since the encoder
// makes none of these.

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/wire_generated.h"
#include "tests/common/wire_messages.h"

namespace parapet {
namespace {

using flatbuffers::FlatBufferBuilder;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

WireLimits Tight() {
  WireLimits limits;
  limits.chunk_payload = 64;
  limits.max_id = 9;
  limits.max_locals = 16;
  limits.text = 20;
  limits.job_text = 30;
  limits.lease_rounds = 3;
  return limits;
}

// A header around a body that `make` builds.
template <typename F>
std::string Header(fbs::Body type, F make) {
  FlatBufferBuilder b;
  const auto body = make(b).Union();
  b.Finish(fbs::CreateHeader(b, 1, 2, type, body));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

absl::Status Decoded(const std::string& header, size_t payload = 0) {
  return Decode(header, payload == 0 ? Payload() : Chunk(payload), Tight())
      .status();
}
absl::Status DecodedWith(const std::string& header, std::string payload) {
  return Decode(header, Payload::FromString(std::move(payload)), Tight())
      .status();
}

void ExpectRefused(const absl::Status& status, const std::string& words) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

template <typename M>
std::pair<std::string, Payload> Encoded(const M& message) {
  Encoder encoder;
  Payload payload;
  std::string header(encoder.Encode({1, 2, message}, &payload));
  return {header, payload};
}

// ---- Frames -----------------------------------------------------------------

TEST(WireRefuseTest, HeadersOfImpossibleSizes) {
  for (size_t size : {0, 1, 7, 4097, 1 << 20}) {
    ExpectRefused(Decoded(std::string(size, '\0')), "a header of");
  }
  for (size_t size : {8, 100, 4096}) {
    for (char c : {'\0', '\1', '\xff'}) {
      EXPECT_FALSE(Decoded(std::string(size, c)).ok());
    }
  }
}

TEST(WireRefuseTest, EveryTruncatedHeader) {
  for (const Body& body : EveryMessage()) {
    const auto [header, payload] = Encoded(body);
    for (size_t size = 0; size + 1 < header.size(); ++size) {
      // The last bytes may be padding, or belong to a field whose default is
      // right: only a crash would be wrong there.
      const auto decoded =
          Decode(header.substr(0, size), payload, WireLimits());
      if (size < header.size() / 2) {
        EXPECT_FALSE(decoded.ok());
      }
    }
  }
}

TEST(WireRefuseTest, AHeaderWithoutABodyOrWithAnUnknownOne) {
  FlatBufferBuilder b;
  b.Finish(fbs::CreateHeader(b, 1, 2));
  ExpectRefused(Decoded({reinterpret_cast<const char*>(b.GetBufferPointer()),
                         b.GetSize()}),
                "without a body");
  const auto type = static_cast<fbs::Body>(200);
  EXPECT_FALSE(
      Decoded(Header(type, [](auto& fb) { return fbs::CreatePing(fb); })).ok());
}

TEST(WireRefuseTest, APayloadWhereNoneBelongs) {
  int with = 0;
  for (const Body& body : EveryMessage()) {
    const auto [header, payload] = Encoded(body);
    if (!payload.empty()) {
      ++with;
      continue;
    }
    ExpectRefused(Decode(header, Chunk(1), WireLimits()).status(),
                  "a payload too many");
  }
  EXPECT_EQ(with, 12);  // hello, lease, push, weights, needs, sets, sums,
                        // distances, decision
}

// ---- Text -------------------------------------------------------------------

TEST(WireRefuseTest, TextsThatAreTooLong) {
  const std::string good(20, 'x'), bad(21, 'x');
  for (const std::string& text : {good, bad}) {
    const std::vector<Body> all = {
        HelloMessage{1, {}, 0, 0, 0, 0, text, ""},
        WelcomeMessage{0, text},
        RefuseMessage{Code::kFailed, text},
        LeaveMessage{text},
        ByeMessage{Code::kFailed, text},
        StoppingMessage{text},
        LoadMessage{0, text},
        LoadedMessage{true, text},
        SnapshotDoneMessage{0, true, {text, 0, 0}, ""},
        SnapshotDoneMessage{0, true, {}, text}};
    for (const Body& body : all) {
      const auto [header, payload] = Encoded(body);
      const absl::Status status = Decode(header, payload, Tight()).status();
      EXPECT_EQ(status.ok(), text == good) << body.index();
      if (text == bad) ExpectRefused(status, "a text is too long");
    }
  }
}

TEST(WireRefuseTest, AJobThatIsTooLong) {
  const auto [header, payload] =
      Encoded(HelloMessage{1, {}, 0, 0, 0, 0, "", ""});
  EXPECT_TRUE(Decoded(header, 30).ok());
  ExpectRefused(Decoded(header, 31), "job");
}

// ---- Fields -----------------------------------------------------------------

TEST(WireRefuseTest, HellosFromNobody) {
  const auto hello = [](int role, uint32_t id, uint16_t link) {
    return Decoded(Header(fbs::Body::Hello, [&](auto& b) {
      return fbs::CreateHello(b, 1, static_cast<fbs::Role>(role), id, link);
    }));
  };
  EXPECT_TRUE(hello(2, 9, 255).ok());
  ExpectRefused(hello(3, 9, 255), "nobody");
  ExpectRefused(hello(2, 10, 255), "nobody");
  ExpectRefused(hello(2, 9, 256), "nobody");
}

TEST(WireRefuseTest, PushesThatCannotBe) {
  const auto push = [](size_t bytes, uint32_t samples, int dtype,
                       double scale) {
    return Decoded(Header(fbs::Body::Push,
                          [&](auto& b) {
                            return fbs::CreatePush(
                                b, 0, 0, samples,
                                static_cast<fbs::DType>(dtype), scale);
                          }),
                   bytes);
  };
  EXPECT_TRUE(push(64, 1, 2, 1).ok());
  EXPECT_TRUE(push(1, 1, 2, 1).ok());
  ExpectRefused(push(0, 1, 0, 1), "wrong size");
  ExpectRefused(push(65, 1, 0, 1), "wrong size");
  ExpectRefused(push(64, 0, 0, 1), "no samples");
  ExpectRefused(push(64, 1, 3, 1), "element type");
  for (double scale : {0.0, -1.0, kNan, kInf}) {
    ExpectRefused(push(64, 1, 0, scale), "scale");
  }
}

TEST(WireRefuseTest, WeightsThatCannotBe) {
  const auto weights = [](size_t bytes, int dtype) {
    return Decoded(Header(fbs::Body::Weights,
                          [&](auto& b) {
                            return fbs::CreateWeights(
                                b, 0, 0, static_cast<fbs::DType>(dtype));
                          }),
                   bytes);
  };
  EXPECT_TRUE(weights(64, 2).ok());
  ExpectRefused(weights(0, 0), "wrong size");
  ExpectRefused(weights(65, 0), "wrong size");
  ExpectRefused(weights(64, 3), "element type");
}

TEST(WireRefuseTest, EnumsOutOfTheirRange) {
  const auto ack = [](int status) {
    return Decoded(Header(fbs::Body::Ack, [&](auto& b) {
      return fbs::CreateAck(b, 0, 0, static_cast<fbs::AckStatus>(status));
    }));
  };
  EXPECT_TRUE(ack(2).ok());
  ExpectRefused(ack(3), "acknowledgement");
  const auto ping = [](uint8_t phase) {
    return Decoded(Header(fbs::Body::Ping, [&](auto& b) {
      return fbs::CreatePing(b, 0, 0, phase);
    }));
  };
  EXPECT_TRUE(ping(kPhases - 1).ok());
  ExpectRefused(ping(kPhases), "phase");
}

TEST(WireRefuseTest, BitSetsThatAreTooLong) {
  for (const Body& body :
       std::vector<Body>{NeedWeightsMessage{}, NeedGradientsMessage{}}) {
    const auto [header, none] = Encoded(body);
    EXPECT_TRUE(Decoded(header, 2).ok());
    ExpectRefused(Decoded(header, 3), "bit set");
  }
  for (const Body& body :
       std::vector<Body>{CompleteMessage{}, CloseMessage{}}) {
    const auto [header, empty] = Encoded(body);
    EXPECT_TRUE(Decoded(header, 2).ok());  // ids up to 9
    ExpectRefused(Decoded(header, 3), "bit set");
  }
}

TEST(WireRefuseTest, RoundReportsWithoutTheirPhases) {
  for (int count : {0, kPhases - 1, kPhases + 1}) {
    ExpectRefused(Decoded(Header(fbs::Body::RoundDone,
                                 [&](auto& b) {
                                   const std::vector<float> phases(
                                       static_cast<size_t>(count));
                                   return fbs::CreateRoundDone(
                                       b, 0, 0, 0, 0, b.CreateVector(phases));
                                 })),
                  "phases");
  }
  ExpectRefused(Decoded(Header(fbs::Body::RoundDone,
                               [](auto& b) {
                                 return fbs::CreateRoundDone(b, 0, 0, 0, 0);
                               })),
                "phases");
}

TEST(WireRefuseTest, LossesThatAreNoNumber) {
  for (double loss : {kNan, kInf, -kInf}) {
    RoundDoneMessage done;
    done.loss_sum = loss;
    ExpectRefused(Decoded(Encoded(done).first), "loss");
  }
}

TEST(WireRefuseTest, ScalesThatAreNone) {
  const auto scale = [](double value) {
    return Decoded(Header(fbs::Body::Scale, [&](auto& b) {
      return fbs::CreateScale(b, 0, value);
    }));
  };
  EXPECT_TRUE(scale(0).ok());
  for (double bad : {-1.0, kNan, kInf}) ExpectRefused(scale(bad), "scale");
}

TEST(WireRefuseTest, SumsThatAreNone) {
  const auto [header, sum] = Encoded(NormMessage{});
  EXPECT_TRUE(Decode(header, sum, Tight()).ok());
  for (size_t bytes : {0, 1, 567, 569})
    EXPECT_FALSE(Decoded(header, bytes).ok());
  EXPECT_FALSE(DecodedWith(header, std::string(568, '\xff')).ok());
}

TEST(WireRefuseTest, FilesLongerThanANumberCanSay) {
  ExpectRefused(Decoded(Header(fbs::Body::SnapshotDone,
                               [](auto& b) {
                                 return fbs::CreateSnapshotDone(
                                     b, 0, true, 0, (uint64_t{1} << 63));
                               })),
                "too long");
}

// ---- Distances and decisions ------------------------------------------------

absl::Status DecodedReport(const ShardReportMessage& report) {
  const auto [header, payload] = Encoded(report);
  WireLimits limits = Tight();
  limits.max_compared = 4;
  return Decode(header, payload, limits).status();
}

ShardReportMessage ReportOf(std::vector<uint32_t> workers, size_t flags,
                            size_t sums) {
  ShardReportMessage report;
  report.workers = std::move(workers);
  report.finite.assign(flags, true);
  report.sums = std::make_shared<std::vector<ExactSum>>(sums);
  return report;
}

TEST(WireRefuseTest, ReportsOfDistancesThatCannotBe) {
  EXPECT_TRUE(DecodedReport(ReportOf({1, 5}, 2, 6)).ok());
  EXPECT_TRUE(DecodedReport(ReportOf({0, 1, 2, 9}, 4, 15)).ok());
  ExpectRefused(DecodedReport(ReportOf({0, 1, 2, 3, 4}, 5, 21)),
                "too many workers");
  ExpectRefused(DecodedReport(ReportOf({1, 10}, 2, 6)), "impossible");
  ExpectRefused(DecodedReport(ReportOf({5, 1}, 2, 6)), "out of order");
  ExpectRefused(DecodedReport(ReportOf({5, 5}, 2, 6)), "out of order");
  ExpectRefused(DecodedReport(ReportOf({1, 5}, 1, 6)), "flag for each");
  ExpectRefused(DecodedReport(ReportOf({1, 5}, 3, 6)), "flag for each");
  ExpectRefused(DecodedReport(ReportOf({1, 5}, 2, 5)), "too few distances");
  ExpectRefused(DecodedReport(ReportOf({1, 5}, 2, 7)), "too many distances");
}

absl::Status DecodedDecision(const DecisionMessage& decision) {
  const auto [header, payload] = Encoded(decision);
  WireLimits limits = Tight();
  limits.max_compared = 4;
  return Decode(header, payload, limits).status();
}

TEST(WireRefuseTest, DecisionsThatCannotBe) {
  EXPECT_TRUE(DecodedDecision(SomeDecision()).ok());
  DecisionMessage decision = SomeDecision();
  decision.rows = 3;
  ExpectRefused(DecodedDecision(decision), "other weights");
  decision.rows = ~uint32_t{0};
  ExpectRefused(DecodedDecision(decision), "other weights");
  decision = SomeDecision();
  decision.weights.push_back(0);
  ExpectRefused(DecodedDecision(decision), "other weights");
  decision = SomeDecision();
  decision.workers = {5, 1};
  ExpectRefused(DecodedDecision(decision), "out of order");
  for (double bad : {kNan, kInf}) {
    decision = SomeDecision();
    decision.weights[1] = bad;
    ExpectRefused(DecodedDecision(decision), "weight");
    decision = SomeDecision();
    decision.scale = bad;
    ExpectRefused(DecodedDecision(decision), "scale");
  }
}

// ---- Leases -----------------------------------------------------------------

absl::Status DecodedLease(const Lease& lease) {
  const auto [header, payload] = Encoded(LeaseMessage{lease});
  return Decode(header, payload, Tight()).status();
}

Lease GoodLease() {
  Lease lease{1, 5, 7, {{1, 11}, {2, 12}}, {{0, 13}}, {}, {}};
  lease.facts.resize(2);
  lease.marks = {{Mark::Kind::kHash, 7}};
  return lease;
}

TEST(WireRefuseTest, LeasesThatCannotBe) {
  EXPECT_TRUE(DecodedLease(GoodLease()).ok());
  Lease lease = GoodLease();
  lease.from = 8;
  ExpectRefused(DecodedLease(lease), "too many rounds");
  lease = GoodLease();
  lease.until = 9;
  lease.facts.resize(4);
  ExpectRefused(DecodedLease(lease), "too many rounds");
  lease.from = 0;
  lease.until = ~uint64_t{0};
  ExpectRefused(DecodedLease(lease), "too many rounds");
  for (size_t facts : {0, 1, 3}) {
    lease = GoodLease();
    lease.facts.resize(facts);
    ExpectRefused(DecodedLease(lease), "facts");
  }
  for (uint64_t version : {uint64_t{4}, uint64_t{8}, ~uint64_t{0}}) {
    lease = GoodLease();
    lease.marks[0].version = version;
    ExpectRefused(DecodedLease(lease), "out of its lease");
  }
  lease = GoodLease();
  lease.marks[0].kind = static_cast<Mark::Kind>(4);
  ExpectRefused(DecodedLease(lease), "unknown mark");
}

TEST(WireRefuseTest, LeasesWithImpossibleMembers) {
  for (const bool evaluators : {false, true}) {
    const auto with = [&](std::vector<Member> members) {
      Lease lease = GoodLease();
      (evaluators ? lease.evaluators : lease.members) = std::move(members);
      return DecodedLease(lease);
    };
    EXPECT_TRUE(with({}).ok());
    EXPECT_TRUE(with({{0, 1}, {9, 1}}).ok());
    ExpectRefused(with({{10, 1}}), "impossible member");
    ExpectRefused(with({{1, 0}}), "impossible member");
    ExpectRefused(with({{1, 1}, {1, 2}}), "out of order");
    ExpectRefused(with({{2, 1}, {1, 2}}), "out of order");
  }
}

TEST(WireRefuseTest, LeasesWithImpossibleRates) {
  for (double bad : {kNan, kInf, -kInf}) {
    Lease lease = GoodLease();
    lease.facts[1].lr = bad;
    ExpectRefused(DecodedLease(lease), "learning rate");
  }
  for (double bad : {0.0, -1.0, kNan}) {
    for (const bool second : {false, true}) {
      Lease lease = GoodLease();
      (second ? lease.facts[1].bias2 : lease.facts[0].bias1) = bad;
      ExpectRefused(DecodedLease(lease), "learning rate");
    }
  }
}

// Moves what a FlatBuffer holds `by` bytes back; offsets but the root's are
// relative.
std::string Moved(std::string bytes, uint32_t by) {
  uint32_t root;
  std::memcpy(&root, bytes.data(), sizeof(root));
  root += by;
  std::memcpy(bytes.data(), &root, sizeof(root));
  return bytes.insert(sizeof(root), by, '\0');
}

// The tables' own fields are all zero, thus not there: only what the list holds
// would be misaligned, and FlatBuffers' verifier does not mind.
TEST(WireRefuseTest, ListsThatAreNotAligned) {
  Lease lease;
  lease.members = {{1, 11}};
  ShardDoneMessage done;
  done.first_bad = 0;
  done.strikes = {{3, Code::kBadChunk, 2}};
  DecisionMessage decision;
  decision.scale = 0;
  decision.rows = 1;
  decision.weights = {0.5, 0.25};
  for (const Body& body :
       std::vector<Body>{LeaseMessage{lease}, done, decision}) {
    const auto [header, payload] = Encoded(body);
    EXPECT_TRUE(DecodedWith(header, Moved(payload.ToString(), 8)).ok());
    ExpectRefused(DecodedWith(header, Moved(payload.ToString(), 4)),
                  "not aligned");
  }
}

TEST(WireRefuseTest, PayloadsThatAreNotWhatTheyShouldBe) {
  for (const Body& body :
       std::vector<Body>{LeaseMessage{GoodLease()}, SomeShardDone()}) {
    const auto [header, payload] = Encoded(body);
    EXPECT_FALSE(Decoded(header).ok());
    for (size_t bytes : {1, 8, 100, 1000}) {
      EXPECT_FALSE(Decoded(header, bytes).ok());
    }
    ExpectRefused(Decoded(header, 100000), "too long");
    const std::string whole = payload.ToString();
    for (size_t size = 0; size < whole.size() / 2; ++size) {
      EXPECT_FALSE(DecodedWith(header, whole.substr(0, size)).ok());
    }
  }
}

// ---- Reports of servers -----------------------------------------------------

TEST(WireRefuseTest, ReportsThatNameWorkersThatCannotBe) {
  const auto with = [](uint32_t participant, uint32_t exception, uint32_t bad) {
    ShardDoneMessage done;
    done.participants = {participant};
    done.exceptions = {{exception, 0, 1}};
    done.bad = {{bad, 1}};
    const auto [header, payload] = Encoded(done);
    return Decode(header, payload, Tight()).status();
  };
  EXPECT_TRUE(with(9, 9, 9).ok());
  ExpectRefused(with(10, 9, 9), "impossible");
  ExpectRefused(with(9, 10, 9), "impossible");
  ExpectRefused(with(9, 9, ~uint32_t{0}), "impossible");
}

TEST(WireRefuseTest, StrikesThatCannotBe) {
  using Strike = ShardDoneMessage::Strike;
  const auto with = [](std::vector<Strike> strikes) {
    ShardDoneMessage done;
    done.strikes = std::move(strikes);
    const auto [header, payload] = Encoded(done);
    return Decode(header, payload, Tight()).status();
  };
  EXPECT_TRUE(with({{8, Code::kStopped, 1}, {9, Code::kProtocol, 7}}).ok());
  for (const Strike& bad :
       {Strike{10, Code::kProtocol, 1}, Strike{9, Code::kOk, 1},
        Strike{9, static_cast<Code>(16), 1}, Strike{9, Code::kProtocol, 0}})
    ExpectRefused(with({bad}), "impossible strike");
  const Strike one = {4, Code::kBadChunk, 1};
  ExpectRefused(with({one, one}), "out of order");
  ExpectRefused(with({one, {4, Code::kProtocol, 1}}), "out of order");
  ExpectRefused(with({one, {3, Code::kBadSamples, 1}}), "out of order");
}

}  // namespace
}  // namespace parapet
