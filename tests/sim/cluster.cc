#include "tests/sim/cluster.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job.h"
#include "spdlog/details/null_mutex.h"
#include "spdlog/sinks/base_sink.h"

namespace parapet::sim {
namespace {

// Keeps what is logged, with the virtual time.
class Tape final
    : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  Tape(std::vector<std::string>* lines, const net::SimNetwork* network)
      : lines_(lines), network_(network) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const double at =
        absl::ToDoubleSeconds(network_->Now() - absl::UnixEpoch());
    lines_->push_back(absl::StrCat(
        at, " ",
        std::string(message.logger_name.data(), message.logger_name.size()),
        ": ", std::string(message.payload.data(), message.payload.size())));
  }
  void flush_() override {}

  std::vector<std::string>* const lines_;
  const net::SimNetwork* const network_;
};

std::string ServerName(int index) { return absl::StrCat("server-", index); }
std::string ClientName(const Peer& peer) {
  return absl::StrCat(peer.role == Role::kWorker ? "worker-" : "evaluator-",
                      peer.id);
}
std::string AddressOf(const std::string& name) {
  return absl::StrCat("sim://", name);
}

// How long a process that is over stays on the network.
constexpr absl::Duration kLinger = absl::Seconds(1);
constexpr absl::Duration kLongestServerCut = absl::Milliseconds(1500);

}  // namespace

bool RunResult::Logged(const std::string& text) const {
  return std::any_of(log.begin(), log.end(), [&](const std::string& line) {
    return absl::StrContains(line, text);
  });
}

Cluster::Cluster(const Scenario& scenario, const Device* device, Disk* disk,
                 std::optional<Snapshot> resume, uint64_t term)
    : scenario_(scenario),
      layout_(scenario.MakeLayout()),
      map_(scenario.MakeMap()),
      device_(device),
      disk_(disk),
      resume_(std::move(resume)),
      term_(term),
      random_(MixKey(scenario.seed, 6)),
      network_(scenario.network) {
  next_break_ = Next(scenario_.breaks_per_second);
  next_cut_ = Next(scenario_.cuts_per_second);
  result_.servers.resize(scenario_.job.servers);
}

void Cluster::CrashAfter(const std::string& name, absl::Duration after) {
  crashes_.emplace(Now() + after, name);
}

void Cluster::StopAfter(const std::string& name, absl::Duration after) {
  stops_.emplace(Now() + after, name);
}

RunResult Cluster::Run() {
  for (int s = 0; s < scenario_.job.servers; ++s) StartServer(s);
  for (int w = 0; w < scenario_.job.workers; ++w) {
    StartClient({Role::kWorker, static_cast<uint32_t>(w)});
  }
  for (int e = 0; e < scenario_.job.evaluators; ++e) {
    StartClient({Role::kEvaluator, static_cast<uint32_t>(e)});
  }
  if (scenario_.stranger) {
    Add(std::make_unique<StrangerProcess>(network_.MakeNode("stranger"),
                                          scenario_.job.servers,
                                          random_.Next64(), SoonAfterStart()));
  }
  const absl::Time limit = Now() + scenario_.limit;
  while (!Over() && Now() < limit) {
    network_.RunUntil(NextTime());
    DoFaults();
    DriveAll();
    Bury();
  }
  result_.hung = !Over();
  result_.took = Now() - absl::UnixEpoch();
  for (const auto& [name, process] : processes_) Note(*process);
  processes_.clear();
  return std::move(result_);
}

// ---- Processes --------------------------------------------------------------

absl::Time Cluster::SoonAfterStart() {
  return Now() + absl::Milliseconds(300) * random_.Uniform();
}

void Cluster::Add(std::unique_ptr<Process> process) {
  if (absent_.contains(process->name())) return;
  const std::string name = process->name();
  processes_.emplace(name, std::move(process));
}

std::shared_ptr<Logger> Cluster::LoggerFor(const std::string& name) {
  return std::make_shared<Logger>(
      name, std::make_shared<Tape>(&result_.log, &network_));
}

std::unique_ptr<net::Transport> Cluster::MakeNode(const std::string& name) {
  network_.SetRates(name, scenario_.rates);
  return network_.MakeNode(name);
}

