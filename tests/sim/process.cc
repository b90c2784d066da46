#include "tests/sim/process.h"

#include <algorithm>

namespace parapet::sim {
namespace {

// How long the programs' loops wait at most before they look around.
constexpr absl::Duration kLongestPoll = absl::Milliseconds(50);
constexpr absl::Duration kLateWork = absl::Milliseconds(15);

}  // namespace

void Process::Drive(absl::Time now) {
  if (ended_ || now < start_) return;
  last_ = now;
  if (!started_) Start(now);
  started_ = true;
  if (!Finished()) Turn(now);
  if (Finished()) ended_ = now;
}

absl::Time Process::NextTime() const {
  if (ended_ || crashed()) return absl::InfiniteFuture();
  if (!started_) return start_;
  return std::min(NextDeadline(), last_ + kLongestPoll);
}

// ---- A server ---------------------------------------------------------------

ServerProcess::ServerProcess(
    const ServerNodeConfig& config, const Scenario& scenario,
    const Layout& layout, const ShardMap& map, const Device* device, Disk* disk,
    std::unique_ptr<net::Transport> transport, std::shared_ptr<Logger> logger,
    ServerNodeHooks hooks, absl::Time start, std::function<absl::Time()> now)
    : Process(logger->name(), start),
      random_(MixKey(scenario.seed, 100 + config.index)),
      logger_(std::move(logger)),
      transport_(std::move(transport)),
      reducer_(random_.Next64(),
               scenario.late_work ? kLateWork : absl::ZeroDuration(), now),
      writer_(random_.Next64(),
              scenario.late_work ? 10 * kLateWork : absl::ZeroDuration(), now),
      planner_(random_.Next64(),
               scenario.late_work ? 10 * kLateWork : absl::ZeroDuration(),
               now) {
  ServerNodeParts parts{transport_.get(),
                        &reducer_,
                        &writer_,
                        device,
                        disk,
                        logger_.get(),
                        nullptr,
                        [this] { return random_.Next64(); },
                        &planner_,
                        scenario.shard};
  node_ = std::make_unique<ServerNode>(config, layout, map, std::move(parts),
                                       std::move(hooks), start);
}

void ServerProcess::Start(absl::Time now) {
  const auto address = node_->Start(now);
  if (!address.ok()) logger_->error("{}", address.status().ToString());
}

void ServerProcess::Turn(absl::Time now) {
  std::vector<net::Event> events;
  transport_->Poll(absl::ZeroDuration(), &events).IgnoreError();
  for (net::Event& event : events) node_->Handle(std::move(event), now);
  node_->Tick(now);
}

absl::Time ServerProcess::NextDeadline() const {
  return std::min({node_->NextDeadline(), reducer_.NextTime(),
                   writer_.NextTime(), planner_.NextTime()});
}

void ServerProcess::RequestStop(absl::Time now) {
  node_->RequestStop("was asked to stop", now);
}

// ---- A worker or an evaluator -----------------------------------------------

ClientProcess::ClientProcess(const SessionConfig& config,
                             const FakeTrainer::Parts& parts,
                             std::vector<std::string> servers,
                             std::unique_ptr<net::Transport> transport,
                             std::shared_ptr<Logger> logger, absl::Time start)
    : Process(logger->name(), start),
      self_(config.self),
      config_(config),
      map_(*parts.map),
      servers_(std::move(servers)),
      logger_(std::move(logger)),
      transport_(std::move(transport)),
      trainer_(parts, config.self, MixKey(config.nonce, 5)) {}

void ClientProcess::Start(absl::Time now) {
  core_ = std::make_unique<ClientCore>(
      config_, map_, servers_, transport_.get(), &trainer_, logger_.get(), now);
  trainer_.Attach(core_.get());
}

void ClientProcess::Turn(absl::Time now) {
  std::vector<net::Event> events;
  transport_->Poll(absl::ZeroDuration(), &events).IgnoreError();
  for (net::Event& event : events) {
    core_->Handle(std::move(event), now);
    trainer_.Act(now);
  }
  core_->Tick(now);
  trainer_.Act(now);
}

absl::Time ClientProcess::NextDeadline() const {
  return std::min(core_->NextDeadline(), trainer_.NextTime());
}

void ClientProcess::RequestStop(absl::Time now) {
  if (core_ == nullptr || !trainer_.admitted()) return;
  core_->TellLead(StoppingMessage{"was asked to stop"}, now);
}

// ---- A stranger -------------------------------------------------------------

void StrangerProcess::Turn(absl::Time now) {
  if (now < next_) return;
  next_ = now + absl::Milliseconds(20);
  stranger_.Act();
}

}  // namespace parapet::sim
