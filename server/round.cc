#include "server/round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parapet {
Round::Round(const RoundConfig& config, absl::Time now)
    : config_(config), now_(now), version_(config.version) {
  Open();
}

std::vector<Round::Effect> Round::Handle(Event event, absl::Time now) {
  now_ = now;
  std::visit([this](auto& e) { On(e); }, event);
  FinishRounds();
  return std::exchange(effects_, {});
}

absl::Time Round::NextDeadline() const {
  if (stopped() || !HasLease()) return absl::InfiniteFuture();
  return reporting_
             ? next_wait_report_
             : std::min(next_wait_report_, opened_ + config_.report_after);
}

const Payload* Round::Held(uint32_t worker, uint64_t round,
                           int64_t local) const {
  auto it = entries_.find(worker);
  if (round != version_ || it == entries_.end() ||
      it->second.slots[local] != Slot::kHeld)
    return nullptr;
  return &it->second.held[local].data;
}

// ---- The life of a round
// ------------------------------------------------------------------------

void Round::Open() {
  opened_ = now_;
  next_wait_report_ = now_ + config_.patience;
  reporting_ = config_.report_always;
  measured_ = 0;
  decided_ = false;
  members_ = allowed_ = reported_ = IdSet();
  entries_.clear();
  came_.assign(config_.chunks, 0);
  abstained_ = expected_ = 0;
  chunks_.assign(config_.chunks, ChunkState::kGathering);
  aggregated_ = published_ = carried_ = first_unreduced_turn_ = 0;
  scale_.reset();
  done_ = ShardDoneMessage();
  done_.round = version_;
  Refresh();
}

bool Round::HasLease() const {
  for (const Lease& lease : leases_) {
    if (version_ >= lease.from && version_ < lease.until) return true;
  }
  return false;
}

const RoundFacts& Round::Facts() const {
  for (const Lease& lease : leases_) {
    if (version_ >= lease.from && version_ < lease.until)
      return lease.facts[version_ - lease.from];
  }
  static constexpr RoundFacts kNone;
  return kNone;
}

void Round::Refresh() {
  if (stopped() || !HasLease() || decided_) return;
  for (const Lease& lease : leases_) {
    if (version_ >= lease.from && version_ < lease.until)
      members_ = IdsOf(lease.members);
  }
  allowed_ = members_;
  if (auto close = closes_.find(version_); close != closes_.end())
    allowed_.Intersect(close->second);
  expected_ = allowed_.Count();
  for (int64_t turn = 0; turn < config_.chunks; ++turn)
    TryReduce(config_.chunks - 1 - turn);
  NoteComplete();
}

void Round::TryReduce(int64_t local) {
  if (chunks_[local] != ChunkState::kGathering || !HasLease()) return;
  // Where most pushes end. To ask every member at every push would be the most
  // that a server of a thousand workers does.
  if (came_[local] + abstained_ < expected_) return;
  std::vector<uint32_t> rows;
  for (uint32_t worker : allowed_.ToVector()) {
    auto it = entries_.find(worker);
    if (it == entries_.end()) return;
    if (it->second.abstained) continue;
    if (it->second.slots[local] != Slot::kHeld) return;
    rows.push_back(worker);
  }
  if (config_.exchange) return StartMeasure(local, rows);
  StartReduce(local, Take(local, rows), nullptr);
  AdvanceTurn();
}

// What is held of a chunk is used up.
std::vector<Contribution> Round::Take(int64_t local,
                                      const std::vector<uint32_t>& workers) {
  std::vector<Contribution> rows;
  for (uint32_t worker : workers) {
    Entry& entry = entries_[worker];
    rows.push_back(std::move(entry.held[local]));
    entry.slots[local] = Slot::kUsed;
  }
  return rows;
}

void Round::StartReduce(int64_t local, std::vector<Contribution> rows,
                        std::shared_ptr<const rules::Plan> plan) {
  chunks_[local] = ChunkState::kReducing;
  if (rows.empty()) {
    ++carried_;
    effects_.push_back(Carry{version_, local, !config_.two_phase});
  } else {
    effects_.push_back(Reduce{version_, local, std::move(rows), Facts(),
                              !config_.two_phase, std::move(plan)});
  }
}