void Cluster::StartServer(int index) {
  ServerNodeConfig config;
  config.index = index;
  config.listen = AddressOf(ServerName(index));
  config.lead = AddressOf(ServerName(0));
  config.job = scenario_.job;
  config.patience = scenario_.patience;
  config.snapshot = scenario_.snapshot;
  config.evaluators = scenario_.job.evaluators;
  config.samples = scenario_.own_samples.empty() ? scenario_.samples : 0;
  config.term = term_;
  config.rule_secret = scenario_.rule_secret;
  config.nonce = random_.Next64();
  config.credit_window = scenario_.credit_window;
  if (index == 0) config.resume = resume_;
  ServerNodeHooks hooks;
  hooks.on_record = [this](const RoundRecord& record) {
    result_.ledger.records.push_back(record);
  };
  std::unique_ptr<net::Transport> transport = MakeNode(ServerName(index));
  if (index == 0 && alter_) {
    transport = std::make_unique<AlteringTransport>(std::move(transport),
                                                    LimitsFor(map_), alter_);
  }
  if (index == scenario_.job.servers - 1 && scenario_.pushes_change) {
    transport = std::make_unique<ChangingTransport>(std::move(transport),
                                                    LimitsFor(map_));
  }
  Add(std::make_unique<ServerProcess>(
      config, scenario_, layout_, map_, device_, disk_, std::move(transport),
      LoggerFor(ServerName(index)), hooks, SoonAfterStart(),
      [this] { return network_.Now(); }));
}

void Cluster::StartClient(const Peer& peer) {
  SessionConfig config;
  config.self = peer;
  config.connections = scenario_.job.connections;
  config.nonce = random_.Next64();
  config.layout_hash = layout_.hash();
  config.samples = scenario_.own_samples.empty() || peer.role != Role::kWorker
                       ? scenario_.samples
                       : scenario_.own_samples[peer.id];
  config.fingerprint = "simulated";
  config.job = scenario_.job.ToText();
  config.wire = scenario_.job.wire;
  if (config.wire == DType::kFloat16) {
    config.wire_scale = scenario_.job.wire_scale;
  }
  config.patience = scenario_.patience;
  std::vector<std::string> servers;
  for (int s = 0; s < scenario_.job.servers; ++s) {
    servers.push_back(AddressOf(ServerName(s)));
  }
  std::unique_ptr<net::Transport> transport = MakeNode(ClientName(peer));
  const auto fault = scenario_.faults.find(peer.id);
  if (peer.role == Role::kWorker && fault != scenario_.faults.end() &&
      fault->second.behaviour == Behaviour::kHostile) {
    transport = std::make_unique<HostileTransport>(
        std::move(transport), scenario_, map_, &result_.ledger, peer.id);
  }
  result_.clients[peer] = std::nullopt;
  Add(std::make_unique<ClientProcess>(
      config,
      FakeTrainer::Parts{&scenario_, &layout_, &map_, device_, disk_,
                         &result_.ledger},
      std::move(servers), std::move(transport), LoggerFor(ClientName(peer)),
      SoonAfterStart()));
}

void Cluster::Note(const Process& process) {
  if (const auto* server = dynamic_cast<const ServerProcess*>(&process)) {
    const int index = std::stoi(process.name().substr(7));
    result_.servers[index] = server->node().outcome();
    for (const auto& [code, count] : server->node().refusals()) {
      result_.refusals[code] += count;
    }
  }
  if (const auto* client = dynamic_cast<const ClientProcess*>(&process)) {
    const auto& finish = client->trainer().finish();
    if (!finish) return;
    result_.clients[client->self()] = {finish->first, finish->second};
  }
}

// ---- The loop ---------------------------------------------------------------

bool Cluster::Over() const {
  return std::none_of(processes_.begin(), processes_.end(), [](const auto& p) {
    return p.second->counts() && !p.second->ended();
  });
}

absl::Time Cluster::NextTime() const {
  absl::Time next = std::min({network_.NextEventTime(), next_break_, next_cut_,
                              stop_at_.value_or(absl::InfiniteFuture())});
  if (!crashes_.empty()) next = std::min(next, crashes_.begin()->first);
  if (!stops_.empty()) next = std::min(next, stops_.begin()->first);
  if (!heals_.empty()) next = std::min(next, heals_.begin()->first);
  for (const auto& [name, process] : processes_) {
    next = std::min(next, process->NextTime());
  }
  return next;
}

