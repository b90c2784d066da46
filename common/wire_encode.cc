#include <algorithm>
#include <utility>

#include "common/wire.h"
#include "schema/wire_generated.h"

namespace parapet {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::String;

// A body in the builder: its type in the union and where it lies.
using Built = std::pair<fbs::Body, Offset<void>>;

constexpr size_t kInitialHeader = 1024;

template <typename T>
Built Pack(fbs::Body type, Offset<T> offset) {
  return {type, offset.Union()};
}

Payload PackBits(const std::vector<bool>& bits) {
  if (bits.empty()) return Payload();
  std::string bytes((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i])
      bytes[i / 8] = static_cast<char>(bytes[i / 8] | (1 << (i % 8)));
  }
  return Payload::FromString(std::move(bytes));
}

Payload PackIds(const IdSet& set) {
  std::vector<bool> bits;
  for (uint32_t id : set.ToVector()) {
    bits.resize(id + 1);
    bits[id] = true;
  }
  // An empty set is one byte, so that it differs from a payload that is not
  // there.
  return bits.empty() ? Payload::FromString(std::string(1, '\0'))
                      : PackBits(bits);
}

Payload Finish(FlatBufferBuilder& builder) {
  return Payload::FromString(
      std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                  builder.GetSize()));
}

std::vector<fbs::MemberFact> PackMembers(const std::vector<Member>& members) {
  std::vector<fbs::MemberFact> packed;
  for (const Member& member : members)
    packed.emplace_back(member.id, member.session);
  return packed;
}

Payload PackLease(const Lease& lease) {
  FlatBufferBuilder builder;
  const auto members =
      builder.CreateVectorOfStructs(PackMembers(lease.members));
  const auto evaluators =
      builder.CreateVectorOfStructs(PackMembers(lease.evaluators));
  std::vector<fbs::RoundFact> facts;
  for (const RoundFacts& f : lease.facts) {
    facts.emplace_back(f.epoch, f.position, f.samples, f.lr, f.bias1, f.bias2);
  }
  const auto packed_facts = builder.CreateVectorOfStructs(facts);
  std::vector<fbs::MarkFact> marks;
  for (const Mark& mark : lease.marks) {
    marks.emplace_back(static_cast<fbs::MarkKind>(mark.kind), mark.version);
  }
  const auto packed_marks = builder.CreateVectorOfStructs(marks);
  builder.Finish(fbs::CreateLeaseBody(builder, lease.term, lease.from,
                                      lease.until, members, evaluators,
                                      packed_facts, packed_marks));
  return Finish(builder);
}

Payload PackShard(const ShardDoneMessage& m) {
  FlatBufferBuilder builder;
  const auto participants = builder.CreateVector(m.participants);
  std::vector<fbs::ExceptionFact> exceptions;
  for (const auto& e : m.exceptions)
    exceptions.emplace_back(e.worker, e.first_turn, e.last_turn);
  const auto packed_exceptions = builder.CreateVectorOfStructs(exceptions);
  std::vector<fbs::BadFact> bad;
  for (const auto& b : m.bad) bad.emplace_back(b.worker, b.values);
  const auto packed_bad = builder.CreateVectorOfStructs(bad);
  std::vector<fbs::StrikeFact> strikes;
  for (const auto& s : m.strikes)
    strikes.emplace_back(s.worker, static_cast<uint16_t>(s.code), s.count);
  const auto packed_strikes = builder.CreateVectorOfStructs(strikes);
  builder.Finish(fbs::CreateShardBody(builder, participants, packed_exceptions,
                                      packed_bad, m.bad_coordinates,
                                      m.first_bad, m.carried, m.bytes_pushed,
                                      m.bytes_published, packed_strikes));
  return Finish(builder);
}

