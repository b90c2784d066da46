#ifndef PARAPET_COMMON_WIRE_UNPACK_H_
#define PARAPET_COMMON_WIRE_UNPACK_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/wire.h"
#include "schema/wire_generated.h"

// The parts of Decode; see common/wire.h.
namespace parapet::wire_internal {

// A header is three tables deep at most, and has few of them.
inline constexpr int kMaxDepth = 8;
inline constexpr int kMaxTables = 16;
inline constexpr size_t kMaxLink = 255;

inline absl::Status Bad(absl::string_view what) {
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

// Whether elements of a vector lie where their type must not: the verifier
// looks at where a vector begins, not at its elements. Where an empty vector's
// would lie says nothing, as builders do not align them.
template <typename T>
bool Misplaced(const flatbuffers::Vector<T>* vector) {
  constexpr size_t kAlignment = alignof(std::remove_pointer_t<T>);
  return vector != nullptr && vector->size() > 0 &&
         reinterpret_cast<uintptr_t>(vector->Data()) % kAlignment != 0;
}

template <typename... T>
absl::Status CheckPlaces(const flatbuffers::Vector<T>*... vectors) {
  if ((Misplaced(vectors) || ...)) return Bad("a list that is not aligned");
  return absl::OkStatus();
}

}  // namespace parapet::wire_internal

#endif  // PARAPET_COMMON_WIRE_UNPACK_H_