void Round::AdvanceTurn() {
  while (first_unreduced_turn_ < config_.chunks &&
         chunks_[config_.chunks - 1 - first_unreduced_turn_] >=
             ChunkState::kReducing) {
    ++first_unreduced_turn_;
  }
}

bool Round::Finished() const {
  return HasLease() && published_ == config_.chunks;
}

void Round::FinishRounds() {
  // A shard without chunks, or one whose members all left, can finish several
  // at once.
  while (!stopped() && Finished()) CompleteVersion();
}

void Round::CompleteVersion() {
  effects_.push_back(ReportDone{Account()});
  older_.push_back(version_);
  ++version_;
  closes_.erase(closes_.begin(), closes_.lower_bound(version_));
  DropOldVersions();
  for (const Lease& lease : leases_) {
    const bool inside = version_ > lease.from && version_ <= lease.until;
    if (inside || (lease.from == lease.until && lease.from == version_))
      ActOnMarks(lease, version_);
  }
  std::erase_if(leases_,
                [this](const Lease& lease) { return lease.until < version_; });
  Open();
}

ShardDoneMessage Round::Account() {
  for (const auto& [worker, entry] : entries_) {
    if (allowed_.Contains(worker)) {
      if (!entry.abstained) done_.participants.push_back(worker);
      continue;
    }
    // Chunks that were reduced with a worker that was closed out afterwards, as
    // runs of turns.
    for (int64_t turn = 0; turn < config_.chunks; ++turn) {
      if (entry.slots[config_.chunks - 1 - turn] != Slot::kUsed) continue;
      const auto t = static_cast<uint64_t>(turn);
      if (!done_.exceptions.empty() &&
          done_.exceptions.back().worker == worker &&
          done_.exceptions.back().last_turn + 1 == t) {
        done_.exceptions.back().last_turn = t;
      } else {
        done_.exceptions.push_back({worker, t, t});
      }
    }
  }
  // A shard without chunks has no entries: its participants are whoever may be.
  if (config_.chunks == 0) done_.participants = allowed_.ToVector();
  // Such a shard does not know whether anybody took part, either.
  done_.carried = config_.chunks > 0 && carried_ == config_.chunks;
  return std::move(done_);
}

void Round::ActOnMarks(const Lease& lease, uint64_t version) {
  for (const Mark& mark : lease.marks) {
    if (mark.version != version) continue;
    switch (mark.kind) {
      case Mark::Kind::kSnapshot:
        effects_.push_back(TakeSnapshot{version});
        break;
      case Mark::Kind::kHash:
        effects_.push_back(HashVersion{version});
        break;
      case Mark::Kind::kStop:
        stop_version_ = version;
        break;
      case Mark::Kind::kEvaluate:
        for (auto& [peer, recipient] : recipients_) {
          if (peer.role == Role::kEvaluator) {
            Feed(peer, recipient, version,
                 std::vector<bool>(config_.chunks, true));
          }
        }
        break;
    }
  }
}

// ---- Events
// -------------------------------------------------------------------------------------

void Round::On(LeaseIn& event) {
  Lease& lease = event.lease;
  for (const Lease& known : leases_) {
    if (known == lease) return;  // sent again after a reconnection
  }
  if (lease.until < version_) return;
  std::erase_if(recipients_, [&](const auto& item) {
    const auto& list =
        item.first.role == Role::kEvaluator ? lease.evaluators : lease.members;
    return std::none_of(list.begin(), list.end(),
                        [&](const Member& m) { return m.id == item.first.id; });
  });
  for (const Member& evaluator : lease.evaluators)
    recipients_[{Role::kEvaluator, evaluator.id}];
  const bool at_once = lease.from == lease.until && lease.from == version_;
  const bool opens = version_ >= lease.from && version_ < lease.until;
  leases_.push_back(std::move(lease));
  if (at_once) ActOnMarks(leases_.back(), version_);
  if (opens) {
    opened_ = now_;
    next_wait_report_ = now_ + config_.patience;
    Refresh();
  }
}

