#include "worker/client_core.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace parapet {

ClientCore::ClientCore(const SessionConfig& config, const ShardMap& map,
                       std::vector<std::string> servers,
                       net::Transport* transport, ClientObserver* observer,
                       Logger* logger, absl::Time now)
    : servers_(std::move(servers)),
      transport_(transport),
      observer_(observer),
      logger_(logger),
      limits_(LimitsFor(map)),
      session_(config, map, now),
      now_(now) {}

void ClientCore::Handle(net::Event event, absl::Time now) {
  auto it = keys_.find(event.connection);
  if (it == keys_.end()) return;
  const Session::LinkKey key = it->second;
  switch (event.kind) {
    case net::Event::Kind::kUp:
      return Run(Session::UpIn{key}, now);
    case net::Event::Kind::kDown:
      keys_.erase(it);
      connections_.erase(key);
      observer_->OnLost(key, event.reason);
      return Run(Session::DownIn{key, event.reason}, now);
    case net::Event::Kind::kMessage: {
      absl::StatusOr<Message> message =
          Decode(event.header, event.payload, limits_);
      if (message.ok()) {
        observer_->OnMessage(*message);
        return Run(Session::MessageIn{key, *std::move(message)}, now);
      }
      logger_->warn("from server {}: {}", key.server,
                    std::string(message.status().message()));
      return;
    }
  }
}

void ClientCore::Tick(absl::Time now) {
  if (now >= session_.NextDeadline()) Run(Session::TickIn{}, now);
}

void ClientCore::ChunkReady(uint64_t round, int64_t chunk, uint32_t samples,
                            Payload data, absl::Time now) {
  Run(Session::ChunkReadyIn{round, chunk, samples, std::move(data)}, now);
}

void ClientCore::Abstain(uint64_t round, absl::Time now) {
  Run(Session::AbstainIn{round}, now);
}

void ClientCore::PushAsIs(PushMessage push, absl::Time now) {
  Run(Session::PushAsIsIn{std::move(push)}, now);
}

void ClientCore::TellLead(Body body, absl::Time now) {
  Run(Session::TellLeadIn{std::move(body)}, now);
}

void ClientCore::SetPhase(uint64_t round, Phase phase, absl::Time now) {
  Run(Session::PhaseIn{round, phase}, now);
}

void ClientCore::Run(Session::Event event, absl::Time now) {
  now_ = now;
  later_.push_back(std::move(event));
  // Effects can lead to further events (a connection that cannot be made, a
  // hash that was asked for).
  for (size_t i = 0; i < later_.size(); ++i) {
    Session::Event next = std::move(later_[i]);
    for (Session::Effect& effect : session_.Handle(std::move(next), now)) {
      std::visit([this](auto& e) { Apply(e); }, effect);
    }
  }
  later_.clear();
}

void ClientCore::Apply(Session::Connect& effect) {
  absl::StatusOr<net::ConnectionId> connection =
      transport_->Connect(servers_[effect.link.server]);
  if (!connection.ok()) {
    later_.push_back(Session::DownIn{
        effect.link, std::string(connection.status().message())});
    return;
  }
  connections_[effect.link] = *connection;
  keys_[*connection] = effect.link;
}

void ClientCore::Apply(Session::Close& effect) {
  auto it = connections_.find(effect.link);
  if (it == connections_.end()) return;
  transport_->Close(it->second);
  keys_.erase(it->second);
  connections_.erase(it);
}

void ClientCore::Apply(Session::Send& effect) {
  auto it = connections_.find(effect.link);
  if (it == connections_.end()) return;
  Payload payload;
  const absl::string_view header = encoder_.Encode(effect.message, &payload);
  const absl::Status status =
      transport_->Send(it->second, header, std::move(payload));
  if (status.ok()) return;
  Session::Close close{effect.link};
  Apply(close);
  later_.push_back(Session::DownIn{effect.link, std::string(status.message())});
}

void ClientCore::Apply(Session::Admitted& effect) {
  observer_->OnAdmitted(effect.version, effect.snapshot);
}

void ClientCore::Apply(Session::NewLease& effect) {
  observer_->OnLease(effect.lease);
}

void ClientCore::Apply(Session::NewVersion& effect) {
  observer_->OnVersion(effect.version);
}

void ClientCore::Apply(Session::NewChunk& effect) {
  observer_->OnChunk(effect.version, effect.chunk, std::move(effect.data));
}

void ClientCore::Apply(Session::HashVersion& effect) {
  later_.push_back(Session::TellLeadIn{VersionHashMessage{
      effect.version, 0, observer_->HashOf(effect.version)}});
}

void ClientCore::Apply(Session::Log& effect) {
  logger_->log(effect.warning ? spdlog::level::warn : spdlog::level::info, "{}",
               effect.words);
}

void ClientCore::Apply(Session::Finish& effect) {
  observer_->OnFinish(effect.code, effect.words);
}

}  // namespace parapet
