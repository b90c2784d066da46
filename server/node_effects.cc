// The server node: carries out what the state machines want done.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/decision.h"
#include "server/node.h"

namespace parapet {

void ServerNode::Feed(Round::Event event) {
  queue_.push_back(std::move(event));
}
void ServerNode::Feed(Lead::Event event) { queue_.push_back(std::move(event)); }

void ServerNode::Drain() {
  while (!queue_.empty()) {
    std::variant<Round::Event, Lead::Event> event = std::move(queue_.front());
    queue_.pop_front();
    if (auto* for_round = std::get_if<Round::Event>(&event)) {
      if (!round_) continue;
      for (Round::Effect& effect :
           round_->Handle(std::move(*for_round), now_)) {
        std::visit([this](auto& e) { Apply(e); }, effect);
      }
    } else {
      for (Lead::Effect& effect :
           lead_->Handle(std::move(std::get<Lead::Event>(event)), now_)) {
        std::visit([this](auto& e) { Apply(e); }, effect);
      }
    }
  }
}

void ServerNode::Begin(uint64_t version) {
  RoundConfig round;
  round.chunks = store_->chunks();
  round.version = version;
  round.two_phase = config_.job.clip_norm > 0;
  round.report_always = config_.patience.quorum > 0;
  round.max_samples =
      static_cast<uint32_t>(std::min<int64_t>(config_.job.batch, UINT32_MAX));
  round.exchange = chain_.needs_distances();
  // Nothing is reduced before all of a shard is there.
  round.window = round.exchange ? 0 : config_.credit_window;
  round.wire = config_.job.wire;
  round.patience = config_.patience.patience;
  if (config_.patience.round_deadline > absl::ZeroDuration()) {
    round.report_after =
        std::min(round.report_after, config_.patience.round_deadline / 4);
  }
  round_.emplace(round, now_);
}

// ---- To the workers
// -----------------------------------------------------------------------------

void ServerNode::Apply(Round::SendWeights& effect) {
  const net::ConnectionId connection =
      ConnectionOf(effect.peer, LinkOf(effect.local));
  if (connection == 0) return;
  Payload data = store_->Published(effect.version, effect.local);
  bytes_published_ += data.size();
  const auto chunk =
      static_cast<uint64_t>(map_.ChunkOf(config_.index, effect.local));
  Send(connection, links_[connection].session,
       WeightsMessage{effect.version, chunk, config_.job.wire, effect.credit,
                      std::move(data)});
}

void ServerNode::Apply(Round::SendAck& effect) {
  const uint16_t link = store_->chunks() == 0 ? 1 : LinkOf(effect.local);
  const net::ConnectionId connection =
      ConnectionOf({Role::kWorker, effect.worker}, link);
  if (connection == 0) return;
  const auto chunk =
      static_cast<uint64_t>(map_.ChunkOf(config_.index, effect.local));
  Send(connection, links_[connection].session,
       AckMessage{effect.round, chunk, effect.status, effect.credit});
}

void ServerNode::Apply(Round::SendNeed& effect) {
  const net::ConnectionId connection =
      ConnectionOf({Role::kWorker, effect.worker}, effect.link);
  if (connection == 0) return;
  Send(connection, links_[connection].session,
       NeedGradientsMessage{effect.round, effect.credit,
                            std::move(effect.locals)});
}

void ServerNode::Apply(Round::Strike& effect) {
  const net::ConnectionId connection =
      ConnectionOf({Role::kWorker, effect.worker}, 0);
  if (connection != 0) return Violation(connection, effect.code, effect.words);
  ++refusals_[effect.code];
  CountStrike(effect.worker, effect.code);
  Log(true, absl::StrCat("worker ", effect.worker, ": ", effect.words, " (",
                         NameOf(effect.code), ")"));
}

// ---- To the lead
// --------------------------------------------------------------------------------

void ServerNode::Apply(Round::ReportComplete& effect) {
  TellLead(std::move(effect.message));
}

void ServerNode::Apply(Round::ReportDone& effect) {
  store_->DropAggregates();
  norms_.clear();
  distances_.reset();
  effect.message.bytes_pushed = bytes_pushed_;
  effect.message.bytes_published = bytes_published_;
  for (const auto& [who, count] : std::exchange(struck_, {}))
    effect.message.strikes.push_back({who.first, who.second, count});
  TellLead(std::move(effect.message));
}

void ServerNode::Apply(Round::ReportNorm& effect) {
  ExactSum sum;
  for (const auto& [local, squares] : norms_) sum.Merge(squares);
  TellLead(NormMessage{effect.round, sum});
}

void ServerNode::Apply(Round::ReportDistances& effect) {
  // Nobody had anything to measure.
  if (!distances_) distances_.emplace(effect.workers);
  TellLead(distances_->Report(effect.round, effect.workers));
}

void ServerNode::Apply(Round::RefuseDecision& effect) {
  ++refusals_[Code::kProtocol];
  const std::string words =
      absl::StrCat("round ", effect.round, ": ", effect.words);
  Log(true, words);
  // This shard cannot do the round, and the lead would wait for it for ever.
  TellLead(LeaveMessage{words});
}

void ServerNode::Apply(Round::TakeSnapshot& effect) {
  struct Writing {
    Store::Frozen frozen;
    absl::StatusOr<FileEntry> entry;
  };
  auto work = std::make_shared<Writing>();
  const uint64_t version = effect.version;
  absl::StatusOr<Store::Frozen> frozen = store_->Freeze();
  if (!frozen.ok()) {
    return TellLead(SnapshotDoneMessage{
        version, false, {}, std::string(frozen.status().message())});
  }
  work->frozen = *std::move(frozen);
  parts_.writer->Submit(
      [this, work, version] {
        const std::string folder = PartialPath(config_.snapshot.dir, version);
        const absl::Status made = parts_.disk->MakeDir(folder);
        work->entry = !made.ok()
                          ? absl::StatusOr<FileEntry>(made)
                          : WriteShardFile(*parts_.disk, folder,
                                           ServerFileName(config_.index),
                                           layout_, work->frozen.sections);
        work->frozen = Store::Frozen();
      },
      [this, work, version] {
        SnapshotDoneMessage done{version,
                                 work->entry.ok(),
                                 {},
                                 std::string(work->entry.status().message())};
        if (done.ok) done.file = *work->entry;
        TellLead(std::move(done));
      });
}

void ServerNode::Apply(Round::HashVersion& effect) {
  const absl::StatusOr<uint64_t> hash = store_->MasterHash();
  if (!hash.ok()) return DeviceFailed(hash.status());
  TellLead(VersionHashMessage{effect.version, *hash,
                              store_->WireHash(effect.version)});
}

void ServerNode::Apply(Round::DropVersion& effect) {
  store_->Drop(effect.version);
}

void ServerNode::Apply(Round::Waiting& effect) {
  std::vector<std::string> who;
  for (const auto& w : effect.who) {
    who.push_back(absl::StrCat("worker ", w.worker, " (", w.received, " of ",
                               store_->chunks(), " chunks)"));
  }
  Log(true, absl::StrCat("round ", effect.round, " has waited ",
                         absl::FormatDuration(absl::Trunc(
                             effect.since, absl::Milliseconds(100))),
                         " here for ",
                         who.empty() ? std::string("the lead")
                                     : absl::StrJoin(who, ", ")));
}

// ---- What the lead wants
// ------------------------------------------------------------------------

void ServerNode::Apply(Lead::Admit& effect) {
  Bind(effect.via, effect.peer, 0, effect.session, effect.message);
}

void ServerNode::Apply(Lead::Refuse& effect) {
  RefuseLink(effect.via, effect.message.code, effect.message.words);
}

void ServerNode::Apply(Lead::Tell& effect) {
  TellPeer(effect.peer, effect.body);
}

void ServerNode::Apply(Lead::TellServers& effect) {
  TellSelf(effect.body);
  for (const Peer& peer : BoundPeers()) {
    if (peer.role == Role::kServer) TellPeer(peer, effect.body);
  }
}

void ServerNode::Apply(Lead::TellAll& effect) {
  TellSelf(effect.body);
  for (const Peer& peer : BoundPeers()) TellPeer(peer, effect.body);
}

// A copy: telling a peer that is gone forgets its connection.
std::vector<Peer> ServerNode::BoundPeers() const {
  std::vector<Peer> peers;
  for (const auto& [key, connection] : bound_) {
    if (key.link == 0) peers.push_back(key.peer);
  }
  return peers;
}

void ServerNode::TellPeer(const Peer& peer, const Body& body) {
  const net::ConnectionId connection = ConnectionOf(peer, 0);
  if (connection != 0) Send(connection, links_[connection].session, body);
}

void ServerNode::TellSelf(const Body& body) {
  if (auto* lease = std::get_if<LeaseMessage>(&body)) OnLease(lease->lease);
  if (auto* close = std::get_if<CloseMessage>(&body))
    Feed(Round::CloseIn{close->round, close->workers});
  if (auto* scale = std::get_if<ScaleMessage>(&body))
    Feed(Round::ScaleIn{scale->round, scale->scale});
  if (auto* decision = std::get_if<DecisionMessage>(&body))
    OnDecision(*decision);
}

void ServerNode::OnDecision(const DecisionMessage& decision) {
  absl::StatusOr<rules::Plan> plan = ToPlan(decision);
  if (!plan.ok()) {
    Round::RefuseDecision refusal{decision.round,
                                  std::string(plan.status().message())};
    return Apply(refusal);
  }
  if (!round_) return;
  Feed(Round::DecisionIn{
      decision.round, std::make_shared<const rules::Plan>(*std::move(plan))});
}

void ServerNode::OnLease(const Lease& lease) {
  if (!lead_) {
    sessions_.clear();
    for (const Member& m : lease.members)
      sessions_[{Role::kWorker, m.id}] = m.session;
    for (const Member& m : lease.evaluators)
      sessions_[{Role::kEvaluator, m.id}] = m.session;
  }
  Feed(Round::LeaseIn{lease});
  RetryParked();
}

void ServerNode::Apply(Lead::CommitIt& effect) {
  struct Committing {
    Manifest manifest;
    absl::Status status;
    std::vector<std::string> dropped;
  };
  auto work = std::make_shared<Committing>();
  work->manifest = std::move(effect.manifest);
  for (const Tensor& tensor : layout_.tensors())
    work->manifest.tensors.push_back(tensor);
  parts_.writer->Submit(
      [this, work] {
        // What workers say of their files is checked: a wrong word must not
        // spoil the whole snapshot.
        const std::string folder =
            PartialPath(config_.snapshot.dir, work->manifest.version);
        std::erase_if(work->manifest.files, [&](const FileEntry& entry) {
          const bool keep = absl::StartsWith(entry.name, "server-") ||
                            CheckFile(*parts_.disk, folder, entry).ok();
          if (!keep) work->dropped.push_back(entry.name);
          return !keep;
        });
        work->status = CommitSnapshot(*parts_.disk, config_.snapshot.dir,
                                      work->manifest, config_.snapshot.keep);
      },
      [this, work] {
        for (const std::string& name : work->dropped)
          Log(true, absl::StrCat(name, " is not what its worker said"));
        Feed(Lead::CommittedIn{work->manifest.version, work->status});
      });
}

void ServerNode::Apply(Lead::Log& effect) { Log(effect.warning, effect.words); }

void ServerNode::Apply(Lead::Record& effect) {
  for (const auto& e : effect.record.exceptions) {
    Log(true, absl::StrCat("round ", effect.record.round, ", server ", e.shard,
                           ": worker ", e.what.worker, " entered with turns ",
                           e.what.first_turn, " to ", e.what.last_turn,
                           " before it was left out"));
  }
  if (hooks_.on_record) hooks_.on_record(effect.record);
}

void ServerNode::Apply(Lead::Evaluated& effect) {
  if (hooks_.on_evaluated) hooks_.on_evaluated(effect.report, effect.last);
}

void ServerNode::Apply(Lead::Finish& effect) {
  outcome_ = Outcome{effect.summary.code, effect.summary.words,
                     std::move(effect.summary)};
}

void ServerNode::Send(net::ConnectionId to, uint64_t session, Body body) {
  Payload payload;
  const absl::string_view header =
      encoder_.Encode({term_, session, std::move(body)}, &payload);
  const absl::Status status =
      parts_.transport->Send(to, header, std::move(payload));
  // A peer that takes nothing, or is gone: it connects anew and says what it
  // needs.
  if (!status.ok()) Forget(to);
}

}  // namespace parapet
