// The server node: connections, and who is behind them.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/node.h"

namespace parapet {
namespace {

// A connection that broke the rules so often is closed.
constexpr int kStrikes = 10;

// What a worker or an evaluator tells the lead; nothing if such a peer has no
// business to.
std::optional<Lead::Event> EventFor(const Peer& peer, Body& body) {
  const bool worker = peer.role == Role::kWorker;
  if (auto* done = std::get_if<RoundDoneMessage>(&body);
      done != nullptr && worker)
    return Lead::RoundDoneIn{peer.id, *done};
  if (auto* hash = std::get_if<VersionHashMessage>(&body))
    return Lead::HashIn{peer, *hash};
  if (auto* leave = std::get_if<LeaveMessage>(&body))
    return Lead::LeaveIn{peer, leave->words};
  if (auto* stopping = std::get_if<StoppingMessage>(&body))
    return Lead::StopIn{absl::StrCat(NameOf(peer), " ", stopping->words)};
  if (auto* snapshot = std::get_if<SnapshotDoneMessage>(&body);
      snapshot != nullptr && worker)
    return Lead::SnapshotDoneIn{peer, *snapshot};
  if (auto* report = std::get_if<EvalReportMessage>(&body);
      report != nullptr && !worker)
    return Lead::EvalReportIn{peer.id, *report};
  return std::nullopt;
}

}  // namespace

void ServerNode::OnMessage(net::ConnectionId connection, Message message) {
  auto it = links_.find(connection);
  if (auto* hello = std::get_if<HelloMessage>(&message.body)) {
    if (it == links_.end()) OnHello(connection, *hello, message.session);
    return;
  }
  if (it == links_.end() || it->second.session == 0) {
    // A connection that was closed here, or one that never said who it is.
    if (it == links_.end())
      RefuseLink(connection, Code::kWrongSession, "say hello first");
    return;
  }
  if (message.session != it->second.session || message.term != term_)
    return;  // of another life
  const Link link = it->second;
  if (link.peer.role == Role::kServer)
    return OnServerMessage(static_cast<int>(link.peer.id), message);
  OnPeerMessage(connection, link, message);
}

void ServerNode::OnHello(net::ConnectionId connection, HelloMessage& hello,
                         uint64_t token) {
  if (hello.link > config_.job.connections) {
    return RefuseLink(connection, Code::kProtocol,
                      absl::StrCat("this job has ", config_.job.connections,
                                   " data connections (--connections)"));
  }
  if (IsLead() && hello.link == 0) {
    links_[connection] = {hello.peer, 0, 0, now_};
    Feed(Lead::HelloIn{connection, std::move(hello)});
    return;
  }
  links_[connection] = {hello.peer, hello.link, 0, now_};
  const uint64_t session = SessionOf(hello.peer);
  if (session != 0 && session == token) {
    Bind(connection, hello.peer, hello.link, session, {version(), ""});
  } else if (IsLead() || session != 0 || token == 0) {
    RefuseLink(
        connection, Code::kWrongSession,
        absl::StrCat(NameOf(hello.peer), " shows a token that is not valid"));
  } else {
    // The lease that names it may still be on its way.
    strikes_[connection] = 0;
    links_[connection].session = 0;
    parked_[connection] = token;
  }
}

void ServerNode::RetryParked() {
  std::vector<std::pair<net::ConnectionId, uint64_t>> parked(parked_.begin(),
                                                             parked_.end());
  for (const auto& [connection, token] : parked) {
    const Link link = links_[connection];
    if (SessionOf(link.peer) != token) continue;
    parked_.erase(connection);
    Bind(connection, link.peer, link.link, token, {version(), ""});
  }
}

uint64_t ServerNode::SessionOf(const Peer& peer) const {
  if (lead_) return lead_->SessionOf(peer);
  auto it = sessions_.find(peer);
  return it == sessions_.end() ? 0 : it->second;
}

void ServerNode::Bind(net::ConnectionId connection, const Peer& peer,
                      uint16_t link, uint64_t session,
                      const WelcomeMessage& welcome) {
  net::ConnectionId& bound = bound_[{peer, link}];
  if (bound != 0 && bound != connection) {
    links_.erase(bound);
    parts_.transport->Close(bound);
  }
  bound = connection;
  links_[connection] = {peer, link, session, now_};
  Send(connection, session, welcome);
  if (link > 0 && peer.role == Role::kWorker && round_)
    Feed(Round::LinkIn{peer.id, link, LocalsOn(link)});
}

void ServerNode::Forget(net::ConnectionId connection) {
  auto it = links_.find(connection);
  if (it == links_.end()) return;
  auto bound = bound_.find({it->second.peer, it->second.link});
  if (bound != bound_.end() && bound->second == connection) bound_.erase(bound);
  links_.erase(it);
  parked_.erase(connection);
  strikes_.erase(connection);
}

void ServerNode::RefuseLink(net::ConnectionId connection, Code code,
                            const std::string& words) {
  ++refusals_[code];
  Send(connection, 0, RefuseMessage{code, words});
  Forget(connection);
  parts_.transport->Close(connection);
}

void ServerNode::Violation(net::ConnectionId connection, Code code,
                           const std::string& words) {
  auto it = links_.find(connection);
  if (it == links_.end() || it->second.session == 0)
    return RefuseLink(connection, code, words);
  ++refusals_[code];
  const Link link = it->second;
  Log(true,
      absl::StrCat(NameOf(link.peer), ": ", words, " (", NameOf(code), ")"));
  Send(connection, link.session, RefuseMessage{code, words});
  if (link.peer.role == Role::kWorker) CountStrike(link.peer.id, code);
  if (++strikes_[connection] < kStrikes) return;
  Forget(connection);
  parts_.transport->Close(connection);
}

std::vector<bool> ServerNode::LocalsOn(uint16_t link) const {
  std::vector<bool> locals(store_->chunks());
  for (int64_t local = 0; local < store_->chunks(); ++local)
    locals[local] = LinkOf(local) == link;
  return locals;
}

uint16_t ServerNode::LinkOf(int64_t local) const {
  return static_cast<uint16_t>(1 + map_.ChunkOf(config_.index, local) %
                                       config_.job.connections);
}

net::ConnectionId ServerNode::ConnectionOf(const Peer& peer,
                                           uint16_t link) const {
  auto it = bound_.find({peer, link});
  return it == bound_.end() ? 0 : it->second;
}

// ---- Messages of workers and evaluators
// ----------------------------------------------------------

void ServerNode::OnPeerMessage(net::ConnectionId connection, const Link& link,
                               Message& message) {
  if (round_ && OnRoundMessage(link, message.body)) return;
  if (auto* ping = std::get_if<PingMessage>(&message.body)) {
    Send(connection, link.session, PongMessage{ping->nonce, version()});
    if (lead_) Feed(Lead::PingIn{link.peer, *ping});
    return;
  }
  if (!lead_)
    return Violation(connection, Code::kProtocol,
                     "a message that only the lead takes");
  if (auto* done = std::get_if<RoundDoneMessage>(&message.body);
      done != nullptr &&
      done->samples > static_cast<uint64_t>(config_.job.batch)) {
    return Violation(connection, Code::kBadSamples,
                     absl::StrCat("reports ", done->samples,
                                  " samples; --batch is ", config_.job.batch));
  }
  if (std::optional<Lead::Event> event = EventFor(link.peer, message.body))
    return Feed(*std::move(event));
  Violation(connection, Code::kProtocol, "a message that makes no sense here");
}

// What any server takes for its rounds; false if it is something else.
bool ServerNode::OnRoundMessage(const Link& link, Body& body) {
  const bool worker = link.peer.role == Role::kWorker;
  if (auto* push = std::get_if<PushMessage>(&body); push != nullptr && worker) {
    OnPush(link, *push);
  } else if (auto* need = std::get_if<NeedWeightsMessage>(&body);
             need != nullptr && link.link > 0) {
    OnNeedWeights(link, *need);
  } else if (auto* abstain = std::get_if<AbstainMessage>(&body);
             abstain != nullptr && worker) {
    Feed(Round::AbstainIn{link.peer.id, abstain->round});
  } else {
    return false;
  }
  return true;
}

void ServerNode::OnPush(const Link& link, PushMessage& push) {
  const auto chunk = static_cast<int64_t>(push.chunk);
  const net::ConnectionId connection = ConnectionOf(link.peer, link.link);
  if (push.chunk >= static_cast<uint64_t>(map_.chunks()) ||
      map_.OwnerOf(chunk) != config_.index) {
    return Violation(
        connection, Code::kBadChunk,
        absl::StrCat("chunk ", push.chunk, " is not one of this server's"));
  }
  const auto bytes = static_cast<size_t>(map_.ChunkRange(chunk).size() *
                                         SizeOf(config_.job.wire));
  if (push.dtype != config_.job.wire || push.data.size() != bytes) {
    return Violation(
        connection, Code::kBadChunk,
        absl::StrCat("chunk ", push.chunk, " with ", push.data.size(),
                     " bytes of ", std::string(NameOf(push.dtype))));
  }
  const double scale =
      config_.job.wire == DType::kFloat16 ? config_.job.wire_scale : 1;
  if (push.scale != scale) {
    return Violation(connection, Code::kBadChunk,
                     absl::StrCat("chunk ", push.chunk, " with a scale of ",
                                  push.scale, ", not ", scale));
  }
  bytes_pushed_ += bytes;
  const int64_t local = map_.LocalOf(chunk);
  const Payload* held = round_->Held(link.peer.id, push.round, local);
  const bool same = held != nullptr && held->size() == bytes &&
                    std::memcmp(held->data(), push.data.data(), bytes) == 0;
  Feed(Round::PushIn{
      link.peer.id,
      push.round,
      local,
      {link.peer.id, push.samples, push.scale, std::move(push.data)},
      same});
}

void ServerNode::OnNeedWeights(const Link& link, NeedWeightsMessage& need) {
  Round::NeedIn event{link.peer, need.version, std::move(need.locals),
                      LocalsOn(link.link)};
  if (!event.locals.empty()) {
    event.locals.resize(store_->chunks());
    for (size_t i = 0; i < event.locals.size(); ++i)
      event.locals[i] = event.locals[i] && event.mine[i];
  }
  Feed(std::move(event));
}

// ---- Messages of the other servers, to the lead
// --------------------------------------------------

void ServerNode::OnServerMessage(int server, Message& message) {
  const Peer peer{Role::kServer, static_cast<uint32_t>(server)};
  if (auto* ping = std::get_if<PingMessage>(&message.body)) {
    Send(ConnectionOf(peer, 0), message.session,
         PongMessage{ping->nonce, version()});
    return Feed(Lead::PingIn{peer, *ping});
  }
  if (auto* m = std::get_if<LoadedMessage>(&message.body))
    return Feed(Lead::LoadedIn{server, *m});
  if (auto* m = std::get_if<CompleteMessage>(&message.body))
    return Feed(Lead::CompleteIn{server, *m});
  if (auto* m = std::get_if<ShardDoneMessage>(&message.body))
    return Feed(Lead::ShardDoneIn{server, *m});
  if (auto* m = std::get_if<NormMessage>(&message.body))
    return Feed(Lead::NormIn{server, *m});
  if (auto* m = std::get_if<ShardReportMessage>(&message.body))
    return Feed(Lead::ReportIn{server, std::move(*m)});
  if (auto* m = std::get_if<VersionHashMessage>(&message.body))
    return Feed(Lead::HashIn{peer, *m});
  if (auto* m = std::get_if<SnapshotDoneMessage>(&message.body))
    return Feed(Lead::SnapshotDoneIn{peer, *m});
  if (auto* m = std::get_if<StoppingMessage>(&message.body)) {
    return Feed(Lead::StopIn{absl::StrCat(NameOf(peer), " ", m->words)});
  }
  if (auto* m = std::get_if<LeaveMessage>(&message.body))
    return Feed(Lead::CannotIn{server, m->words});
  ++refusals_[Code::kProtocol];
}

}  // namespace parapet