bool Round::RefuseContribution(uint32_t worker, uint64_t round, int64_t local) {
  if (round > version_) {
    effects_.push_back(
        Strike{worker, Code::kProtocol,
               absl::StrCat("pushed for round ", round, " while round ",
                            version_, " is open")});
    return true;
  }
  const bool closed =
      round < version_ || (HasLease() && !allowed_.Contains(worker));
  if (closed)
    effects_.push_back(
        SendAck{worker, round, local, AckStatus::kLate, Credit()});
  return closed;
}

bool Round::CheckPush(const PushIn& event, const Entry& entry) {
  const Contribution& c = event.contribution;
  const uint64_t turn =
      version_ * config_.chunks + (config_.chunks - 1 - event.local);
  Strike strike{event.worker, Code::kOk, ""};
  if (c.samples > config_.max_samples ||
      (entry.received > 0 && c.samples != entry.samples)) {
    strike.code = Code::kBadSamples;
    strike.words =
        absl::StrCat("claims ", c.samples, " samples; ", config_.max_samples,
                     " are allowed, the same for all chunks of a round");
  } else if (entry.abstained) {
    strike.code = Code::kEquivocation;
    strike.words =
        absl::StrCat("pushed for round ", version_, " after it had abstained");
  } else if (turn >= Credit()) {
    strike.code = Code::kOverCredit;
    strike.words =
        absl::StrCat("pushed turn ", turn, " with a credit of ", Credit());
  }
  if (strike.code == Code::kOk) return true;
  effects_.push_back(std::move(strike));
  return false;
}

void Round::On(PushIn& event) {
  Prove({Role::kWorker, event.worker}, event.round);
  if (RefuseContribution(event.worker, event.round, event.local)) return;
  Entry& entry = EntryOf(event.worker);
  Slot& slot = entry.slots[event.local];
  if (slot != Slot::kEmpty) {
    if (slot == Slot::kHeld && !event.same_as_held) {
      effects_.push_back(Strike{
          event.worker, Code::kEquivocation,
          absl::StrCat("sent other bytes for a chunk of round ", version_)});
    } else {
      effects_.push_back(SendAck{event.worker, event.round, event.local,
                                 AckStatus::kDuplicate, Credit()});
    }
    return;
  }
  if (!CheckPush(event, entry)) return;
  if (chunks_[event.local] != ChunkState::kGathering) {
    effects_.push_back(SendAck{event.worker, event.round, event.local,
                               AckStatus::kLate, Credit()});
    return;
  }
  slot = Slot::kHeld;
  ++came_[event.local];
  entry.samples = event.contribution.samples;
  entry.held[event.local] = std::move(event.contribution);
  ++entry.received;
  TryReduce(event.local);
  if (entry.received == config_.chunks || config_.window > 0) NoteComplete();
}

void Round::On(AbstainIn& event) {
  Prove({Role::kWorker, event.worker}, event.round);
  if (RefuseContribution(event.worker, event.round, 0)) return;
  Entry& entry = EntryOf(event.worker);
  if (entry.received > 0) {
    effects_.push_back(Strike{event.worker, Code::kEquivocation,
                              absl::StrCat("abstained from round ", version_,
                                           " after it had pushed")});
    return;
  }
  if (entry.abstained) return;
  entry.abstained = true;
  ++abstained_;
  Refresh();
}

Round::Entry& Round::EntryOf(uint32_t worker) {
  Entry& entry = entries_[worker];
  if (entry.slots.empty()) {
    entry.slots.assign(config_.chunks, Slot::kEmpty);
    entry.held.resize(config_.chunks);
  }
  return entry;
}

void Round::On(LinkIn& event) {
  SendNeed need{event.worker, event.link, version_, Credit(),
                std::move(event.mine)};
  auto it = entries_.find(event.worker);
  const bool out =
      stopped() || (HasLease() && !allowed_.Contains(event.worker));
  for (int64_t local = 0; local < config_.chunks; ++local) {
    const bool has =
        it != entries_.end() &&
        (it->second.abstained || it->second.slots[local] != Slot::kEmpty);
    if (out || has || chunks_[local] != ChunkState::kGathering)
      need.locals[local] = false;
  }
  effects_.push_back(std::move(need));
}

