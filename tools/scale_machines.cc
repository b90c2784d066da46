#include "tools/scale_machines.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/layout.h"
#include "common/log.h"
#include "common/memory_disk.h"
#include "common/net/sim_transport.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "server/node.h"
#include "tools/timed_shard.h"
#include "worker/client_core.h"

namespace parapet {
namespace {

// Longer than any simulated round: nobody is ever given up or pinged.
constexpr absl::Duration kEver = absl::Hours(24 * 365 * 100);
constexpr uint64_t kSamples = uint64_t{1} << 40;
constexpr int kMostRounds = 1 << 20;

std::string ServerName(int index) { return absl::StrCat("server-", index); }
std::string WorkerName(int index) { return absl::StrCat("worker-", index); }
std::string AddressOf(const std::string& name) {
  return absl::StrCat("sim://", name);
}

PatienceConfig NoHurry() {
  PatienceConfig patience;
  patience.patience = patience.start_timeout = patience.dead_after = kEver;
  patience.ping_every = patience.round_deadline = kEver;
  return patience;
}

JobConfig Completed(JobConfig job) {
  job.rounds = kMostRounds;
  job.train_samples = static_cast<int64_t>(kSamples);
  job.batch = 1;
  job.hash_every = 0;
  return job;
}

net::SimOptions Delays(const PlanHosts& hosts) {
  net::SimOptions options;
  options.min_delay = options.max_delay = absl::Seconds(hosts.latency);
  options.connect_timeout = kEver;
  return options;
}

// What all machines share.
struct Setting {
  JobConfig job;
  Layout layout;
  ShardMap map;
  PlanHosts hosts;
  net::SimNetwork network;
  std::shared_ptr<Logger> logger;
  std::unique_ptr<Device> device;
  MemoryDisk disk{};
  Random random{1};
  Payload zeros{};  // a chunk's

  absl::Time Now() const { return network.Now(); }
};

// A process of the job: what its program's loop does around the state machines.
class Machine {
 public:
  virtual ~Machine() = default;
  // Takes what has arrived, and does what is due.
  virtual void Drive() = 0;
  virtual absl::Time NextTime() const { return absl::InfiniteFuture(); }

 protected:
  Machine(Setting* setting, const std::string& name, double rate)
      : setting_(setting), transport_(setting->network.MakeNode(name)) {
    setting->network.SetRates(name, {.out = rate, .in = rate});
  }
  template <class Part>
  void HandleAll(Part* part) {
    events_.clear();
    while (true) {
      transport_->Poll(absl::ZeroDuration(), &events_).IgnoreError();
      if (events_.empty()) return;
      for (net::Event& event : std::exchange(events_, {}))
        part->Handle(std::move(event), setting_->Now());
    }
  }

  Setting* const setting_;
  const std::unique_ptr<net::Transport> transport_;

 private:
  std::vector<net::Event> events_;
};

// ---- A server ---------------------------------------------------------------

class ServerMachine final : public Machine {
 public:
  ServerMachine(Setting* setting, int index)
      : Machine(setting, ServerName(index), setting->hosts.server_link),
        shard_(BytesOfChunk(*setting), setting->hosts.memory_bandwidth),
        executor_(&shard_, [setting] { return setting->Now(); }),
        node_(ConfigOf(*setting, index), setting->layout, setting->map,
              PartsOf(setting), {}, setting->Now()) {}

  absl::Status Start() { return node_.Start(setting_->Now()).status(); }
  const std::optional<ServerNode::Outcome>& outcome() const {
    return node_.outcome();
  }

  void Drive() override {
    HandleAll(&node_);
    // Nothing else that a tick looks at can happen here.
    if (NextTime() <= setting_->Now()) node_.Tick(setting_->Now());
  }
  absl::Time NextTime() const override {
    return std::min(node_.NextDeadline(), executor_.NextTime());
  }

 private:
  static size_t BytesOfChunk(const Setting& setting) {
    return static_cast<size_t>(
               std::min(setting.map.chunk_elements(), setting.map.elements())) *
           sizeof(float);
  }
  static ServerNodeConfig ConfigOf(const Setting& setting, int index) {
    ServerNodeConfig config;
    config.index = index;
    config.listen = AddressOf(ServerName(index));
    config.lead = AddressOf(ServerName(0));
    config.job = setting.job;
    config.patience = NoHurry();
    config.samples = kSamples;
    config.nonce = static_cast<uint64_t>(index) + 1;
    return config;
  }
  ServerNodeParts PartsOf(Setting* setting) {
    return {transport_.get(), &executor_,
            &executor_,       setting->device.get(),
            &setting->disk,   setting->logger.get(),
            nullptr,          [setting] { return setting->random.Next64(); },
            nullptr,          &shard_};
  }

