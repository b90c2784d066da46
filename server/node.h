#ifndef PARAPET_SERVER_NODE_H_
#define PARAPET_SERVER_NODE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/checkpoint.h"
#include "common/clock.h"
#include "common/disk.h"
#include "common/executor.h"
#include "common/job.h"
#include "common/layout.h"
#include "common/log.h"
#include "common/net/transport.h"
#include "common/trace.h"
#include "common/wire.h"
#include "kernels/device.h"
#include "kernels/shard_device.h"
#include "server/lead.h"
#include "server/reduction.h"
#include "server/round.h"
#include "server/rules/chain.h"
#include "server/store.h"

namespace parapet {

struct ServerNodeConfig {
  int index = 0;
  std::string listen;  // where this server listens, e.g. "tcp://127.0.0.1:7001"
  std::string lead;    // where the lead is; not used by the lead itself
  JobConfig job;
  PatienceConfig patience;
  SnapshotConfig snapshot;
  int evaluators = 0;
  uint64_t samples = 0;       // of the training data; see LeadConfig
  uint64_t term = 1;          // lead only
  uint64_t rule_secret = 0;   // lead only: bucketing shuffles by it
  uint64_t nonce = 1;         // names this life of the process
  int64_t credit_window = 0;  // chunks; see RoundConfig
  // Lead only: the snapshot to start from, checked; none for a fresh start.
  std::optional<Snapshot> resume;
};

// What a node uses; all must outlive it.
struct ServerNodeParts {
  net::Transport* transport = nullptr;
  Executor* reducer = nullptr;  // runs reductions
  Executor* writer = nullptr;   // runs what writes to disk
  const Device* device = nullptr;
  Disk* disk = nullptr;
  Logger* logger = nullptr;
  Trace* trace = nullptr;  // may be null
  std::function<uint64_t()> random;
  // Runs the lead's plans, which may take seconds over hundreds of workers:
  // longer than others wait for a ping. Null: the reducer does.
  Executor* planner = nullptr;
  // Where the shard lives. Null: in the host's memory, by `device`.
  const ShardDevice* shard = nullptr;
};

// What a user of the node may want to hear (the lead only).
struct ServerNodeHooks {
  std::function<void(const RoundRecord&)> on_record;
  std::function<void(const EvalReportMessage&, bool last)> on_evaluated;
};

// One server, without its threads: it turns transport events into events of the
// state machines (Round, and Lead in server 0), carries out their effects, and
// does the arithmetic through the executor. The program's loop and the
// simulator both drive it. One thread calls everything.
class ServerNode {
 public:
  // config.job.rule has been checked (CheckRule).
  ServerNode(ServerNodeConfig config, const Layout& layout, const ShardMap& map,
             ServerNodeParts parts, ServerNodeHooks hooks, absl::Time now);
  // Abandons what the reducer and the writer are at.
  ~ServerNode();
  ServerNode(const ServerNode&) = delete;
  ServerNode& operator=(const ServerNode&) = delete;

  // Listens, and connects to the lead. Returns the address it listens at.
  absl::StatusOr<std::string> Start(absl::Time now);
  void Handle(net::Event event, absl::Time now);
  // Calls what is due: deadlines, finished work, pings. Call after every batch
  // of events.
  void Tick(absl::Time now);
  absl::Time NextDeadline() const;
  // SIGTERM, say: asks the lead to stop the job.
  void RequestStop(const std::string& who, absl::Time now);

  struct Outcome {
    Code code = Code::kOk;
    std::string words;
    std::optional<JobSummary> summary;  // lead only
  };
  // Set once the job is over for this server; what it sent may still be on its
  // way.
  const std::optional<Outcome>& outcome() const { return outcome_; }
  std::optional<Lead::Progress> GetProgress(absl::Time now) const;
  uint64_t version() const { return round_ ? round_->version() : 0; }
  // Refusals so far, by code.
  const std::map<Code, uint64_t>& refusals() const { return refusals_; }
  const Store& store() const { return *store_; }

 private:
  // Somebody who connected to us.
  struct Link {
    Peer peer;
    uint16_t link = 0;
    uint64_t session = 0;  // 0: not admitted (yet)
    absl::Time since;
  };
  struct LinkKey {
    Peer peer;
    uint16_t link = 0;
    friend auto operator<=>(const LinkKey&, const LinkKey&) = default;
  };

  bool IsLead() const { return config_.index == 0; }
  void Log(bool warning, const std::string& words);

  // node_peers.cc: connections and who is behind them.
  void OnMessage(net::ConnectionId connection, Message message);
  void OnHello(net::ConnectionId connection, HelloMessage& hello,
               uint64_t token);
  void OnPeerMessage(net::ConnectionId connection, const Link& link,
                     Message& message);
  bool OnRoundMessage(const Link& link, Body& body);
  void OnPush(const Link& link, PushMessage& push);
  void OnNeedWeights(const Link& link, NeedWeightsMessage& need);
  void OnServerMessage(int server, Message& message);
  void Bind(net::ConnectionId connection, const Peer& peer, uint16_t link,
            uint64_t session, const WelcomeMessage& welcome);
  void RetryParked();
  uint64_t SessionOf(const Peer& peer) const;
  void RefuseLink(net::ConnectionId connection, Code code,
                  const std::string& words);
  void Violation(net::ConnectionId connection, Code code,
                 const std::string& words);
  void CountStrike(uint32_t worker, Code code) { ++struck_[{worker, code}]; }
  void Forget(net::ConnectionId connection);
  std::vector<bool> LocalsOn(uint16_t link) const;
  uint16_t LinkOf(int64_t local) const;

