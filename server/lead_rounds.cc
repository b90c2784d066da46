// The lead: rounds as they go, and what happens when somebody is missing.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/lead.h"

namespace parapet {
namespace {

// Median round times are over the last so many rounds; a worker closed out of
// so many in a row is out.
constexpr size_t kRecentRounds = 32;
constexpr int kLeftOutLimit = 3;
// Rounds before the steady speed is measured, at most; a tenth of the job if
// that is less.
constexpr uint64_t kWarmupRounds = 50;
constexpr absl::Duration kSpeedKept = absl::Seconds(6);

std::string Names(const std::vector<uint32_t>& workers) {
  return absl::StrJoin(workers, ", ", [](std::string* out, uint32_t id) {
    absl::StrAppend(out, "worker ", id);
  });
}

}  // namespace

Lead::OpenRound* Lead::Find(uint64_t round) {
  auto it = rounds_.find(round);
  return it == rounds_.end() ? nullptr : &it->second;
}

void Lead::On(CompleteIn& event) {
  if (OpenRound* open = Find(event.message.round))
    open->complete[event.server] = std::move(event.message.workers);
  if (event.message.round == version_) CheckDeadlines();
}

void Lead::On(ShardDoneIn& event) {
  OpenRound* open = Find(event.message.round);
  if (open == nullptr || open->done.contains(event.server))
    return;  // told again after a reconnection
  const uint64_t next = event.message.round + 1;
  bytes_[event.server] = {event.message.bytes_pushed,
                          event.message.bytes_published};
  open->done[event.server] = std::move(event.message);
  shard_version_[event.server] = std::max(shard_version_[event.server], next);
  AdvanceVersion();
}

void Lead::On(NormIn& event) {
  OpenRound* open = Find(event.message.round);
  if (open == nullptr || config_.job.clip_norm <= 0) return;
  open->norms.emplace(event.server, event.message.squares);
  TrySendScale(event.message.round, *open);
}

void Lead::TrySendScale(uint64_t round, OpenRound& open) {
  if (open.scale) return;
  ExactSum squares;
  for (int s = 0; s < config_.job.servers; ++s) {
    if (config_.shard_chunks[s] == 0) continue;
    auto it = open.norms.find(s);
    if (it == open.norms.end()) return;
    squares.Merge(it->second);
  }
  const double norm = std::sqrt(squares.Round());
  open.scale =
      norm > config_.job.clip_norm ? config_.job.clip_norm / norm : 1.0;
  effects_.push_back(TellServers{ScaleMessage{round, *open.scale}});
}

void Lead::AdvanceVersion() {
  uint64_t lowest = ~uint64_t{0};
  for (const auto& [server, version] : shard_version_)
    lowest = std::min(lowest, version);
  if (lowest == version_) return;
  while (version_ < lowest) {
    auto it = rounds_.find(version_);
    if (it != rounds_.end()) {
      const OpenRound open = std::move(it->second);
      rounds_.erase(it);
      ++version_;
      RecordRound(version_ - 1, open);
    } else {
      ++version_;
    }
  }
  std::erase_if(leases_,
                [this](const Lease& lease) { return lease.until < version_; });
  opened_ = now_;
  next_patience_ = now_ + config_.patience.patience;
  quorum_since_.reset();
  too_few_since_.reset();
  IssueLeases();
  TryCommit();
  CheckEnd();
}

// What those who were not left out have trained on.
uint64_t Lead::SamplesOf(const OpenRound& open) const {
  uint64_t samples = 0;
  for (size_t i = 0; i < open.members.size(); ++i) {
    const uint32_t id = open.members[i].id;
    if (open.close && !open.close->Contains(id)) continue;
    if (config_.job.data_split == "own") {
      samples += OwnShareOf(open.facts.position, NominalSamples(),
                            players_.at({Role::kWorker, id}).samples)
                     .count;
    } else {
      samples += ShareOf(open.facts.position, open.facts.samples,
                         open.members.size(), i)
                     .count;
    }
  }
  return samples;
}

int64_t Lead::FirstBad(const OpenRound& open) {
  int64_t first = -1;
  for (const auto& [server, done] : open.done) {
    if (done.first_bad >= 0 && (first < 0 || done.first_bad < first))
      first = done.first_bad;
  }
  return first;
}

void Lead::NoteSpeed(uint64_t round, const OpenRound& open) {
  recent_rounds_.push_back(now_ - last_round_at_);
  if (recent_rounds_.size() > kRecentRounds)
    recent_rounds_.erase(recent_rounds_.begin());
  last_round_at_ = now_;
  samples_done_ += SamplesOf(open);
  speed_.push_back({now_, samples_done_});
  std::erase_if(speed_, [this](const auto& point) {
    return point.first < now_ - kSpeedKept;
  });
  const uint64_t warmup = std::min(kWarmupRounds, TotalRounds() / 10);
  if (!steady_since_ && round >= config_.version + warmup)
    steady_since_ = {now_, samples_done_};
}

void Lead::RecordRound(uint64_t round, const OpenRound& open) {
  NoteSpeed(round, open);
  RoundRecord record;
  record.round = round;
  record.rule = config_.job.rule;
  record.f = config_.job.byzantine;
  IdSet in = IdsOf(open.members);
  for (const auto& [server, done] : open.done) {
    IdSet here;
    for (uint32_t worker : done.participants) here.Insert(worker);
    if (config_.shard_chunks[server] > 0) in.Intersect(here);
    for (const auto& exception : done.exceptions)
      record.exceptions.push_back({server, exception});
    record.bad_coordinates += done.bad_coordinates;
    record.carried = record.carried || done.carried;
  }
  record.participants = in.ToVector();
  AddWholeShards(open, in, &record);
  const std::vector<uint32_t> away = AddLeftOut(open, in, &record);
  AddAbstained(open, &record);
  Faulty faulty;
  AddPlan(open, &record, &faulty);
  AddBadValues(open, &record, &faulty);
  AddStrikes(open, &record, &faulty);
  StrikeFaulty(round, faulty);
  Suspect(open, faulty, &record);
  JudgeBadRound(record, FirstBad(open));
  effects_.push_back(Record{std::move(record)});
  for (uint32_t worker : away) {
    SendAway(worker, Code::kLeftOut,
             absl::StrCat("left out of ", kLeftOutLimit, " rounds in a row"));
  }
}

// Who was closed out. Returns those for whom it was once too often.
std::vector<uint32_t> Lead::AddLeftOut(const OpenRound& open, const IdSet& in,
                                       RoundRecord* record) {
  last_left_out_.clear();
  std::vector<uint32_t> away;
  for (const Member& member : open.members) {
    Player& player = players_[{Role::kWorker, member.id}];
    // Who was closed out when every shard had reduced all of it took part.
    const bool closed = open.close && !open.close->Contains(member.id);
    if (!closed || in.Contains(member.id)) {
      player.left_out_in_a_row = 0;
      continue;
    }
    auto why = open.why.find(member.id);
    record->left_out.push_back(
        {member.id, RoundRecord::Reason::kMissing,
         why == open.why.end() ? "closed out" : why->second});
    last_left_out_.push_back(member.id);
    ++summary_.left_out[member.id];
    if (++player.left_out_in_a_row >= kLeftOutLimit && !player.gone)
      away.push_back(member.id);
  }
  return away;
}

// A shard that had done the round before a worker was closed out reduced all
// of that worker's chunks: exceptions as well, which only the lead can see.
void Lead::AddWholeShards(const OpenRound& open, const IdSet& in,
                          RoundRecord* record) const {
  for (const auto& [server, done] : open.done) {
    const int64_t chunks = config_.shard_chunks[server];
    for (uint32_t worker : done.participants) {
      if (chunks == 0 || in.Contains(worker)) continue;
      record->exceptions.push_back(
          {server, {worker, 0, static_cast<uint64_t>(chunks - 1)}});
    }
  }
}

void Lead::JudgeBadRound(const RoundRecord& record, int64_t first) {
  if (record.why_bad.empty()) {
    bad_rounds_ = 0;
    return;
  }
  Warn(absl::StrCat("round ", record.round, " is bad: ", record.why_bad));
  if (++bad_rounds_ < config_.job.max_bad_rounds) return;
  const std::string where =
      first >= 0 && config_.describe
          ? absl::StrCat("first bad at ", config_.describe(first))
          : record.why_bad;
  StopSoon(Code::kBadRounds, absl::StrCat(bad_rounds_,
                                          " bad rounds in a row "
                                          "(--max_bad_rounds), ",
                                          where));
}

// ---- Somebody is missing
// ------------------------------------------------------------------------

// The members complete on every shard. A shard that has done the round has
// everybody it needs; one that has not reported yet has nobody.
IdSet Lead::CompleteEverywhere(uint64_t round, OpenRound& open) {
  IdSet set = open.close ? *open.close : IdsOf(open.members);
  for (int s = 0; s < config_.job.servers; ++s) {
    if (shard_version_[s] > round) continue;
    set.Intersect(open.complete[s]);
  }
  return set;
}

void Lead::CheckDeadlines() {
  OpenRound* open = Find(version_);
  if (stage_ == Stage::kGathering || open == nullptr) return;
  if (open->deciding) return NameSlowServers();
  if (HasSilentShard(*open)) return;
  const IdSet complete = CompleteEverywhere(version_, *open);
  const std::vector<uint32_t> missing = MissingFrom(*open, complete);
  if (missing.empty()) return NameSlowServers();
  const bool quorum_over = IsQuorumOver(complete);
  if (!quorum_over && now_ < opened_ + RoundDeadline())
    return NameSlowWorkers(missing);
  if (!Enough(complete)) return TooFew(version_, complete);
  CloseRound(
      version_, *open, complete,
      quorum_over ? "late after the quorum" : "missed the round's deadline");
  // Whoever waited for credit gets it only now, and a deadline of its own.
  opened_ = now_;
  quorum_since_.reset();
}

// A shard that says nothing is slow or lost itself, up to twice the deadline:
// that is not the workers' fault.
bool Lead::HasSilentShard(const OpenRound& open) const {
  if (now_ >= opened_ + 2 * RoundDeadline()) return false;
  for (const auto& [server, version] : shard_version_) {
    if (version <= version_ && !open.complete.contains(server)) return true;
  }
  return false;
}

std::vector<uint32_t> Lead::MissingFrom(const OpenRound& open,
                                        const IdSet& complete) {
  const IdSet allowed = open.close ? *open.close : IdsOf(open.members);
  std::vector<uint32_t> missing;
  for (uint32_t worker : allowed.ToVector()) {
    if (!complete.Contains(worker)) missing.push_back(worker);
  }
  return missing;
}

// Notes when the quorum was first complete.
bool Lead::IsQuorumOver(const IdSet& complete) {
  const int quorum = config_.patience.quorum;
  if (quorum > 0 && complete.Count() >= quorum && !quorum_since_)
    quorum_since_ = now_;
  return quorum_since_ &&
         now_ >= *quorum_since_ + config_.patience.quorum_deadline;
}

void Lead::NameSlowWorkers(const std::vector<uint32_t>& missing) {
  if (now_ < next_patience_) return;
  std::vector<std::string> words;
  for (uint32_t worker : missing) {
    const PingMessage& ping = players_[{Role::kWorker, worker}].last_ping;
    words.push_back(absl::StrCat("worker ", worker, " (last in phase '",
                                 NameOf(ping.phase), "' of round ", ping.round,
                                 ")"));
  }
  WarnOfWaiting(words);
}

// Every worker is complete: the round is the servers' to end.
void Lead::NameSlowServers() {
  if (now_ < next_patience_) return;
  std::vector<std::string> words;
  for (const auto& [server, version] : shard_version_) {
    if (version <= version_) words.push_back(absl::StrCat("server ", server));
  }
  WarnOfWaiting(words);
}

void Lead::WarnOfWaiting(const std::vector<std::string>& whom) {
  next_patience_ = now_ + config_.patience.patience;
  Warn(absl::StrCat("round ", version_, " has waited ",
                    absl::FormatDuration(
                        absl::Trunc(now_ - opened_, absl::Milliseconds(100))),
                    " for ", absl::StrJoin(whom, ", ")));
}

void Lead::CloseRound(uint64_t round, OpenRound& open, const IdSet& workers,
                      const std::string& why) {
  std::vector<uint32_t> out;
  for (const Member& member : open.members) {
    if (workers.Contains(member.id) || open.why.contains(member.id)) continue;
    open.why[member.id] = why;
    out.push_back(member.id);
  }
  if (!out.empty() && round == version_)
    Warn(absl::StrCat("round ", round, " goes on without ", Names(out), ": ",
                      why));
  open.close = workers;
  effects_.push_back(TellServers{CloseMessage{round, workers}});
}

void Lead::CloseWithout(uint32_t worker, const std::string& why) {
  std::optional<IdSet> too_few;  // in some round
  for (auto& [round, open] : rounds_) {
    if (open.deciding) continue;
    IdSet left = open.close ? *open.close : IdsOf(open.members);
    if (!left.Contains(worker)) continue;
    left.Erase(worker);
    if (Enough(left)) {
      CloseRound(round, open, left, why);
    } else if (!too_few) {
      too_few = left;
    }
  }
  if (too_few) TooFew(version_, *too_few);
}

// A round cannot go on with those that are there.
void Lead::TooFew(uint64_t round, const IdSet& there) {
  if (!too_few_since_) {
    too_few_since_ = now_;
    std::vector<uint32_t> missing;
    for (const Member& member : rounds_[round].members) {
      if (!there.Contains(member.id)) missing.push_back(member.id);
    }
    Warn(absl::StrCat("round ", round, " waits: ", WhyTooFew(there),
                      "; missing: ", Names(missing)));
  }
  // Who is out of the job cannot come back, so with too few left there is
  // nothing to wait for.
  const bool hopeless = !Enough(IdsOf(MembersOf(Role::kWorker)));
  if (!hopeless && now_ < *too_few_since_ + config_.patience.insufficient_for)
    return;
  for (auto& [open_round, open] : rounds_) {
    if (open.deciding || (open.close && open.close->Empty())) continue;
    CloseRound(open_round, open, IdSet(), "too few were left");
  }
  StopSoon(Code::kTooFew,
           absl::StrCat(
               "too few workers are left to go on: ",
               WhyTooFew(hopeless ? IdsOf(MembersOf(Role::kWorker)) : there)));
}

}  // namespace parapet
