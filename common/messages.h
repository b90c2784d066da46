#ifndef PARAPET_COMMON_MESSAGES_H_
#define PARAPET_COMMON_MESSAGES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/checkpoint.h"
#include "common/dtype.h"
#include "common/exact_sum.h"
#include "common/lease.h"
#include "common/payload.h"

namespace parapet {

// The messages as plain structs, checked field by field when they came from the
// network. schema/ wire.fbs says what each field means on the wire;
// common/wire.h converts.

enum class Role : uint8_t { kWorker = 0, kEvaluator = 1, kServer = 2 };

// Somebody in the job.
struct Peer {
  Role role = Role::kWorker;
  uint32_t id = 0;
  friend auto operator<=>(const Peer&, const Peer&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Peer& peer) {
    return H::combine(std::move(h), peer.role, peer.id);
  }
};
std::string NameOf(const Peer& peer);  // "worker 3"

// Why a message or a peer was refused, and why a process was sent away. The
// values are part of the protocol; a process that is sent away exits with
// ExitCodeOf.
enum class Code : uint16_t {
  kOk = 0,
  kProtocol =
      1,  // another protocol version, or a message that makes no sense here
  kJobDiffers = 2,    // the job's flags or the model differ
  kAlreadyHere = 3,   // somebody else has this id
  kUnknownPeer = 4,   // no such id in this job
  kWrongSession = 5,  // the token is not (or no longer) valid
  kBadChunk = 6,      // wrong size, type or number of a chunk
  kEquivocation = 7,  // other bytes for a chunk that is still held
  kOverCredit = 8,    // sent more than was allowed
  kBadSamples =
      9,  // claims more samples than the job's batch, or changes its mind
  kLeftOut = 10,    // was left out of three rounds in a row
  kLost = 11,       // a server is lost
  kTooFew = 12,     // too few workers are left for the rule
  kBadRounds = 13,  // too many rounds without a finite result
  kFailed = 14,     // anything else; the words say what
  kStopped = 15,    // the job was asked to stop before it began
};
const char* NameOf(Code code);
int ExitCodeOf(Code code);

// A set of small ids, as a bit for each.
class IdSet {
 public:
  IdSet() = default;
  void Insert(uint32_t id);
  void Erase(uint32_t id);
  bool Contains(uint32_t id) const { return id < bits_.size() && bits_[id]; }
  bool Empty() const;
  int64_t Count() const;
  std::vector<uint32_t> ToVector() const;
  // Keeps what is in both.
  void Intersect(const IdSet& other);
  friend bool operator==(const IdSet& a, const IdSet& b) {
    return a.ToVector() == b.ToVector();
  }

