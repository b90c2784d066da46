#include "server/lead.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

// How often deadlines are looked at.
constexpr absl::Duration kTick = absl::Milliseconds(20);
// Losses of how many rounds are averaged, and over how long the speed is.
constexpr size_t kLossRounds = 20;
constexpr absl::Duration kSpeedWindow = absl::Seconds(5);

}  // namespace

Lead::Lead(const LeadConfig& config, std::function<uint64_t()> random,
           absl::Time now)
    : config_(config),
      chain_(rules::Chain::Parse(config.job.rule).value()),
      random_(std::move(random)),
      now_(now),
      next_tick_(now + kTick),
      began_waiting_(now),
      next_patience_(now + config.patience.patience),
      until_(config.version),
      samples_(config.samples),
      cursor_(std::max<uint64_t>(config.samples, 1), config.epoch,
              config.position),
      version_(config.version),
      opened_(now),
      last_round_at_(now) {
  for (int s = 0; s < config_.job.servers; ++s) shard_version_[s] = version_;
  Player& self = players_[{Role::kServer, 0}];
  self.session = NewSession();
}

std::vector<Lead::Effect> Lead::Handle(Event event, absl::Time now) {
  now_ = now;
  if (finished_) return {};
  std::visit([this](auto& e) { On(e); }, event);
  return std::exchange(effects_, {});
}

void Lead::On(TickIn&) {
  next_tick_ = now_ + kTick;
  if (stage_ == Stage::kGathering) {
    if (now_ >= next_patience_) {
      next_patience_ = now_ + config_.patience.patience;
      Warn(absl::StrCat("has waited ",
                        absl::FormatDuration(absl::Trunc(now_ - began_waiting_,
                                                         absl::Seconds(1))),
                        " for ", Missing()));
    }
    if (now_ >= began_waiting_ + config_.patience.start_timeout) {
      End(Code::kLost,
          absl::StrCat(
              "the job cannot begin: still missing after --start_timeout: ",
              Missing()));
    }
    return;
  }
  CheckAlive();
  if (finished_) return;
  CheckDeadlines();
  TryCommit();
  CheckEnd();
}

void Lead::On(PingIn& event) {
  auto it = players_.find(event.peer);
  if (it == players_.end()) return;
  it->second.heard = now_;
  it->second.last_ping = event.ping;
}

void Lead::On(StopIn& event) {
  if (stage_ == Stage::kGathering)
    return End(Code::kStopped,
               absl::StrCat("stopped before it began: ", event.who));
  if (stop_version_) return;
  Note(absl::StrCat(event.who, "; the job stops at version ", until_));
  StopSoon(Code::kOk, absl::StrCat("stopped as asked: ", event.who));
}

void Lead::On(RoundDoneIn& event) {
  const RoundDoneMessage& m = event.message;
  if (m.round >= until_) return;  // a round that nobody may have begun
  // Of a round so old that nobody knows whether it was reported before; or more
  // than a worker can have been given.
  const bool old =
      losses_.size() == kLossRounds && m.round < losses_.begin()->first;
  if (old || m.samples > static_cast<uint64_t>(config_.job.batch)) return;
  LossPoint& point = losses_[m.round];
  if (point.from.Contains(event.worker)) return;  // told again
  point.from.Insert(event.worker);
  point.loss_sum += m.loss_sum;
  point.samples += m.samples;
  while (losses_.size() > kLossRounds) losses_.erase(losses_.begin());
  for (int i = 0; i < kPhases; ++i)
    summary_.phases[i] += m.phases[i] / config_.job.workers;
}

Lead::Progress Lead::GetProgress(absl::Time now) const {
  Progress progress;
  progress.version = version_;
  progress.total = TotalRounds();
  const OpenRound* open = rounds_.empty() ? nullptr : &rounds_.begin()->second;
  progress.members =
      open == nullptr ? MembersOf(Role::kWorker).size() : open->members.size();
  for (const Lease& lease : leases_) {
    if (version_ >= lease.from && version_ < lease.until)
      progress.epoch = lease.facts[version_ - lease.from].epoch;
  }
  LossPoint sum;
  for (const auto& [round, point] : losses_) {
    sum.loss_sum += point.loss_sum;
    sum.samples += point.samples;
  }
  progress.loss =
      sum.samples == 0 ? 0 : sum.loss_sum / static_cast<double>(sum.samples);
  for (const auto& [at, samples] : speed_) {
    if (at < now - kSpeedWindow) continue;
    const double seconds = absl::ToDoubleSeconds(now - at);
    if (seconds > 0)
      progress.samples_per_second =
          static_cast<double>(samples_done_ - samples) / seconds;
    break;
  }
  progress.accuracy = summary_.test_accuracy;
  progress.left_out = last_left_out_;
  progress.suspects = Suspects();
  return progress;
}

uint64_t Lead::NewSession() const {
  uint64_t session = 0;
  while (session == 0) session = random_();
  return session;
}

uint64_t Lead::SessionOf(const Peer& peer) const {
  auto it = players_.find(peer);
  return it == players_.end() || it->second.gone ? 0 : it->second.session;
}

}  // namespace parapet
