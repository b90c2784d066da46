#include "server/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

LeadConfig MakeLeadConfig(const ServerNodeConfig& config, const Layout& layout,
                          const ShardMap& map) {
  LeadConfig lead;
  lead.job = config.job;
  lead.patience = config.patience;
  lead.snapshot = config.snapshot;
  lead.evaluators = config.evaluators;
  lead.layout_hash = layout.hash();
  lead.samples = config.samples;
  for (int s = 0; s < map.servers(); ++s)
    lead.shard_chunks.push_back(map.ChunksOf(s));
  lead.term = config.term;
  if (config.resume) {
    lead.version = config.resume->manifest.version;
    lead.epoch = config.resume->manifest.epoch;
    lead.position = config.resume->manifest.position;
    lead.resume_from = config.resume->path;
  }
  lead.describe = [layout](int64_t element) {
    return layout.Describe(element);
  };
  return lead;
}

}  // namespace

ServerNode::ServerNode(ServerNodeConfig config, const Layout& layout,
                       const ShardMap& map, ServerNodeParts parts,
                       ServerNodeHooks hooks, absl::Time now)
    : config_(std::move(config)),
      chain_(rules::Chain::Parse(config_.job.rule).value()),
      layout_(layout),
      map_(map),
      parts_(std::move(parts)),
      hooks_(std::move(hooks)),
      limits_(LimitsFor(map)),
      now_(now),
      host_shard_(parts_.shard != nullptr
                      ? nullptr
                      : MakeHostShardDevice(*parts_.device)),
      shard_(parts_.shard != nullptr ? *parts_.shard : *host_shard_),
      lead_heard_(now),
      lead_retry_(now),
      next_ping_(now),
      next_patience_(now + config_.patience.patience) {
  store_ = std::make_unique<Store>(
      map_, config_.index, config_.job.optimizer, config_.job.wire, shard_,
      chain_.needs_previous(), [transport = parts_.transport](size_t bytes) {
        return transport->Allocate(bytes);
      });
  const int64_t largest = std::min(map_.chunk_elements(), map_.elements());
  copies_ = BufferPool::Create(
      static_cast<size_t>(largest * SizeOf(config_.job.wire)),
      static_cast<size_t>(config_.job.workers * store_->chunks()));
  if (!IsLead()) return;
  term_ = config_.term;
  lead_.emplace(MakeLeadConfig(config_, layout_, map_), parts_.random, now);
}

// What they work on is this node's: a job that ends badly ends in the midst of
// a round.
ServerNode::~ServerNode() {
  parts_.reducer->Abandon();
  parts_.writer->Abandon();
}

absl::StatusOr<std::string> ServerNode::Start(absl::Time now) {
  now_ = now;
  PARAPET_ASSIGN_OR_RETURN(std::string address,
                           parts_.transport->Listen(config_.listen));
  if (IsLead()) {
    const std::string snapshot = config_.resume ? config_.resume->path : "";
    OnLoad({config_.resume ? config_.resume->manifest.version : 0, snapshot});
    Drain();
  } else {
    ConnectToLead();
  }
  return address;
}

void ServerNode::Handle(net::Event event, absl::Time now) {
  now_ = now;
  if (outcome_) return;
  if (!IsLead() && event.connection == lead_connection_ &&
      lead_connection_ != 0) {
    OnLeadEvent(event);
  } else if (event.kind == net::Event::Kind::kDown) {
    Forget(event.connection);
  } else if (event.kind == net::Event::Kind::kMessage) {
    absl::StatusOr<Message> message =
        Decode(event.header, event.payload, limits_);
    if (message.ok()) {
      OnMessage(event.connection, *std::move(message));
    } else {
      Violation(event.connection, Code::kProtocol,
                std::string(message.status().message()));
    }
  }
  Drain();
  // New weights leave while the next chunks are reduced.
  while (parts_.reducer->RunDone() > 0) Drain();
}

void ServerNode::Tick(absl::Time now) {
  now_ = now;
  while (parts_.reducer->RunDone() + parts_.writer->RunDone() +
             Planner().RunDone() >
         0)
    Drain();
  if (outcome_) return;
  if (lead_ && now >= lead_->NextDeadline()) Feed(Lead::TickIn{});
  if (round_ && now >= round_->NextDeadline()) Feed(Round::TickIn{});
  Drain();
  if (!IsLead() && !outcome_) TickLeadLink();
  std::vector<net::ConnectionId> stale;
  for (const auto& [connection, link] : links_) {
    if (link.session == 0 &&
        now >= link.since + 2 * config_.patience.start_timeout)
      stale.push_back(connection);
  }
  for (net::ConnectionId connection : stale) {
    RefuseLink(connection, Code::kWrongSession,
               "nobody admitted this connection");
  }
}

absl::Time ServerNode::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  if (lead_) next = std::min(next, lead_->NextDeadline());
  if (round_) next = std::min(next, round_->NextDeadline());
  if (!IsLead()) next = std::min(next, lead_ready_ ? next_ping_ : lead_retry_);
  return next;
}

void ServerNode::RequestStop(const std::string& who, absl::Time now) {
  now_ = now;
  if (outcome_) return;
  if (!IsLead() && !lead_ready_ && !round_) {
    outcome_ = Outcome{Code::kStopped,
                       absl::StrCat("stopped before the job began: ", who),
                       std::nullopt};
    return;
  }
  TellLead(StoppingMessage{who});
  Drain();
}

std::optional<Lead::Progress> ServerNode::GetProgress(absl::Time now) const {
  if (!lead_) return std::nullopt;
  return lead_->GetProgress(now);
}

void ServerNode::Log(bool warning, const std::string& words) {
  parts_.logger->log(warning ? spdlog::level::warn : spdlog::level::info, "{}",
                     words);
}

}  // namespace parapet