void Round::On(ReducedIn& event) {
  if (event.round != version_ || chunks_[event.local] != ChunkState::kReducing)
    return;
  for (const auto& bad : event.bad) {
    auto same = std::find_if(
        done_.bad.begin(), done_.bad.end(),
        [&](const auto& known) { return known.worker == bad.worker; });
    if (same == done_.bad.end()) {
      done_.bad.push_back(bad);
    } else {
      same->values += bad.values;
    }
  }
  done_.bad_coordinates += event.bad_coordinates;
  if (event.first_bad >= 0 &&
      (done_.first_bad < 0 || event.first_bad < done_.first_bad)) {
    done_.first_bad = event.first_bad;
  }
  if (!config_.two_phase) return Publish(event.local);
  chunks_[event.local] = ChunkState::kAggregated;
  if (++aggregated_ == config_.chunks) {
    effects_.push_back(ReportNorm{version_});
  } else if (config_.window > 0) {
    TellCredit(event.local);
  }
}

// Nothing is published before the scale is known, so that no weights chunk
// brings the credit that the rest of the round needs.
void Round::TellCredit(int64_t local) {
  for (const auto& [worker, entry] : entries_) {
    if (!allowed_.Contains(worker) || entry.abstained) continue;
    effects_.push_back(
        SendAck{worker, version_, local, AckStatus::kKept, Credit()});
  }
}

void Round::On(ScaleIn& event) {
  if (event.round != version_ || !config_.two_phase ||
      aggregated_ != config_.chunks || scale_)
    return;
  scale_ = event.scale;
  StepAll();
}

// What the next forward pass reads first comes first.
void Round::StepAll() {
  for (int64_t local = 0; local < config_.chunks; ++local) {
    chunks_[local] = ChunkState::kStepping;
    effects_.push_back(Step{version_, local, Facts(), *scale_});
  }
}

void Round::On(SteppedIn& event) {
  if (event.round != version_ || chunks_[event.local] != ChunkState::kStepping)
    return;
  Publish(event.local);
}

void Round::On(CloseIn& event) {
  if (event.round < version_) return;
  auto [it, fresh] = closes_.emplace(event.round, event.workers);
  if (!fresh) it->second.Intersect(event.workers);
  if (event.round != version_ || !HasLease() || decided_) return;
  allowed_.Intersect(event.workers);
  // What the others sent and was not reduced yet is dropped.
  for (auto& [worker, entry] : entries_) {
    if (allowed_.Contains(worker)) continue;
    for (int64_t local = 0; local < config_.chunks; ++local) {
      if (entry.slots[local] != Slot::kHeld) continue;
      entry.slots[local] = Slot::kEmpty;
      --came_[local];
      entry.held[local] = Contribution();
    }
  }
  Refresh();
}

void Round::On(TickIn&) {
  if (stopped() || !HasLease()) return;
  if (!reporting_ && now_ >= opened_ + config_.report_after) {
    reporting_ = true;
    effects_.push_back(ReportComplete{{version_, reported_}});
    NoteComplete();
  }
  if (now_ < next_wait_report_) return;
  next_wait_report_ = now_ + config_.patience;
  Waiting waiting{version_, now_ - opened_, {}};
  for (uint32_t worker : allowed_.ToVector()) {
    auto it = entries_.find(worker);
    if (!IsComplete(worker))
      waiting.who.push_back(
          {worker, it == entries_.end() ? 0 : it->second.received});
  }
  effects_.push_back(std::move(waiting));
}

bool Round::IsComplete(uint32_t worker) const {
  auto it = entries_.find(worker);
  if (it == entries_.end()) return config_.chunks == 0;
  const Entry& entry = it->second;
  if (entry.abstained || entry.received == config_.chunks) return true;
  if (config_.window == 0) return false;
  // Who has pushed all that its credit allows waits for others, not they for
  // it.
  const int64_t end =
      std::min(config_.chunks, first_unreduced_turn_ + config_.window);
  for (int64_t turn = 0; turn < end; ++turn) {
    if (entry.slots[config_.chunks - 1 - turn] == Slot::kEmpty) return false;
  }
  return true;
}

void Round::NoteComplete() {
  if (!reporting_) return;
  IdSet complete;
  for (uint32_t worker : members_.ToVector()) {
    if (IsComplete(worker)) complete.Insert(worker);
  }
  if (complete == reported_) return;
  reported_ = complete;
  effects_.push_back(ReportComplete{{version_, std::move(complete)}});
}

}  // namespace parapet