 private:
  std::vector<bool> bits_;
};

IdSet IdsOf(const std::vector<Member>& members);

// Phases of a worker's round, as it reports them.
enum class Phase : uint8_t {
  kWait = 0,
  kData = 1,
  kForward = 2,
  kBackward = 3,
  kPush = 4
};
inline constexpr int kPhases = 5;
const char* NameOf(Phase phase);

struct HelloMessage {
  uint32_t protocol = 0;
  Peer peer;
  uint16_t link = 0;
  uint64_t nonce = 0;
  uint64_t layout_hash = 0;
  uint64_t samples = 0;
  std::string fingerprint;
  std::string job;  // as payload
};
struct WelcomeMessage {
  uint64_t version = 0;
  std::string snapshot;
};
struct RefuseMessage {
  Code code = Code::kFailed;
  std::string words;
};
struct LeaseMessage {
  Lease lease;
};
struct PushMessage {
  uint64_t round = 0;
  uint64_t chunk = 0;
  uint32_t samples = 0;
  DType dtype = DType::kFloat32;
  double scale = 1;
  Payload data;
};
struct AbstainMessage {
  uint64_t round = 0;
};
struct WeightsMessage {
  uint64_t version = 0;
  uint64_t chunk = 0;
  DType dtype = DType::kFloat32;
  uint64_t credit = 0;  // see Round: the first turn that may not be sent yet,
                        // counted over all rounds
  Payload data;
};
enum class AckStatus : uint8_t { kKept = 0, kDuplicate = 1, kLate = 2 };
struct AckMessage {
  uint64_t round = 0;
  uint64_t chunk = 0;
  AckStatus status = AckStatus::kKept;
  uint64_t credit = 0;
};
struct NeedWeightsMessage {
  uint64_t version = 0;
  std::vector<bool> locals;  // of the server's chunks; empty: nothing, the
                             // sender has this version
};
struct NeedGradientsMessage {
  uint64_t round = 0;
  uint64_t credit = 0;
  std::vector<bool> locals;
};
struct RoundDoneMessage {
  uint64_t round = 0;
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t samples = 0;
  std::array<float, kPhases> phases{};  // seconds
};
struct PingMessage {
  uint64_t nonce = 0;
  uint64_t round = 0;
  Phase phase = Phase::kWait;
};
struct PongMessage {
  uint64_t nonce = 0;
  uint64_t version = 0;
};
struct LeaveMessage {
  std::string words;
};
struct ByeMessage {
  Code code = Code::kOk;
  std::string words;
};
struct StoppingMessage {
  std::string words;
};
struct LoadMessage {
  uint64_t version = 0;
  std::string snapshot;
};
struct LoadedMessage {
  bool ok = false;
  std::string words;
};
struct CompleteMessage {
  uint64_t round = 0;
  IdSet workers;
};
struct ShardDoneMessage {
  struct Exception {
    uint32_t worker = 0;
    uint64_t first_turn = 0, last_turn = 0;
  };
  struct Bad {
    uint32_t worker = 0;
    uint64_t values = 0;
  };
  struct Strike {  // how often a worker broke the rules of the protocol
    uint32_t worker = 0;
    Code code = Code::kProtocol;
    uint64_t count = 0;
  };
  uint64_t round = 0;
  std::vector<uint32_t> participants;
  std::vector<Exception> exceptions;
  std::vector<Bad> bad;
  uint64_t bad_coordinates = 0;
  int64_t first_bad = -1;
  bool carried = false;
  uint64_t bytes_pushed = 0, bytes_published = 0;  // of this server so far
  // On this server since it told of the round before, one for each worker and
  // code, in that order.
  std::vector<Strike> strikes;
};
struct NormMessage {
  uint64_t round = 0;
  ExactSum squares;
};
struct ScaleMessage {
  uint64_t round = 0;
  double scale = 1;
};
struct CloseMessage {
  uint64_t round = 0;
  IdSet workers;  // who may still enter the round
};
struct VersionHashMessage {
  uint64_t version = 0;
  uint64_t master = 0;  // of the float32 weights; 0 from a worker
  uint64_t wire = 0;    // of the weights as they were sent
};
struct SnapshotDoneMessage {
  uint64_t version = 0;
  bool ok = false;
  FileEntry file;
  std::string words;
};
struct EvalReportMessage {
  uint64_t version = 0;
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t samples = 0;
  double seconds = 0;
};

struct ShardReportMessage {
  uint64_t round = 0;
  std::vector<uint32_t> workers;  // ascending, n of them
  std::vector<bool> finite;       // of each
  // Squared distances on this shard: of the pairs (0,1), (0,2), ..., of the
  // workers in that order, the previous aggregate and zero. Shared: there are
  // many. Never null.
  std::shared_ptr<const std::vector<ExactSum>> sums =
      std::make_shared<std::vector<ExactSum>>();
};
struct DecisionMessage {
  uint64_t round = 0;
  std::vector<uint32_t> workers;  // ascending, n of them
  bool bad = false;
  uint32_t rows = 0;
  std::vector<double> weights;  // rows x (n + 2), row by row
  uint8_t op = 0;               // rules::CoordinateOp
  uint32_t f = 0;
  double scale = 1;
};

using Body =
    std::variant<HelloMessage, WelcomeMessage, RefuseMessage, LeaseMessage,
                 PushMessage, AbstainMessage, WeightsMessage, AckMessage,
                 NeedWeightsMessage, NeedGradientsMessage, RoundDoneMessage,
                 PingMessage, PongMessage, LeaveMessage, ByeMessage,
                 StoppingMessage, LoadMessage, LoadedMessage, CompleteMessage,
                 ShardDoneMessage, NormMessage, ScaleMessage, CloseMessage,
                 VersionHashMessage, SnapshotDoneMessage, EvalReportMessage,
                 ShardReportMessage, DecisionMessage>;

struct Message {
  uint64_t term = 0;
  uint64_t session = 0;
  Body body;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_MESSAGES_H_
