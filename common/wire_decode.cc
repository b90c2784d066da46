#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/wire.h"
#include "schema/wire_generated.h"

namespace parapet {
namespace {

// A header is three tables deep at most, and has few of them.
constexpr int kMaxDepth = 8;
constexpr int kMaxTables = 16;
constexpr size_t kMaxLink = 255;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

// Copies bytes to storage aligned for any scalar: those of a peer may lie
// anywhere.
class AlignedCopy {
 public:
  AlignedCopy(const void* data, size_t size)
      : words_((size + 7) / 8), size_(size) {
    if (size > 0) std::memcpy(words_.data(), data, size);
  }
  const uint8_t* data() const {
    return reinterpret_cast<const uint8_t*>(words_.data());
  }
  size_t size() const { return size_; }

 private:
  std::vector<uint64_t> words_;
  size_t size_;
};

// Checks the fields of one message and converts it. Every overload gets a
// verified table.
struct Unpacker {
  const WireLimits& limits;
  const Payload& payload;

  absl::StatusOr<std::string> Text(const flatbuffers::String* text) const {
    if (text == nullptr) return std::string();
    if (text->size() > limits.text) return Bad("a text is too long");
    return text->str();
  }

  absl::StatusOr<std::vector<bool>> Bits(int64_t max_bits) const {
    if (payload.size() > static_cast<size_t>((max_bits + 7) / 8))
      return Bad("a bit set is too long");
    std::vector<bool> bits(payload.size() * 8);
    for (size_t i = 0; i < bits.size(); ++i) {
      bits[i] = (std::to_integer<int>(payload.data()[i / 8]) >> (i % 8)) & 1;
    }
    return bits;
  }

  absl::StatusOr<IdSet> Ids() const {
    PARAPET_ASSIGN_OR_RETURN(std::vector<bool> bits,
                             Bits(int64_t{limits.max_id} + 1));
    IdSet set;
    for (uint32_t id = 0; id < bits.size(); ++id) {
      if (bits[id]) set.Insert(id);
    }
    return set;
  }

  absl::StatusOr<DType> Type(fbs::DType type) const {
    if (type > fbs::DType::MAX) return Bad("an unknown element type");
    return static_cast<DType>(type);
  }

  absl::Status NoPayload() const {
    return payload.empty() ? absl::OkStatus() : Bad("a payload too many");
  }

  absl::Status ChunkPayload() const {
    if (payload.empty() || payload.size() > limits.chunk_payload)
      return Bad("a chunk of a wrong size");
    return absl::OkStatus();
  }

