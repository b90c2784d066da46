// The lead: snapshots, weights hashes and the end of the job.

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/lead.h"

namespace parapet {
namespace {

// How long the last evaluation may take after training has ended by itself.
constexpr absl::Duration kLastWords = absl::Minutes(10);

}  // namespace

// ---- Hashes
// -------------------------------------------------------------------------------------

void Lead::On(HashIn& event) {
  if (event.message.version > until_) return;  // there is no such version
  hashes_[event.message.version][event.peer] = event.message;
  CheckHashes(event.message.version);
  // What a snapshot or the end waits for stays, whatever else is told.
  constexpr size_t kKept = 16;
  for (auto it = hashes_.begin();
       hashes_.size() > kKept && it != hashes_.end();) {
    const bool waited =
        snapshots_.contains(it->first) || stop_version_ == it->first;
    it = waited ? std::next(it) : hashes_.erase(it);
  }
  TryCommit();
  CheckEnd();
}

bool Lead::ServersHashed(uint64_t version) const {
  auto it = hashes_.find(version);
  if (it == hashes_.end()) return false;
  for (int s = 0; s < config_.job.servers; ++s) {
    if (!it->second.contains({Role::kServer, static_cast<uint32_t>(s)}))
      return false;
  }
  return true;
}

void Lead::CheckHashes(uint64_t version) {
  if (!ServersHashed(version)) return;
  uint64_t master = 0, wire = 0;
  const auto& all = hashes_[version];
  for (const auto& [peer, message] : all) {
    if (peer.role != Role::kServer) continue;
    master += message.master;
    wire += message.wire;
  }
  if (stop_version_ == version) summary_.weights_hash = master;
  for (const auto& [peer, message] : all) {
    if (peer.role == Role::kServer || message.wire == wire) continue;
    Warn(absl::StrCat(NameOf(peer), " holds other weights of version ", version,
                      " than the servers sent"));
  }
}

// ---- Snapshots
// ----------------------------------------------------------------------------------

void Lead::On(SnapshotDoneIn& event) {
  auto it = snapshots_.find(event.message.version);
  if (it == snapshots_.end()) return;
  // A worker has one file, whatever it calls it.
  if (event.peer.role == Role::kWorker)
    event.message.file.name = WorkerFileName(event.peer.id);
  if (!event.message.ok && event.peer.role == Role::kServer) {
    const std::string words =
        absl::StrCat("no snapshot of version ", it->first, ": ",
                     NameOf(event.peer), ": ", event.message.words);
    Warn(words);
    if (stop_version_ == it->first && stop_code_ == Code::kOk) {
      stop_code_ = Code::kFailed;
      stop_words_ = words;
    }
    snapshots_.erase(it);
  } else {
    it->second.done[event.peer] = std::move(event.message);
  }
  TryCommit();
  CheckEnd();
}

void Lead::TryCommit() {
  for (auto& [version, pending] : snapshots_) {
    if (pending.committing || !ServersHashed(version)) continue;
    bool servers = true, workers = true;
    for (int s = 0; s < config_.job.servers; ++s) {
      servers = servers && pending.done.contains(
                               {Role::kServer, static_cast<uint32_t>(s)});
    }
    if (!servers) continue;
    if (!pending.since) pending.since = now_;
    if (config_.job.worker_momentum > 0) {
      for (const Member& member : MembersOf(Role::kWorker)) {
        workers = workers && pending.done.contains({Role::kWorker, member.id});
      }
    }
    const bool waited = now_ >= *pending.since + config_.patience.grace / 2;
    if (!workers && !waited) continue;
    CommitSnapshotOf(version, pending);
  }
}

void Lead::CommitSnapshotOf(uint64_t version, PendingSnapshot& pending) {
  Manifest manifest;
  manifest.version = version;
  manifest.layout_hash = config_.layout_hash;
  manifest.job = config_.job.ToText();
  manifest.epoch = pending.epoch;
  manifest.position = pending.position;
  manifest.term = config_.term;
  for (const auto& [peer, message] : hashes_[version]) {
    if (peer.role == Role::kServer) manifest.weights_hash += message.master;
  }
  for (const auto& [peer, message] : pending.done) {
    if (message.ok) manifest.files.push_back(message.file);
    if (!message.ok)
      Warn(absl::StrCat("snapshot of version ", version, " without ",
                        NameOf(peer), ": ", message.words));
  }
  pending.committing = true;
  effects_.push_back(CommitIt{std::move(manifest)});
}

void Lead::On(CommittedIn& event) {
  snapshots_.erase(event.version);
  if (event.status.ok()) {
    Note(absl::StrCat("snapshot of version ", event.version, " is in ",
                      config_.snapshot.dir));
  } else {
    Warn(absl::StrCat("no snapshot of version ", event.version, ": ",
                      event.status.message()));
    if (stop_version_ == event.version && stop_code_ == Code::kOk) {
      stop_code_ = Code::kFailed;
      stop_words_ = absl::StrCat("the last snapshot could not be written: ",
                                 event.status.message());
    }
  }
  CheckEnd();
}

// ---- The end
// ------------------------------------------------------------------------------------

void Lead::On(EvalReportIn& event) {
  const EvalReportMessage& m = event.message;
  if (m.samples == 0 || m.version < summary_.evaluated_version) return;
  if (m.version > until_) return;  // there is no such version
  // A slow evaluator may have been sent a newer version than the marked one.
  if (m.version >= evaluation_version_) evaluating_ = false;
  const bool first =
      !summary_.test_accuracy || m.version > summary_.evaluated_version;
  summary_.evaluated_version = m.version;
  summary_.test_accuracy =
      static_cast<double>(m.correct) / static_cast<double>(m.samples);
  summary_.test_loss = m.loss_sum / static_cast<double>(m.samples);
  last_evaluated_ = stop_version_ == m.version;
  if (first) effects_.push_back(Evaluated{m, last_evaluated_});
  CheckEnd();
}

// The workers that have not shown the last version's hash.
std::vector<uint32_t> Lead::WithoutTheEnd() const {
  std::vector<uint32_t> without;
  const auto hashed = hashes_.find(*stop_version_);
  for (const Member& member : MembersOf(Role::kWorker)) {
    const bool has = hashed != hashes_.end() &&
                     hashed->second.contains({Role::kWorker, member.id});
    if (!has) without.push_back(member.id);
  }
  return without;
}

bool Lead::EverythingIn(std::string* missing) const {
  std::vector<std::string> words;
  for (const auto& [version, pending] : snapshots_)
    words.push_back(absl::StrCat("the snapshot of version ", version));
  if (!ServersHashed(*stop_version_))
    words.push_back("the servers' weights hashes");
  // One that answers pings and nothing else is not waited for any longer than
  // in a round.
  const bool waited = now_ >= ending_since_ + RoundDeadline();
  for (uint32_t worker : WithoutTheEnd()) {
    if (waited) break;
    words.push_back(
        absl::StrCat("worker ", worker, " to have the last version"));
  }
  if (!MembersOf(Role::kEvaluator).empty() && !last_evaluated_)
    words.push_back("the last evaluation");
  *missing = absl::StrJoin(words, ", ");
  return words.empty();
}

void Lead::CheckEnd() {
  if (finished_ || !stop_version_ || stage_ == Stage::kGathering) return;
  if (version_ >= *stop_version_ && stage_ != Stage::kEnding) {
    stage_ = Stage::kEnding;
    ending_since_ = now_;
    if (steady_since_) {
      const double seconds = absl::ToDoubleSeconds(now_ - steady_since_->first);
      if (seconds > 0) {
        summary_.samples_per_second =
            static_cast<double>(samples_done_ - steady_since_->second) /
            seconds;
      }
    }
    if (stop_deadline_ == absl::InfiniteFuture())
      stop_deadline_ = now_ + kLastWords;
    next_patience_ = now_ + config_.patience.patience;
  }
  std::string missing = "the stop version";
  if (stage_ == Stage::kEnding && EverythingIn(&missing)) {
    for (uint32_t worker : WithoutTheEnd()) {
      Warn(absl::StrCat("worker ", worker, " never had the last version"));
    }
    return End(stop_code_, stop_words_);
  }
  if (now_ >= stop_deadline_) {
    // Why it stops says more than that it did not do so in time.
    const bool failed = stop_code_ != Code::kOk;
    return End(failed ? stop_code_ : Code::kFailed,
               absl::StrCat(failed ? absl::StrCat(stop_words_, "; ") : "",
                            "the time to end the job is over; still missing: ",
                            missing));
  }
  if (stage_ == Stage::kEnding && now_ >= next_patience_) {
    next_patience_ = now_ + config_.patience.patience;
    Warn(absl::StrCat("the job has ended and waits for ", missing));
  }
}

// Without its shard no round ends.
void Lead::On(CannotIn& event) {
  End(Code::kFailed,
      absl::StrCat("server ", event.server, " cannot go on: ", event.words));
}

void Lead::End(Code code, const std::string& words) {
  if (finished_) return;
  finished_ = true;
  summary_.complete = code == Code::kOk;
  summary_.code = code;
  summary_.words = words;
  summary_.rounds = version_;
  summary_.samples = samples_done_;
  summary_.skipped_evaluations = skipped_evaluations_;
  for (const auto& [server, bytes] : bytes_) {
    summary_.bytes_pushed += bytes.first;
    summary_.bytes_published += bytes.second;
  }
  LossPoint sum;
  for (const auto& [round, point] : losses_) {
    sum.loss_sum += point.loss_sum;
    sum.samples += point.samples;
  }
  summary_.final_loss =
      sum.samples == 0 ? 0 : sum.loss_sum / static_cast<double>(sum.samples);
  effects_.push_back(TellAll{ByeMessage{code, words}});
  effects_.push_back(Finish{summary_});
}

}  // namespace parapet