  // node_lead_link.cc: a server's connection to the lead.
  void ConnectToLead();
  void OnLeadEvent(net::Event& event);
  void OnLeadMessage(Message& message);
  void OnLoad(const LoadMessage& load);
  void TickLeadLink();
  bool IsOld(const Body& body) const;
  void TellLead(Body body);  // from any server, the lead itself too

  // node_effects.cc: what the machines want done.
  void Feed(Round::Event event);
  void Feed(Lead::Event event);
  void Drain();
  void Begin(uint64_t version);
  void Apply(Round::Reduce& effect);
  void Apply(Round::Measure& effect);
  void Apply(Round::Step& effect);
  void Apply(Round::Carry& effect);
  void Apply(Round::SendWeights& effect);
  void Apply(Round::SendAck& effect);
  void Apply(Round::SendNeed& effect);
  void Apply(Round::Strike& effect);
  void Apply(Round::ReportComplete& effect);
  void Apply(Round::ReportDone& effect);
  void Apply(Round::ReportDistances& effect);
  void Apply(Round::RefuseDecision& effect);
  void Apply(Round::ReportNorm& effect);
  void Apply(Round::TakeSnapshot& effect);
  void Apply(Round::HashVersion& effect);
  void Apply(Round::DropVersion& effect);
  void Apply(Round::Waiting& effect);
  void Apply(Lead::Admit& effect);
  void Apply(Lead::Refuse& effect);
  void Apply(Lead::Tell& effect);
  void Apply(Lead::TellServers& effect);
  void Apply(Lead::TellAll& effect);
  void Apply(Lead::MakePlan& effect);
  void Apply(Lead::CommitIt& effect);
  void Apply(Lead::Log& effect);
  void Apply(Lead::Record& effect);
  void Apply(Lead::Evaluated& effect);
  void Apply(Lead::Finish& effect);
  std::vector<Peer> BoundPeers() const;
  void TellPeer(const Peer& peer, const Body& body);
  void TellSelf(const Body& body);  // the lead to its own shard
  void OnLease(const Lease& lease);
  void OnDecision(const DecisionMessage& decision);

  Executor& Planner() const {
    return parts_.planner != nullptr ? *parts_.planner : *parts_.reducer;
  }

  // node_reduce.cc: the arithmetic.
  struct Work;
  std::vector<Row> RowsOf(const std::vector<Contribution>& contributions) const;
  std::shared_ptr<const rules::Plan> PlanFor(const Round::Reduce& work) const;
  void Run(Work& work) const;
  absl::StatusOr<ReduceReport> RunPlan(const Work& work,
                                       absl::Span<const Row> rows) const;
  absl::Status AddSquares(Work& work) const;
  struct Measured;
  Measured TakeMeasured(int64_t local);
  void DeviceFailed(const absl::Status& status);
  Round::ReducedIn ReducedFrom(const Round::Reduce& work, int64_t local,
                               const ReduceReport& report) const;
  void Send(net::ConnectionId to, uint64_t session, Body body);
  net::ConnectionId ConnectionOf(const Peer& peer, uint16_t link) const;

  const ServerNodeConfig config_;
  const rules::Chain chain_;
  const Layout layout_;
  const ShardMap map_;
  const ServerNodeParts parts_;
  const ServerNodeHooks hooks_;
  WireLimits limits_;
  Encoder encoder_;
  absl::Time now_;
  uint64_t term_ = 0;
  std::optional<Outcome> outcome_;

  const std::unique_ptr<ShardDevice> host_shard_;  // if parts_.shard is null
  const ShardDevice& shard_;
  std::unique_ptr<Store> store_;
  // Rows that were measured and wait for the decision: what the device has kept
  // of them, and copies of those that their senders could still change.
  struct Measured {
    std::shared_ptr<const KeptRows> kept;
    std::vector<Contribution> copies;  // by ascending worker
  };
  absl::flat_hash_map<int64_t, Measured> measured_;  // by chunk
  std::shared_ptr<BufferPool> copies_;  // of a worker's gradient of a chunk
  bool device_failed_ = false;          // and the lead was told
  std::optional<Round> round_;
  std::optional<Lead> lead_;
  std::deque<std::variant<Round::Event, Lead::Event>> queue_;
  std::map<int64_t, ExactSum>
      norms_;  // by local chunk, while a clipped round is being reduced
  std::map<std::pair<uint32_t, Code>, uint64_t>
      struck_;  // workers' violations since the last ShardDone
  std::optional<ShardDistances> distances_;  // while a round is being measured

  absl::flat_hash_map<net::ConnectionId, Link> links_;
  std::map<LinkKey, net::ConnectionId> bound_;
  std::map<Peer, uint64_t> sessions_;  // not the lead: from the newest lease
  absl::flat_hash_map<net::ConnectionId, int> strikes_;
  std::map<net::ConnectionId, uint64_t>
      parked_;  // tokens that no lease has named yet

  // The way to the lead.
  net::ConnectionId lead_connection_ = 0;
  bool lead_ready_ = false;
  uint64_t lead_session_ = 0;
  absl::Time lead_heard_, lead_retry_, next_ping_, next_patience_;
  std::string lead_reason_;  // why the last connection to it was lost
  std::deque<Body> told_;    // told again after a reconnection

  uint64_t bytes_pushed_ = 0, bytes_published_ = 0;
  std::map<Code, uint64_t> refusals_;
};

}  // namespace parapet

#endif  // PARAPET_SERVER_NODE_H_