  absl::StatusOr<Body> Hello(const fbs::Hello& m) const {
    if (m.role() > fbs::Role::MAX || m.id() > limits.max_id ||
        m.link() > kMaxLink) {
      return Bad("a hello from nobody that can be");
    }
    if (payload.size() > limits.job_text)
      return Bad("a job's text is too long");
    PARAPET_ASSIGN_OR_RETURN(std::string fingerprint, Text(m.fingerprint()));
    return HelloMessage{m.protocol(),
                        {static_cast<Role>(m.role()), m.id()},
                        m.link(),
                        m.nonce(),
                        m.layout_hash(),
                        m.samples(),
                        std::move(fingerprint),
                        payload.ToString()};
  }
  absl::StatusOr<Body> Welcome(const fbs::Welcome& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string snapshot, Text(m.snapshot()));
    return WelcomeMessage{m.version(), std::move(snapshot)};
  }
  absl::StatusOr<Body> Refuse(const fbs::Refuse& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string words, Text(m.words()));
    return RefuseMessage{static_cast<Code>(m.code()), std::move(words)};
  }
  absl::StatusOr<Body> Push(const fbs::Push& m) const {
    PARAPET_RETURN_IF_ERROR(ChunkPayload());
    PARAPET_ASSIGN_OR_RETURN(DType type, Type(m.dtype()));
    if (!(m.scale() > 0) || !std::isfinite(m.scale()) || m.samples() == 0) {
      return Bad("a push with no samples or without a scale");
    }
    return PushMessage{m.round(), m.chunk(), m.samples(),
                       type,      m.scale(), payload};
  }
  absl::StatusOr<Body> Weights(const fbs::Weights& m) const {
    PARAPET_RETURN_IF_ERROR(ChunkPayload());
    PARAPET_ASSIGN_OR_RETURN(DType type, Type(m.dtype()));
    return WeightsMessage{m.version(), m.chunk(), type, m.credit(), payload};
  }
  absl::StatusOr<Body> Ack(const fbs::Ack& m) const {
    if (m.status() > fbs::AckStatus::MAX)
      return Bad("an unknown acknowledgement");
    return AckMessage{m.round(), m.chunk(), static_cast<AckStatus>(m.status()),
                      m.credit()};
  }
  absl::StatusOr<Body> NeedWeights(const fbs::NeedWeights& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::vector<bool> bits, Bits(limits.max_locals));
    return NeedWeightsMessage{m.version(), std::move(bits)};
  }
  absl::StatusOr<Body> NeedGradients(const fbs::NeedGradients& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::vector<bool> bits, Bits(limits.max_locals));
    return NeedGradientsMessage{m.round(), m.credit(), std::move(bits)};
  }
  absl::StatusOr<Body> RoundDone(const fbs::RoundDone& m) const {
    RoundDoneMessage done{
        m.round(), m.loss_sum(), m.correct(), m.samples(), {}};
    if (m.phases() == nullptr || m.phases()->size() != kPhases)
      return Bad("a report without its phases");
    if (!std::isfinite(done.loss_sum)) return Bad("a loss that is no number");
    for (int i = 0; i < kPhases; ++i) {
      const float seconds = m.phases()->Get(i);
      done.phases[i] = std::isfinite(seconds) && seconds >= 0 ? seconds : 0;
    }
    return done;
  }
  absl::StatusOr<Body> Ping(const fbs::Ping& m) const {
    if (m.phase() >= kPhases) return Bad("an unknown phase");
    return PingMessage{m.nonce(), m.round(), static_cast<Phase>(m.phase())};
  }
  absl::StatusOr<Body> Leave(const fbs::Leave& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string words, Text(m.words()));
    return LeaveMessage{std::move(words)};
  }
  absl::StatusOr<Body> Bye(const fbs::Bye& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string words, Text(m.words()));
    return ByeMessage{static_cast<Code>(m.code()), std::move(words)};
  }
  absl::StatusOr<Body> Stopping(const fbs::Stopping& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string words, Text(m.words()));
    return StoppingMessage{std::move(words)};
  }
  absl::StatusOr<Body> Load(const fbs::Load& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string snapshot, Text(m.snapshot()));
    return LoadMessage{m.version(), std::move(snapshot)};
  }
  absl::StatusOr<Body> Loaded(const fbs::Loaded& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string words, Text(m.words()));
    return LoadedMessage{m.ok(), std::move(words)};
  }
  absl::StatusOr<Body> Complete(const fbs::Complete& m) const {
    PARAPET_ASSIGN_OR_RETURN(IdSet ids, Ids());
    return CompleteMessage{m.round(), std::move(ids)};
  }
  absl::StatusOr<Body> Close(const fbs::Close& m) const {
    PARAPET_ASSIGN_OR_RETURN(IdSet ids, Ids());
    return CloseMessage{m.round(), std::move(ids)};
  }
  absl::StatusOr<Body> Norm(const fbs::Norm& m) const {
    PARAPET_ASSIGN_OR_RETURN(ExactSum sum, ExactSum::Parse(payload.bytes()));
    return NormMessage{m.round(), sum};
  }
  absl::StatusOr<Body> Scale(const fbs::Scale& m) const {
    if (!std::isfinite(m.scale()) || m.scale() < 0)
      return Bad("a scale that is not a number");
    return ScaleMessage{m.round(), m.scale()};
  }
  absl::StatusOr<Body> SnapshotDone(const fbs::SnapshotDone& m) const {
    PARAPET_ASSIGN_OR_RETURN(std::string name, Text(m.name()));
    PARAPET_ASSIGN_OR_RETURN(std::string words, Text(m.words()));
    if (m.bytes() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return Bad("a file too long");
    return SnapshotDoneMessage{
        m.version(),
        m.ok(),
        {std::move(name), static_cast<int64_t>(m.bytes()), m.hash()},
        std::move(words)};
  }
  absl::StatusOr<Body> LeaseNote() const;
  absl::StatusOr<Body> ShardDone(const fbs::ShardDone& m) const;
  absl::StatusOr<std::vector<uint32_t>> Compared(
      const flatbuffers::Vector<uint32_t>* ids) const;
  absl::StatusOr<Body> ShardReport(const fbs::ShardReport& m) const;
  absl::StatusOr<Body> Decision(const fbs::Decision& m) const;
  absl::StatusOr<Body> Unpack(const fbs::Header& header) const;
};

