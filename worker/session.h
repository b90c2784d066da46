#ifndef PARAPET_WORKER_SESSION_H_
#define PARAPET_WORKER_SESSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/job.h"
#include "common/layout.h"
#include "common/messages.h"

namespace parapet {

struct SessionConfig {
  Peer self;            // a worker or an evaluator
  int connections = 1;  // data links to each server
  uint64_t nonce = 1;   // names this life of the process
  uint64_t layout_hash = 0;
  uint64_t samples = 0;
  std::string fingerprint;
  std::string job;  // JobConfig::ToText
  DType wire = DType::kFloat32;
  double wire_scale = 1;  // of pushed gradients
  PatienceConfig patience;
};

// One worker's (or evaluator's) side of the protocol, as a pure state machine:
// it joins, keeps its links to every server, receives versions, pushes
// gradients in the canonical order within its credit, and after a broken link
// sends what the server still needs and asks for what it lacks itself. It holds
// payloads without reading them. See docs/architecture.md.
//
// Link 0 to a server is for control, links 1..K for chunks: chunk c travels on
// link 1 + c mod K. Not thread-safe. Time is whatever the caller says.
class Session {
 public:
  struct LinkKey {
    int server = 0;
    uint16_t link = 0;
    friend auto operator<=>(const LinkKey&, const LinkKey&) = default;
  };

  // Events.
  struct UpIn {
    LinkKey link;
  };
  struct DownIn {
    LinkKey link;
    std::string reason;
  };
  struct MessageIn {
    LinkKey link;
    Message message;
  };
  struct ChunkReadyIn {  // the gradient of a chunk is final
    uint64_t round = 0;
    int64_t chunk = 0;
    uint32_t samples = 0;
    Payload data;  // as the wire wants it; kept until the round is over
  };
  struct AbstainIn {  // this worker has nothing for the round
    uint64_t round = 0;
  };
  struct PushAsIsIn {  // by an attacker: sent at once if there is a link, and
                       // forgotten
    PushMessage push;
  };
  struct TellLeadIn {  // RoundDone, EvalReport, SnapshotDone, VersionHash,
                       // Stopping or Leave
    Body body;
  };
  struct PhaseIn {  // for the pings
    uint64_t round = 0;
    Phase phase = Phase::kWait;
  };
  struct TickIn {};
  using Event = std::variant<UpIn, DownIn, MessageIn, ChunkReadyIn, AbstainIn,
                             PushAsIsIn, TellLeadIn, PhaseIn, TickIn>;

  // Effects.
  struct Connect {
    LinkKey link;
  };
  struct Close {
    LinkKey link;
  };
  struct Send {
    LinkKey link;
    Message message;
  };
  struct Admitted {
    uint64_t version = 0;
    std::string snapshot;
  };
  struct NewLease {
    Lease lease;
  };
  struct NewVersion {  // chunks that follow are of this version; what was
                       // before is not completed
    uint64_t version = 0;
  };
  struct NewChunk {
    uint64_t version = 0;
    int64_t chunk = 0;
    Payload data;
  };
  struct HashVersion {  // the version is whole: tell the lead its hash
    uint64_t version = 0;
  };
  struct Log {
    bool warning = false;
    std::string words;
  };
  struct Finish {  // the job is over for this process
    Code code = Code::kOk;
    std::string words;
  };
  using Effect = std::variant<Connect, Close, Send, Admitted, NewLease,
                              NewVersion, NewChunk, HashVersion, Log, Finish>;

  Session(const SessionConfig& config, const ShardMap& map, absl::Time now);

  std::vector<Effect> Handle(Event event, absl::Time now);
  absl::Time NextDeadline() const { return next_tick_; }
  bool finished() const { return finished_; }
  // The lead has been asked to take it in, and has not answered yet.
  bool asks_lead() const;
  // The version being received, or held whole.
  uint64_t version() const { return version_; }
  bool complete() const { return admitted_ && missing_ == 0; }
  uint64_t bytes_pushed() const { return bytes_pushed_; }

 private:
  enum class LinkState { kDown, kConnecting, kHello, kWelcome, kReady };
  struct Link {
    LinkState state = LinkState::kDown;
    absl::Time heard, retry;
    int failures = 0;
    std::string reason;  // why it is down
  };

  void On(UpIn& event);
  void On(DownIn& event);
  void On(MessageIn& event);
  void On(ChunkReadyIn& event);
  void On(AbstainIn& event);
  void On(PushAsIsIn& event);
  void On(TellLeadIn& event);
  void On(PhaseIn& event);
  void On(TickIn& event);

  void OnWelcome(const LinkKey& key, Message& message);
  void OnRefuse(const LinkKey& key, const RefuseMessage& refuse);
  void OnBye(const ByeMessage& bye);
  bool AtTheEnd() const;
  void OnLease(Lease& lease);
  void OnWeights(int server, WeightsMessage& weights);
  void OnNeedGradients(const LinkKey& key, const NeedGradientsMessage& need);
  void BeginVersion(uint64_t version);
  void CheckMarks();
  void AskForWeights(const LinkKey& key);
  void BeginPushing(uint64_t round);
  void Pump(int server);
  void SendAbstain(int server);
  void OpenLink(const LinkKey& key, Link& link);
  void DropLink(const LinkKey& key, const std::string& reason);
  void TickLinks();
  void TickPings();
  void TickPatience();
  bool CheckLost();
  void SendTo(const LinkKey& key, Body body);
  void End(Code code, const std::string& words);
  bool IsReady(const LinkKey& key) const;
  uint16_t LinkOf(int64_t chunk) const {
    return static_cast<uint16_t>(1 + chunk % config_.connections);
  }
  bool IsWorker() const { return config_.self.role == Role::kWorker; }

  const SessionConfig config_;
  const ShardMap map_;
  absl::Time now_;
  absl::Time next_tick_, next_ping_, next_patience_, began_, last_news_;
  std::vector<Effect> effects_;
  bool admitted_ = false, finished_ = false;
  uint64_t term_ = 0, session_ = 0;
  std::map<LinkKey, Link> links_;
  std::deque<Body> told_;     // to the lead, the last ones
  std::vector<Body> untold_;  // for the lead, while its link is down
  std::vector<Lease> leases_;
  PingMessage ping_;

  // Receiving.
  uint64_t version_ = 0;
  std::vector<bool> received_;
  int64_t missing_ = 0;
  std::optional<uint64_t> hashed_;

  // Pushing.
  std::optional<uint64_t> round_;
  bool abstained_ = false;
  uint32_t samples_ = 0;
  std::vector<Payload> outgoing_;
  std::vector<bool> ready_, sent_;
  std::vector<int64_t> first_unsent_;  // by server: its turn
  std::vector<uint64_t> credit_;       // by server
  uint64_t bytes_pushed_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_WORKER_SESSION_H_
