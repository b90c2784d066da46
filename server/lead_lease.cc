// The lead: leases, that is, what happens in which round.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/lead.h"

namespace parapet {
namespace {

constexpr uint64_t kMinAhead = 1, kMaxAhead = 8;

absl::Duration Median(std::vector<absl::Duration> values) {
  if (values.empty()) return absl::ZeroDuration();
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

// About a second of rounds.
uint64_t Lead::Ahead() const {
  const absl::Duration median = Median(recent_rounds_);
  if (median <= absl::ZeroDuration()) return kMinAhead;
  const double rounds = absl::FDivDuration(absl::Seconds(1), median);
  return static_cast<uint64_t>(
      std::clamp(rounds, double{kMinAhead}, double{kMaxAhead}));
}

absl::Duration Lead::RoundDeadline() const {
  if (config_.patience.round_deadline > absl::ZeroDuration())
    return config_.patience.round_deadline;
  return std::max(absl::Seconds(10), 10 * Median(recent_rounds_));
}

// What a round takes when everybody is there: schedules go by it, whoever is
// left.
uint64_t Lead::NominalSamples() const {
  const auto batch = static_cast<uint64_t>(config_.job.batch);
  return config_.job.data_split == "own"
             ? batch
             : batch * static_cast<uint64_t>(config_.job.workers);
}

uint64_t Lead::TotalRounds() const {
  if (config_.job.rounds > 0) return static_cast<uint64_t>(config_.job.rounds);
  if (samples_ == 0) return 0;
  return static_cast<uint64_t>(config_.job.epochs) *
         RoundsPerEpoch(samples_, NominalSamples());
}

bool Lead::AtEnd() const {
  if (config_.job.rounds > 0)
    return until_ >= static_cast<uint64_t>(config_.job.rounds);
  return cursor_.epoch() >= static_cast<uint64_t>(config_.job.epochs);
}

RoundFacts Lead::NextFacts() {
  const uint64_t per_epoch = RoundsPerEpoch(samples_, NominalSamples());
  const uint64_t by_cursor =
      cursor_.epoch() * per_epoch + cursor_.position() / NominalSamples();
  const uint64_t members =
      config_.job.data_split == "own" ? 1 : MembersOf(Role::kWorker).size();
  RoundFacts facts =
      cursor_.Take(members * static_cast<uint64_t>(config_.job.batch));
  const uint64_t step = config_.job.rounds > 0 ? until_ : by_cursor;
  facts.lr = LearningRate(config_.job.schedule, config_.job.workers, step,
                          TotalRounds(), per_epoch);
  if (config_.job.optimizer.moments() == 2) {
    const double count = static_cast<double>(until_ + 1);
    facts.bias1 = 1 - std::pow(config_.job.optimizer.beta1, count);
    facts.bias2 = 1 - std::pow(config_.job.optimizer.beta2, count);
  }
  return facts;
}

void Lead::IssueLeases() {
  if (stage_ != Stage::kTraining || stop_version_) return;
  const uint64_t ahead = Ahead();
  if (until_ >= version_ + 1 + (ahead + 1) / 2) return;
  IssueLease(version_ + 1 + ahead - until_);
}

void Lead::IssueLease(uint64_t rounds) {
  Lease lease{config_.term,
              until_,
              until_,
              MembersOf(Role::kWorker),
              MembersOf(Role::kEvaluator),
              {},
              {}};
  if (lease.members.empty())
    return StopSoon(Code::kTooFew, "no worker is left");
  if (const std::string why = WhyTooFew(IdsOf(lease.members)); !why.empty())
    return StopSoon(Code::kTooFew, absl::StrCat("too few are left: ", why));
  while (lease.until - lease.from < rounds && !AtEnd()) {
    OpenRound& open = rounds_[until_];
    open.members = lease.members;
    lease.facts.push_back(NextFacts());
    open.facts = lease.facts.back();
    lease.until = ++until_;
    if (AtEnd()) {
      AddStopMarks(&lease);
    } else {
      AddMarks(cursor_.at_epoch_start(), &lease);
    }
  }
  leases_.push_back(lease);
  effects_.push_back(TellAll{LeaseMessage{std::move(lease)}});
}

void Lead::AddMarks(bool epoch_ended, Lease* lease) {
  const auto due = [this](int64_t every) {
    return every > 0 && until_ % static_cast<uint64_t>(every) == 0;
  };
  const bool snapshot =
      due(config_.snapshot.every) && !config_.snapshot.dir.empty();
  if (snapshot && snapshots_.empty()) {
    MarkSnapshot(lease);
  } else if (snapshot) {
    Warn(absl::StrCat("no snapshot of version ", until_,
                      ": the one before is still being written"));
  }
  if (due(config_.job.hash_every) &&
      !lease->HasMark(Mark::Kind::kHash, until_)) {
    lease->marks.push_back({Mark::Kind::kHash, until_});
  }
  if (epoch_ended && evaluating_) {
    ++skipped_evaluations_;
  } else if (epoch_ended) {
    MarkEvaluation(lease);
  }
}

void Lead::MarkSnapshot(Lease* lease) {
  if (!snapshots_
           .emplace(until_,
                    PendingSnapshot{
                        cursor_.epoch(), cursor_.position(), {}, false, {}})
           .second)
    return;
  lease->marks.push_back({Mark::Kind::kSnapshot, until_});
  lease->marks.push_back({Mark::Kind::kHash, until_});
}

void Lead::MarkEvaluation(Lease* lease) {
  if (lease->evaluators.empty() ||
      (evaluating_ && evaluation_version_ == until_))
    return;
  lease->marks.push_back({Mark::Kind::kEvaluate, until_});
  evaluating_ = true;
  evaluation_version_ = until_;
}

void Lead::AddStopMarks(Lease* lease) {
  stop_version_ = until_;
  lease->marks.push_back({Mark::Kind::kStop, until_});
  // Where the job began there is a snapshot already, or nothing worth one.
  if (!config_.snapshot.dir.empty() && until_ != config_.version)
    MarkSnapshot(lease);
  if (!lease->HasMark(Mark::Kind::kHash, until_))
    lease->marks.push_back({Mark::Kind::kHash, until_});
  MarkEvaluation(lease);
}

// Stops at the end of what is leased: the first version that every shard can
// still agree on.
void Lead::StopSoon(Code code, const std::string& words) {
  // A failure counts even when the end is already marked.
  if (stop_code_ == Code::kOk) {
    stop_code_ = code;
    stop_words_ = words;
  }
  if (stop_version_) return;
  stop_deadline_ = now_ + config_.patience.grace;
  Lease lease{config_.term,
              until_,
              until_,
              MembersOf(Role::kWorker),
              MembersOf(Role::kEvaluator),
              {},
              {}};
  AddStopMarks(&lease);
  leases_.push_back(lease);
  effects_.push_back(TellAll{LeaseMessage{std::move(lease)}});
}

}  // namespace parapet