  const TimedShard shard_;
  TimedExecutor executor_;
  ServerNode node_;
};

// ---- A worker ---------------------------------------------------------------

// Pushes zeros.
class WorkerMachine final : public Machine, public ClientObserver {
 public:
  WorkerMachine(Setting* setting, int id,
                const std::vector<std::string>& servers)
      : Machine(setting, WorkerName(id), setting->hosts.worker_link),
        core_(ConfigOf(*setting, id), setting->map, servers, transport_.get(),
              this, setting->logger.get(), setting->Now()) {
    core_.Tick(setting->Now());
  }

  // Ticks are for what is lost, and nothing is.
  void Drive() override { HandleAll(&core_); }

  // Can begin this round.
  bool IsReadyFor(uint64_t round) const {
    return version_ == round && present_ == setting_->map.chunks() &&
           leased_until_ > round;
  }
  void Push(uint64_t round) {
    const ShardMap& map = setting_->map;
    for (int64_t chunk = map.chunks() - 1; chunk >= 0; --chunk) {
      const auto bytes = static_cast<size_t>(map.ChunkRange(chunk).size() *
                                             SizeOf(setting_->job.wire));
      core_.ChunkReady(
          round, chunk, 1,
          Payload(setting_->zeros.owner(), setting_->zeros.data(), bytes),
          setting_->Now());
    }
    core_.TellLead(RoundDoneMessage{round, 0, 1, 1, {}}, setting_->Now());
  }
  const std::string& end() const { return end_; }

 private:
  static SessionConfig ConfigOf(const Setting& setting, int id) {
    SessionConfig config;
    config.self = {Role::kWorker, static_cast<uint32_t>(id)};
    config.connections = setting.job.connections;
    config.nonce = static_cast<uint64_t>(id) + 1;
    config.layout_hash = setting.layout.hash();
    config.samples = kSamples;
    config.job = setting.job.ToText();
    config.wire = setting.job.wire;
    if (config.wire == DType::kFloat16)
      config.wire_scale = setting.job.wire_scale;
    config.patience = NoHurry();
    return config;
  }
  void OnAdmitted(uint64_t, const std::string&) override {}
  void OnLease(const Lease& lease) override {
    leased_until_ = std::max(leased_until_, lease.until);
  }
  void OnVersion(uint64_t version) override {
    version_ = version;
    present_ = 0;
  }
  void OnChunk(uint64_t, int64_t, Payload) override { ++present_; }
  uint64_t HashOf(uint64_t) override { return 0; }
  void OnFinish(Code, const std::string& words) override { end_ = words; }

  ClientCore core_;
  uint64_t version_ = 0, leased_until_ = 0;
  int64_t present_ = 0;
  std::string end_;  // why it ended; empty: it has not
};

// ---- All of them ------------------------------------------------------------

class Machines {
 public:
  explicit Machines(Setting* setting) : setting_(setting) {}

  absl::Status Start() {
    std::vector<std::string> addresses;
    for (int s = 0; s < setting_->job.servers; ++s) {
      servers_.push_back(std::make_unique<ServerMachine>(setting_, s));
      PARAPET_RETURN_IF_ERROR(servers_.back()->Start());
      Add(ServerName(s), servers_.back().get());
      addresses.push_back(AddressOf(ServerName(s)));
    }
    for (int w = 0; w < setting_->job.workers; ++w) {
      workers_.push_back(
          std::make_unique<WorkerMachine>(setting_, w, addresses));
      Add(WorkerName(w), workers_.back().get());
    }
    return absl::OkStatus();
  }

  // Goes on until every worker can begin a round.
  absl::Status RunUntilReadyFor(uint64_t round) {
    for (size_t ready = 0; ready < workers_.size();) {
      while (ready < workers_.size() && workers_[ready]->IsReadyFor(round))
        ++ready;
      if (ready == workers_.size()) break;
      PARAPET_RETURN_IF_ERROR(Step(round));
    }
    return absl::OkStatus();
  }
  void PushAll(uint64_t round) {
    for (const auto& worker : workers_) worker->Push(round);
  }