// Whoever has something to do, in a random order.
void Cluster::DriveAll() {
  std::vector<std::string> names = network_.ReadyNodes();
  for (const auto& [name, process] : processes_) {
    if (process->NextTime() <= Now()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (size_t i = names.size(); i > 1; --i) {
    std::swap(names[i - 1], names[random_.Below(i)]);
  }
  for (const std::string& name : names) {
    const auto it = processes_.find(name);
    if (it == processes_.end()) continue;
    it->second->Drive(Now());
    if (it->second->crashed()) Crash(name);
  }
}

void Cluster::Crash(const std::string& name) {
  network_.CrashNode(name);
  processes_.erase(name);
}

// Ends the processes that are over: at once, when what they sent last may be
// lost, or later.
void Cluster::Bury() {
  const absl::Duration stay = scenario_.linger ? kLinger : absl::ZeroDuration();
  for (auto it = processes_.begin(); it != processes_.end();) {
    const auto& ended = it->second->ended();
    if (!ended || Now() < *ended + stay) {
      ++it;
      continue;
    }
    Note(*it->second);
    it = processes_.erase(it);
  }
}

// ---- What goes wrong --------------------------------------------------------

absl::Time Cluster::Next(double per_second) {
  if (per_second <= 0) return absl::InfiniteFuture();
  const double wait = -std::log(1 - random_.Uniform()) / per_second;
  return Now() + absl::Seconds(wait);
}

std::string Cluster::SomeProcess() {
  if (processes_.empty()) return "";
  auto it = processes_.begin();
  std::advance(it, random_.Below(processes_.size()));
  return it->first;
}

void Cluster::DoFaults() {
  while (!heals_.empty() && heals_.begin()->first <= Now()) {
    const auto [a, b] = heals_.begin()->second;
    network_.Heal(a, b);
    heals_.erase(heals_.begin());
  }
  while (!crashes_.empty() && crashes_.begin()->first <= Now()) {
    Crash(crashes_.begin()->second);
    crashes_.erase(crashes_.begin());
  }
  while (!stops_.empty() && stops_.begin()->first <= Now()) {
    const auto it = processes_.find(stops_.begin()->second);
    if (it != processes_.end()) it->second->RequestStop(Now());
    stops_.erase(stops_.begin());
  }
  if (Now() >= next_break_) BreakSomething();
  if (Now() >= next_cut_) CutSomething();
  if (!stop_at_ && !result_.ledger.facts.empty()) {
    stop_at_ = Now() + scenario_.stop_after;
  }
  if (stop_at_ && Now() >= *stop_at_) AskSomeToStop();
}

void Cluster::BreakSomething() {
  next_break_ = Next(scenario_.breaks_per_second);
  if (random_.Below(4) > 0) {
    network_.BreakRandomConnection();
  } else {
    network_.BreakConnections(SomeProcess(), SomeProcess());
  }
}

void Cluster::CutSomething() {
  next_cut_ = Next(scenario_.cuts_per_second);
  const std::string a = SomeProcess();
  const std::string b =
      ServerName(static_cast<int>(random_.Below(scenario_.job.servers)));
  network_.Partition(a, b,
                     random_.Below(2) == 0 ? net::SimNetwork::Cut::kHold
                                           : net::SimNetwork::Cut::kBreak);
  // A server that is out of reach for long ends the job.
  const bool servers = absl::StartsWith(a, "server-");
  const absl::Duration longest =
      servers ? std::min(scenario_.longest_cut, kLongestServerCut)
              : scenario_.longest_cut;
  heals_.emplace(Now() + longest * random_.Uniform(), std::pair(a, b));
}

void Cluster::AskSomeToStop() {
  stop_at_ = absl::InfiniteFuture();
  for (int i = 0; i < scenario_.stop_requests; ++i) {
    StopAfter(SomeProcess(), absl::Milliseconds(100) * random_.Uniform());
  }
}

}  // namespace parapet::sim
