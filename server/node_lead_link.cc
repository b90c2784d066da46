// The server node: a server's connection to the lead.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "server/node.h"

namespace parapet {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(200);
// What is told again after a reconnection: more than the reports of all rounds
// that can be open.
constexpr size_t kToldAgain = 128;

}  // namespace

void ServerNode::ConnectToLead() {
  lead_ready_ = false;
  lead_retry_ = absl::InfiniteFuture();
  absl::StatusOr<net::ConnectionId> connection =
      parts_.transport->Connect(config_.lead);
  if (!connection.ok()) {
    outcome_ =
        Outcome{Code::kFailed, std::string(connection.status().message()),
                std::nullopt};
    return;
  }
  lead_connection_ = *connection;
}

void ServerNode::OnLeadEvent(net::Event& event) {
  switch (event.kind) {
    case net::Event::Kind::kUp: {
      HelloMessage hello;
      hello.protocol = kProtocolVersion;
      hello.peer = {Role::kServer, static_cast<uint32_t>(config_.index)};
      hello.nonce = config_.nonce;
      hello.layout_hash = layout_.hash();
      hello.fingerprint = shard_.name();
      hello.job = config_.job.ToText();
      return Send(lead_connection_, lead_session_, std::move(hello));
    }
    case net::Event::Kind::kDown:
      if (lead_ready_)
        Log(true,
            absl::StrCat("lost the connection to the lead: ", event.reason));
      lead_ready_ = false;
      lead_reason_ = event.reason;
      lead_connection_ = 0;
      lead_retry_ = now_ + kRetry;
      return;
    case net::Event::Kind::kMessage: {
      absl::StatusOr<Message> message =
          Decode(event.header, event.payload, limits_);
      if (!message.ok())
        return Log(true, absl::StrCat("from the lead: ",
                                      std::string(message.status().message())));
      lead_heard_ = now_;
      return OnLeadMessage(*message);
    }
  }
}

void ServerNode::OnLeadMessage(Message& message) {
  if (auto* m = std::get_if<RefuseMessage>(&message.body)) {
    outcome_ = Outcome{m->code,
                       absl::StrCat("the lead refuses this server: ", m->words),
                       std::nullopt};
  } else if (std::holds_alternative<WelcomeMessage>(message.body)) {
    term_ = message.term;
    lead_session_ = message.session;
    lead_ready_ = true;
    for (const Body& body : told_) {
      if (!IsOld(body)) Send(lead_connection_, lead_session_, body);
    }
  } else if (message.term != term_) {
    return;
  } else if (auto* load = std::get_if<LoadMessage>(&message.body)) {
    OnLoad(*load);
  } else if (auto* lease = std::get_if<LeaseMessage>(&message.body)) {
    OnLease(lease->lease);
  } else if (auto* close = std::get_if<CloseMessage>(&message.body);
             close != nullptr && round_) {
    Feed(Round::CloseIn{close->round, std::move(close->workers)});
  } else if (auto* scale = std::get_if<ScaleMessage>(&message.body);
             scale != nullptr && round_) {
    Feed(Round::ScaleIn{scale->round, scale->scale});
  } else if (auto* decision = std::get_if<DecisionMessage>(&message.body)) {
    OnDecision(*decision);
  } else if (auto* bye = std::get_if<ByeMessage>(&message.body)) {
    outcome_ = Outcome{bye->code, bye->words, std::nullopt};
  }
}

void ServerNode::OnLoad(const LoadMessage& load) {
  if (round_) return;  // told again after a reconnection
  absl::Status status;
  if (load.snapshot.empty()) {
    status = store_->Initialize(layout_, config_.job.seed, load.version);
  } else {
    absl::StatusOr<Snapshot> snapshot =
        OpenSnapshot(*parts_.disk, load.snapshot);
    status = snapshot.ok() ? store_->Load(*parts_.disk, *snapshot, layout_)
                           : snapshot.status();
  }
  if (status.ok()) Begin(load.version);
  TellLead(LoadedMessage{status.ok(), std::string(status.message())});
}

// Whether a report is of a round that every server must have done by now:
// rounds are at most a lease apart.
bool ServerNode::IsOld(const Body& body) const {
  constexpr uint64_t kApart = 32;
  if (auto* m = std::get_if<CompleteMessage>(&body))
    return m->round < version();
  if (auto* m = std::get_if<NormMessage>(&body)) return m->round < version();
  if (auto* m = std::get_if<ShardReportMessage>(&body))
    return m->round < version();
  if (auto* m = std::get_if<ShardDoneMessage>(&body)) {
    return m->round + kApart < version();
  }
  return false;
}

void ServerNode::TickLeadLink() {
  if (!lead_ready_ && now_ >= next_patience_) {
    next_patience_ = now_ + config_.patience.patience;
    Log(true, absl::StrCat("waits for the lead at ", config_.lead,
                           lead_reason_.empty() ? "" : ": ", lead_reason_));
  }
  if (lead_connection_ == 0 && now_ >= lead_retry_) ConnectToLead();
  const absl::Duration patience =
      round_ ? config_.patience.dead_after : config_.patience.start_timeout;
  if (now_ >= lead_heard_ + patience) {
    if (round_ && round_->stopped()) {  // only its goodbye got lost
      outcome_ = Outcome{Code::kOk, "the job has ended", std::nullopt};
      return;
    }
    outcome_ = Outcome{
        Code::kLost,
        absl::StrCat("the lead at ", config_.lead, " has not been heard for ",
                     absl::FormatDuration(absl::Trunc(
                         now_ - lead_heard_, absl::Milliseconds(100)))),
        std::nullopt};
    return;
  }
  if (now_ < next_ping_) return;
  next_ping_ = now_ + config_.patience.ping_every;
  if (lead_ready_)
    Send(lead_connection_, lead_session_,
         PingMessage{0, version(), Phase::kWait});
}

void ServerNode::TellLead(Body body) {
  if (!lead_) {
    std::erase_if(told_, [this](const Body& told) { return IsOld(told); });
    told_.push_back(body);
    if (told_.size() > kToldAgain) told_.pop_front();
    if (lead_ready_) Send(lead_connection_, lead_session_, std::move(body));
    return;
  }
  Message message{term_, 0, std::move(body)};
  if (auto* stopping = std::get_if<StoppingMessage>(&message.body))
    return Feed(Lead::StopIn{stopping->words});
  OnServerMessage(0, message);
}

}  // namespace parapet