 private:
  struct Entry {
    Machine* machine = nullptr;
    absl::Time next = absl::InfiniteFuture();
  };

  void Add(const std::string& name, Machine* machine) {
    Entry& entry = entries_[name];
    entry.machine = machine;
    Remind(name, &entry);
  }
  void Remind(const std::string& name, Entry* entry) {
    const absl::Time next = entry->machine->NextTime();
    if (next == entry->next) return;
    agenda_.erase({entry->next, name});
    entry->next = next;
    if (next != absl::InfiniteFuture()) agenda_.emplace(next, name);
  }
  void Drive(const std::string& name) {
    Entry& entry = entries_[name];
    entry.machine->Drive();
    Remind(name, &entry);
  }

  // To the next moment at which something happens.
  absl::Status Step(uint64_t round) {
    absl::Time next = setting_->network.NextEventTime();
    if (!agenda_.empty()) next = std::min(next, agenda_.begin()->first);
    if (next >= setting_->Now() + kEver / 2) return Stuck(round);
    setting_->network.RunUntil(next);
    for (const std::string& name : setting_->network.ReadyNodes()) Drive(name);
    while (!agenda_.empty() && agenda_.begin()->first <= setting_->Now())
      Drive(std::string(agenda_.begin()->second));
    return absl::OkStatus();
  }
  absl::Status Stuck(uint64_t round) const {
    std::string why = "nothing happens any more";
    for (const auto& server : servers_) {
      if (server->outcome()) why = server->outcome()->words;
    }
    for (const auto& worker : workers_) {
      if (!worker->end().empty()) why = worker->end();
    }
    return absl::InternalError(
        absl::StrCat("the simulated job ends before round ", round, ": ", why));
  }

  Setting* const setting_;
  std::vector<std::unique_ptr<ServerMachine>> servers_;
  std::vector<std::unique_ptr<WorkerMachine>> workers_;
  absl::flat_hash_map<std::string, Entry> entries_;
  std::set<std::pair<absl::Time, std::string>> agenda_;
};

absl::StatusOr<std::unique_ptr<Setting>> MakeSetting(const JobConfig& job,
                                                     int64_t parameters,
                                                     const PlanHosts& hosts) {
  PARAPET_ASSIGN_OR_RETURN(Layout layout,
                           Layout::Create({{"flat", {parameters}, {}}}));
  PARAPET_ASSIGN_OR_RETURN(
      const ShardMap map,
      ShardMap::Create(parameters, job.servers, job.chunk, job.leaf));
  std::unique_ptr<Setting> setting(new Setting{
      Completed(job), std::move(layout), map, hosts,
      net::SimNetwork(Delays(hosts)), MakeNullLogger(), MakeCpuDevice()});
  setting->zeros = Payload::FromString(std::string(
      static_cast<size_t>(map.chunk_elements() * SizeOf(job.wire)), '\0'));
  return setting;
}

}  // namespace

int64_t MachineMessages(const PlanJob& job) {
  const absl::StatusOr<PlanShape> shape = ShapeOf(job);
  if (!shape.ok()) return 0;
  const int64_t links = int64_t{job.servers} * (1 + job.connections);
  // Weights before the round, gradients and weights of it; what a link takes
  // until it is there.
  const int64_t messages = job.workers * (3 * shape->chunks + 5 * links);
  const int64_t pairs = PairCount(job.workers) * job.servers;
  return messages + (job.distances ? pairs : 0);
}

absl::StatusOr<std::vector<double>> RunMachines(const JobConfig& job,
                                                int64_t parameters,
                                                const PlanHosts& hosts,
                                                int rounds) {
  PARAPET_ASSIGN_OR_RETURN(const std::unique_ptr<Setting> setting,
                           MakeSetting(job, parameters, hosts));
  Machines machines(setting.get());
  PARAPET_RETURN_IF_ERROR(machines.Start());
  PARAPET_RETURN_IF_ERROR(machines.RunUntilReadyFor(0));
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const absl::Time began = setting->Now();
    machines.PushAll(static_cast<uint64_t>(round));
    PARAPET_RETURN_IF_ERROR(
        machines.RunUntilReadyFor(static_cast<uint64_t>(round) + 1));
    seconds.push_back(absl::ToDoubleSeconds(setting->Now() - began));
  }
  return seconds;
}

}  // namespace parapet