template <typename T>
const T* VerifiedRoot(const AlignedCopy& bytes, int max_tables) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), kMaxDepth,
                                 max_tables);
  if (!verifier.VerifyBuffer<T>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<T>(bytes.data());
}

absl::StatusOr<std::vector<Member>> UnpackMembers(
    const flatbuffers::Vector<const fbs::MemberFact*>* facts,
    const WireLimits& limits) {
  std::vector<Member> members;
  if (facts == nullptr) return members;
  for (const fbs::MemberFact* fact : *facts) {
    if (fact->id() > limits.max_id || fact->session() == 0)
      return Bad("a lease with an impossible member");
    if (!members.empty() && fact->id() <= members.back().id)
      return Bad("a lease out of order");
    members.push_back({fact->id(), fact->session()});
  }
  return members;
}

absl::Status UnpackMarks(const fbs::LeaseBody& body, Lease* lease) {
  if (body.marks() == nullptr) return absl::OkStatus();
  for (const fbs::MarkFact* mark : *body.marks()) {
    if (mark->kind() > fbs::MarkKind::MAX)
      return Bad("a lease with an unknown mark");
    if (mark->version() < lease->from || mark->version() > lease->until)
      return Bad("a mark out of its lease");
    lease->marks.push_back(
        {static_cast<Mark::Kind>(mark->kind()), mark->version()});
  }
  return absl::OkStatus();
}

absl::Status UnpackFacts(const fbs::LeaseBody& body, Lease* lease) {
  const size_t count = body.facts() == nullptr ? 0 : body.facts()->size();
  if (count != lease->until - lease->from)
    return Bad("a lease without its rounds' facts");
  for (size_t i = 0; i < count; ++i) {
    const fbs::RoundFact* f =
        body.facts()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (!std::isfinite(f->lr()) || !(f->bias1() > 0) || !(f->bias2() > 0)) {
      return Bad("a lease with an impossible learning rate");
    }
    lease->facts.push_back({f->epoch(), f->position(), f->samples(), f->lr(),
                            f->bias1(), f->bias2()});
  }
  return absl::OkStatus();
}

absl::StatusOr<Body> Unpacker::LeaseNote() const {
  const size_t most =
      1024 + 16 * 2 * (size_t{limits.max_id} + 1) + limits.lease_rounds * 128;
  if (payload.size() > most) return Bad("a lease is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::LeaseBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a lease that is not one");
  Lease lease{body->term(), body->from(), body->until(), {}, {}, {}, {}};
  if (lease.from > lease.until ||
      lease.until - lease.from > limits.lease_rounds) {
    return Bad("a lease over too many rounds");
  }
  PARAPET_ASSIGN_OR_RETURN(lease.members,
                           UnpackMembers(body->members(), limits));
  PARAPET_ASSIGN_OR_RETURN(lease.evaluators,
                           UnpackMembers(body->evaluators(), limits));
  PARAPET_RETURN_IF_ERROR(UnpackFacts(*body, &lease));
  PARAPET_RETURN_IF_ERROR(UnpackMarks(*body, &lease));
  return LeaseMessage{std::move(lease)};
}

// Codes of which a worker can be struck, one after the other.
absl::Status UnpackStrikes(const fbs::ShardBody& body, const WireLimits& limits,
                           ShardDoneMessage* done) {
  if (body.strikes() == nullptr) return absl::OkStatus();
  for (const fbs::StrikeFact* s : *body.strikes()) {
    const auto code = static_cast<Code>(s->code());
    if (s->worker() > limits.max_id || s->count() == 0 || code == Code::kOk ||
        code > Code::kStopped)
      return Bad("an impossible strike");
    if (!done->strikes.empty()) {
      const ShardDoneMessage::Strike& last = done->strikes.back();
      if (std::pair(s->worker(), code) <= std::pair(last.worker, last.code))
        return Bad("strikes out of order");
    }
    done->strikes.push_back({s->worker(), code, s->count()});
  }
  return absl::OkStatus();
}