Payload PackReport(const ShardReportMessage& m) {
  FlatBufferBuilder builder;
  const auto workers = builder.CreateVector(m.workers);
  const auto finite = builder.CreateVector(
      std::vector<uint8_t>(m.finite.begin(), m.finite.end()));
  std::string bytes;
  for (const ExactSum& sum : *m.sums) sum.AppendCompact(&bytes);
  const auto sums = builder.CreateVector(
      reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  builder.Finish(fbs::CreateShardReportBody(builder, workers, finite, sums));
  return Finish(builder);
}

Payload PackDecision(const DecisionMessage& m) {
  FlatBufferBuilder builder;
  const auto workers = builder.CreateVector(m.workers);
  const auto weights = builder.CreateVector(m.weights);
  builder.Finish(fbs::CreateDecisionBody(builder, workers, m.bad, m.rows,
                                         weights, m.op, m.f, m.scale));
  return Finish(builder);
}

// One overload a message: builds its table and says what its payload is.
struct Packer {
  FlatBufferBuilder& b;
  Payload* payload;
  size_t text_limit;

  Offset<String> Text(const std::string& text) const {
    return b.CreateString(text.data(), std::min(text.size(), text_limit));
  }

  Built operator()(const HelloMessage& m) const {
    *payload = m.job.empty() ? Payload() : Payload::FromString(m.job);
    const auto fingerprint = Text(m.fingerprint);
    return Pack(
        fbs::Body::Hello,
        fbs::CreateHello(b, m.protocol, static_cast<fbs::Role>(m.peer.role),
                         m.peer.id, m.link, m.nonce, m.layout_hash, m.samples,
                         fingerprint));
  }
  Built operator()(const WelcomeMessage& m) const {
    return Pack(fbs::Body::Welcome,
                fbs::CreateWelcome(b, m.version, Text(m.snapshot)));
  }
  Built operator()(const RefuseMessage& m) const {
    return Pack(
        fbs::Body::Refuse,
        fbs::CreateRefuse(b, static_cast<uint16_t>(m.code), Text(m.words)));
  }
  Built operator()(const LeaseMessage& m) const {
    *payload = PackLease(m.lease);
    return Pack(fbs::Body::LeaseNote, fbs::CreateLeaseNote(b));
  }
  Built operator()(const PushMessage& m) const {
    *payload = m.data;
    return Pack(fbs::Body::Push,
                fbs::CreatePush(b, m.round, m.chunk, m.samples,
                                static_cast<fbs::DType>(m.dtype), m.scale));
  }
  Built operator()(const AbstainMessage& m) const {
    return Pack(fbs::Body::Abstain, fbs::CreateAbstain(b, m.round));
  }
  Built operator()(const WeightsMessage& m) const {
    *payload = m.data;
    return Pack(fbs::Body::Weights,
                fbs::CreateWeights(b, m.version, m.chunk,
                                   static_cast<fbs::DType>(m.dtype), m.credit));
  }
  Built operator()(const AckMessage& m) const {
    return Pack(
        fbs::Body::Ack,
        fbs::CreateAck(b, m.round, m.chunk,
                       static_cast<fbs::AckStatus>(m.status), m.credit));
  }
  Built operator()(const NeedWeightsMessage& m) const {
    *payload = PackBits(m.locals);
    return Pack(fbs::Body::NeedWeights, fbs::CreateNeedWeights(b, m.version));
  }
  Built operator()(const NeedGradientsMessage& m) const {
    *payload = PackBits(m.locals);
    return Pack(fbs::Body::NeedGradients,
                fbs::CreateNeedGradients(b, m.round, m.credit));
  }
  Built operator()(const RoundDoneMessage& m) const {
    const auto phases = b.CreateVector(m.phases.data(), m.phases.size());
    return Pack(fbs::Body::RoundDone,
                fbs::CreateRoundDone(b, m.round, m.loss_sum, m.correct,
                                     m.samples, phases));
  }
  Built operator()(const PingMessage& m) const {
    return Pack(
        fbs::Body::Ping,
        fbs::CreatePing(b, m.nonce, m.round, static_cast<uint8_t>(m.phase)));
  }
  Built operator()(const PongMessage& m) const {
    return Pack(fbs::Body::Pong, fbs::CreatePong(b, m.nonce, m.version));
  }
  Built operator()(const LeaveMessage& m) const {
    return Pack(fbs::Body::Leave, fbs::CreateLeave(b, Text(m.words)));
  }
  Built operator()(const ByeMessage& m) const {
    return Pack(fbs::Body::Bye, fbs::CreateBye(b, static_cast<uint16_t>(m.code),
                                               Text(m.words)));
  }
  Built operator()(const StoppingMessage& m) const {
    return Pack(fbs::Body::Stopping, fbs::CreateStopping(b, Text(m.words)));
  }
  Built operator()(const LoadMessage& m) const {
    return Pack(fbs::Body::Load,
                fbs::CreateLoad(b, m.version, Text(m.snapshot)));
  }
  Built operator()(const LoadedMessage& m) const {
    return Pack(fbs::Body::Loaded, fbs::CreateLoaded(b, m.ok, Text(m.words)));
  }
  Built operator()(const CompleteMessage& m) const {
    *payload = PackIds(m.workers);
    return Pack(fbs::Body::Complete, fbs::CreateComplete(b, m.round));
  }
  Built operator()(const ShardDoneMessage& m) const {
    *payload = PackShard(m);
    return Pack(fbs::Body::ShardDone, fbs::CreateShardDone(b, m.round));
  }
  Built operator()(const NormMessage& m) const {
    *payload = Payload::FromString(m.squares.Serialize());
    return Pack(fbs::Body::Norm, fbs::CreateNorm(b, m.round));
  }
  Built operator()(const ScaleMessage& m) const {
    return Pack(fbs::Body::Scale, fbs::CreateScale(b, m.round, m.scale));
  }
  Built operator()(const CloseMessage& m) const {
    *payload = PackIds(m.workers);
    return Pack(fbs::Body::Close, fbs::CreateClose(b, m.round));
  }
  Built operator()(const VersionHashMessage& m) const {
    return Pack(fbs::Body::VersionHash,
                fbs::CreateVersionHash(b, m.version, m.master, m.wire));
  }
  Built operator()(const SnapshotDoneMessage& m) const {
    const auto name = Text(m.file.name);
    const auto words = Text(m.words);
    return Pack(fbs::Body::SnapshotDone,
                fbs::CreateSnapshotDone(b, m.version, m.ok, name,
                                        static_cast<uint64_t>(m.file.bytes),
                                        m.file.hash, words));
  }
  Built operator()(const EvalReportMessage& m) const {
    return Pack(fbs::Body::EvalReport,
                fbs::CreateEvalReport(b, m.version, m.loss_sum, m.correct,
                                      m.samples, m.seconds));
  }
  Built operator()(const ShardReportMessage& m) const {
    *payload = PackReport(m);
    return Pack(fbs::Body::ShardReport, fbs::CreateShardReport(b, m.round));
  }
  Built operator()(const DecisionMessage& m) const {
    *payload = PackDecision(m);
    return Pack(fbs::Body::Decision, fbs::CreateDecision(b, m.round));
  }
};

}  // namespace

struct Encoder::Impl {
  FlatBufferBuilder builder{kInitialHeader};
};

Encoder::Encoder() : impl_(std::make_unique<Impl>()) {}
Encoder::~Encoder() = default;

absl::string_view Encoder::Encode(const Message& message, Payload* payload) {
  FlatBufferBuilder& builder = impl_->builder;
  builder.Clear();
  *payload = Payload();
  const auto [type, body] =
      std::visit(Packer{builder, payload, WireLimits().text}, message.body);
  builder.Finish(
      fbs::CreateHeader(builder, message.term, message.session, type, body));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()),
          builder.GetSize()};
}

}  // namespace parapet