absl::StatusOr<Body> Unpacker::ShardDone(const fbs::ShardDone& m) const {
  const size_t most = 1024 + 256 * (size_t{limits.max_id} + 1);
  if (payload.size() > most) return Bad("a shard's report is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::ShardBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a shard's report that is not one");
  ShardDoneMessage done;
  done.round = m.round();
  if (body->participants() != nullptr) {
    done.participants.assign(body->participants()->begin(),
                             body->participants()->end());
  }
  for (uint32_t id : done.participants) {
    if (id > limits.max_id) return Bad("an impossible participant");
  }
  if (body->exceptions() != nullptr) {
    for (const fbs::ExceptionFact* e : *body->exceptions()) {
      if (e->worker() > limits.max_id) return Bad("an impossible exception");
      done.exceptions.push_back({e->worker(), e->first_turn(), e->last_turn()});
    }
  }
  if (body->bad() != nullptr) {
    for (const fbs::BadFact* b : *body->bad()) {
      if (b->worker() > limits.max_id) return Bad("an impossible worker");
      done.bad.push_back({b->worker(), b->values()});
    }
  }
  PARAPET_RETURN_IF_ERROR(UnpackStrikes(*body, limits, &done));
  done.bad_coordinates = body->bad_coordinates();
  done.first_bad = body->first_bad();
  done.carried = body->carried();
  done.bytes_pushed = body->bytes_pushed();
  done.bytes_published = body->bytes_published();
  return done;
}

absl::StatusOr<std::vector<uint32_t>> Unpacker::Compared(
    const flatbuffers::Vector<uint32_t>* ids) const {
  std::vector<uint32_t> workers;
  if (ids == nullptr) return workers;
  if (ids->size() > limits.max_compared) return Bad("too many workers");
  for (uint32_t id : *ids) {
    if (id > limits.max_id || (!workers.empty() && id <= workers.back()))
      return Bad("workers that are impossible or out of order");
    workers.push_back(id);
  }
  return workers;
}

// (n + 2) (n + 1) / 2.
size_t Pairs(size_t n) { return (n + 2) * (n + 1) / 2; }

absl::StatusOr<Body> Unpacker::ShardReport(const fbs::ShardReport& m) const {
  // What sums of squares of float32 take, and more.
  constexpr size_t kCompactBytes = 100;
  const size_t most = 1024 + 8 * size_t{limits.max_compared} +
                      kCompactBytes * Pairs(limits.max_compared);
  if (payload.size() > most) return Bad("a report of distances is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::ShardReportBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a report of distances that is not one");
  ShardReportMessage report;
  report.round = m.round();
  PARAPET_ASSIGN_OR_RETURN(report.workers, Compared(body->workers()));
  const size_t n = report.workers.size();
  if ((body->finite() == nullptr ? 0 : body->finite()->size()) != n)
    return Bad("a report of distances without a flag for each worker");
  for (size_t i = 0; i < n; ++i) {
    const uint8_t flag =
        body->finite()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (flag > 1) return Bad("a flag that is none");
    report.finite.push_back(flag == 1);
  }
  absl::Span<const std::byte> rest;
  if (body->sums() != nullptr) {
    rest = {reinterpret_cast<const std::byte*>(body->sums()->data()),
            body->sums()->size()};
  }
  // Each takes two bytes at least: what is short is refused before memory is
  // taken for it.
  if (rest.size() < 2 * Pairs(n)) return Bad("too few distances");
  auto sums = std::make_shared<std::vector<ExactSum>>();
  sums->reserve(Pairs(n));
  for (size_t pair = 0; pair < Pairs(n); ++pair) {
    PARAPET_ASSIGN_OR_RETURN(const ExactSum sum, ExactSum::ReadCompact(&rest));
    sums->push_back(sum);
  }
  if (!rest.empty()) return Bad("too many distances");
  report.sums = std::move(sums);
  return report;
}

absl::StatusOr<Body> Unpacker::Decision(const fbs::Decision& m) const {
  const size_t n = limits.max_compared;
  if (payload.size() > 1024 + 4 * n + 8 * n * (n + 2))
    return Bad("a decision is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::DecisionBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a decision that is not one");
  DecisionMessage decision;
  decision.round = m.round();
  PARAPET_ASSIGN_OR_RETURN(decision.workers, Compared(body->workers()));
  decision.bad = body->bad();
  decision.rows = body->rows();
  const size_t weights =
      body->weights() == nullptr ? 0 : body->weights()->size();
  if (decision.rows > limits.max_compared ||
      weights != decision.rows * (decision.workers.size() + 2))
    return Bad("a decision with other weights than its rows have");
  for (size_t i = 0; i < weights; ++i) {
    const double weight =
        body->weights()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (!std::isfinite(weight)) return Bad("a weight that is not a number");
    decision.weights.push_back(weight);
  }
  if (!std::isfinite(body->scale()))
    return Bad("a decision's scale is not a number");
  decision.op = body->op();
  decision.f = body->f();
  decision.scale = body->scale();
  return decision;
}

absl::StatusOr<Body> Unpacker::Unpack(const fbs::Header& header) const {
  // Messages whose second frame means something check it themselves.
  switch (header.body_type()) {
    case fbs::Body::Hello:
      return Hello(*header.body_as_Hello());
    case fbs::Body::LeaseNote:
      return LeaseNote();
    case fbs::Body::Push:
      return Push(*header.body_as_Push());
    case fbs::Body::Weights:
      return Weights(*header.body_as_Weights());
    case fbs::Body::NeedWeights:
      return NeedWeights(*header.body_as_NeedWeights());
    case fbs::Body::NeedGradients:
      return NeedGradients(*header.body_as_NeedGradients());
    case fbs::Body::Complete:
      return Complete(*header.body_as_Complete());
    case fbs::Body::Close:
      return Close(*header.body_as_Close());
    case fbs::Body::Norm:
      return Norm(*header.body_as_Norm());
    case fbs::Body::ShardDone:
      return ShardDone(*header.body_as_ShardDone());
    case fbs::Body::ShardReport:
      return ShardReport(*header.body_as_ShardReport());
    case fbs::Body::Decision:
      return Decision(*header.body_as_Decision());
    default:
      break;
  }
  PARAPET_RETURN_IF_ERROR(NoPayload());
  switch (header.body_type()) {
    case fbs::Body::Welcome:
      return Welcome(*header.body_as_Welcome());
    case fbs::Body::Refuse:
      return Refuse(*header.body_as_Refuse());
    case fbs::Body::Abstain:
      return AbstainMessage{header.body_as_Abstain()->round()};
    case fbs::Body::Ack:
      return Ack(*header.body_as_Ack());
    case fbs::Body::RoundDone:
      return RoundDone(*header.body_as_RoundDone());
    case fbs::Body::Ping:
      return Ping(*header.body_as_Ping());
    case fbs::Body::Pong:
      return PongMessage{header.body_as_Pong()->nonce(),
                         header.body_as_Pong()->version()};
    case fbs::Body::Leave:
      return Leave(*header.body_as_Leave());
    case fbs::Body::Bye:
      return Bye(*header.body_as_Bye());
    case fbs::Body::Stopping:
      return Stopping(*header.body_as_Stopping());
    case fbs::Body::Load:
      return Load(*header.body_as_Load());
    case fbs::Body::Loaded:
      return Loaded(*header.body_as_Loaded());
    case fbs::Body::Scale:
      return Scale(*header.body_as_Scale());
    case fbs::Body::VersionHash: {
      const auto* m = header.body_as_VersionHash();
      return VersionHashMessage{m->version(), m->master(), m->wire()};
    }
    case fbs::Body::SnapshotDone:
      return SnapshotDone(*header.body_as_SnapshotDone());
    case fbs::Body::EvalReport: {
      const auto* m = header.body_as_EvalReport();
      return EvalReportMessage{m->version(), m->loss_sum(), m->correct(),
                               m->samples(), m->seconds()};
    }
    default:
      return Bad("an unknown kind of message");
  }
}

}  // namespace

absl::StatusOr<Message> Decode(absl::string_view header, const Payload& payload,
                               const WireLimits& limits) {
  if (header.size() < 8 || header.size() > limits.header) {
    return Bad(absl::StrCat("a header of ", header.size(), " bytes"));
  }
  const AlignedCopy bytes(header.data(), header.size());
  const auto* root = VerifiedRoot<fbs::Header>(bytes, kMaxTables);
  if (root == nullptr) return Bad("a header that is not a message");
  if (root->body() == nullptr) return Bad("a message without a body");
  PARAPET_ASSIGN_OR_RETURN(Body body,
                           (Unpacker{limits, payload}.Unpack(*root)));
  return Message{root->term(), root->session(), std::move(body)};
}

}  // namespace parapet
