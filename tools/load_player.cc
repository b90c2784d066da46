#include "tools/load_player.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model_spec.h"
#include "common/process_setup.h"
#include "common/rng.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr uint64_t kStragglers = 0x7374726167;
constexpr size_t kKeptLeases = 32;
SessionConfig MakeSessionConfig(const LoadPlan& plan, int id) {
  const JobConfig& job = plan.flags.common.job;
  SessionConfig config;
  config.self = {Role::kWorker, static_cast<uint32_t>(id)};
  config.connections = job.connections;
  config.nonce = SystemRandom();
  config.layout_hash = plan.layout.hash();
  config.samples = static_cast<uint64_t>(job.train_samples);
  config.fingerprint = "parapet load";
  config.job = job.ToText();
  config.wire = job.wire;
  config.wire_scale = job.wire == DType::kFloat16 ? job.wire_scale : 1;
  config.patience = plan.flags.common.patience;
  return config;
}

// By chunk: how much of the backward pass is over when the last of its
// gradients comes. A tensor's gradients come together, at its end.
std::vector<double> ReadyParts(const Layout& layout, const ShardMap& map) {
  std::vector<double> parts;
  const auto all = static_cast<double>(layout.elements());
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    const auto tensor =
        static_cast<size_t>(layout.TensorAt(map.ChunkRange(chunk).begin));
    parts.push_back(1 -
                    static_cast<double>(layout.tensors()[tensor].offset) / all);
  }
  return parts;
}

}  // namespace

std::optional<absl::Time> LoadSchedule::DueAt(uint64_t round, absl::Time now) {
  const int64_t measured = static_cast<int64_t>(round) - warmup_;
  if (rate_ <= 0 || measured < 0) return std::nullopt;
  int64_t began = 0;
  const int64_t fresh = absl::ToUnixNanos(now);
  if (began_.compare_exchange_strong(began, fresh)) began = fresh;
  return absl::FromUnixNanos(began) +
         absl::Seconds(static_cast<double>(measured) / rate_);
}

absl::StatusOr<std::unique_ptr<LoadPlan>> MakeLoadPlan(const LoadFlags& flags) {
  const JobConfig& job = flags.common.job;
  PARAPET_ASSIGN_OR_RETURN(Layout layout, ModelLayout(job.model, {}));
  PARAPET_ASSIGN_OR_RETURN(
      const ShardMap map,
      ShardMap::Create(flags.parameters, job.servers, job.chunk, job.leaf));
  auto plan = std::make_unique<LoadPlan>();
  plan->flags = flags;
  plan->layout = std::move(layout);
  plan->map = map;
  plan->ready = ReadyParts(plan->layout, map);
  plan->servers = flags.servers;
  plan->device = MakeCpuDevice();
  const Device& device = *plan->device;
  plan->values = std::make_unique<LoadValues>(job.seed, map.elements(),
                                              job.wire, job.wire_scale, device);
  PARAPET_ASSIGN_OR_RETURN(
      plan->attacks,
      LoadAttacks::Create({flags.attack, job.seed, job.wire, job.wire_scale},
                          *plan->values, map, device));
  plan->attendance = std::make_unique<LoadAttendance>(
      flags.attack, flags.first_worker, flags.players);
  plan->means = std::make_unique<LoadMeans>(*plan->values, plan->attacks.get(),
                                            map, device);
  plan->checker = std::make_unique<LoadChecker>(
      LoadChecker::Config{flags.check, flags.KnowsValues(), job.schedule.lr,
                          job.wire},
      job.seed, map, *plan->means, *plan->attendance, device);
  plan->schedule = std::make_unique<LoadSchedule>(flags.rate, flags.warmup);
  return plan;
}

LoadPlayer::LoadPlayer(LoadPlan* plan, int id, net::Transport* transport,
                       LoadStats* stats, Logger* logger, absl::Time now)
    : plan_(plan),
      id_(id),
      straggles_(IsHeldUp(plan->flags.stragglers, plan->flags.common.job.seed,
                          id, plan->flags.common.job.workers)),
      attacks_(plan->flags.attack.Attacks(static_cast<uint32_t>(id))),
      stats_(stats),
      now_(now),
      core_(MakeSessionConfig(*plan, id), plan->map, plan->servers, transport,
            this, logger, now),
      pushed_at_(static_cast<size_t>(plan->map.chunks())) {}

void LoadPlayer::Handle(net::Event event, absl::Time now) {
  now_ = now;
  core_.Handle(std::move(event), now);
  Go(now);
}

void LoadPlayer::Tick(absl::Time now) {
  now_ = now;
  if (finished_) return;
  core_.Tick(now);
  Go(now);
}

void LoadPlayer::Go(absl::Time now) {
  if (start_at_ <= now) Push(now);
  PushReady(now);
}

absl::Time LoadPlayer::NextDeadline() const {
  if (finished_) return absl::InfiniteFuture();
  return std::min({core_.NextDeadline(), start_at_, NextChunkAt()});
}

void LoadPlayer::AskToStop(absl::Time now) {
  now_ = now;
  if (!finished_)
    core_.TellLead(StoppingMessage{"has measured long enough"}, now);
}

// ---- Pushing
// ------------------------------------------------------------------------------

// Whether the version is whole, is not the last, and is that of a round in
// which this worker takes part.
bool LoadPlayer::MayPush() const {
  if (!whole_ || pushed_ == version_ || finished_) return false;
  bool leased = false;
  for (const Lease& lease : leases_) {
    if (lease.HasMark(Mark::Kind::kStop, version_)) return false;
    leased = leased || (version_ >= lease.from && version_ < lease.until);
  }
  return leased;
}

absl::Duration LoadPlayer::StraggleOf(uint64_t round) const {
  if (!straggles_) return absl::ZeroDuration();
  const uint64_t key = MixKey(plan_->flags.common.job.seed, kStragglers);
  return plan_->flags.stragglers.At(key, id_, round);
}

// When to push; `due_` is what latencies count from.
absl::Time LoadPlayer::StartOf(uint64_t round) {
  const std::optional<absl::Time> due = plan_->schedule->DueAt(round, now_);
  due_ = due.value_or(whole_at_);
  return std::max(due_, whole_at_) + StraggleOf(round);
}

// Begins a round.
void LoadPlayer::Push(absl::Time now) {
  start_at_ = absl::InfiniteFuture();
  if (!MayPush()) return;
  pushed_ = version_;
  push_began_ = now;
  left_ = plan_->map.chunks();
  plan_->attendance->NotePush(id_, version_);
  PushReady(now);
}

absl::Time LoadPlayer::NextChunkAt() const {
  if (left_ == 0) return absl::InfiniteFuture();
  return push_began_ +
         plan_->flags.backward * plan_->ready[static_cast<size_t>(left_ - 1)];
}

// The chunks whose gradients are there, from the highest on.
void LoadPlayer::PushReady(absl::Time now) {
  if (left_ == 0 || finished_) return;
  for (; NextChunkAt() <= now; --left_) PushChunk(left_ - 1, now);
  if (left_ > 0) return;
  if (attacks_) PushOtherwise(now);
  if (attacks_ && plan_->flags.attack.attack.kind == AttackKind::kSilent)
    return;
  core_.TellLead(RoundDoneMessage{*pushed_, 0, 0, 1, {}}, now);
  core_.SetPhase(*pushed_ + 1, Phase::kWait, now);
}

void LoadPlayer::PushChunk(int64_t chunk, absl::Time now) {
  pushed_at_[static_cast<size_t>(chunk)] = now;
  if (attacks_ && !plan_->attacks->Pushes(chunk)) return;
  Payload data = attacks_ ? plan_->attacks->Push(id_, *pushed_, chunk)
                          : plan_->values->Push(id_, *pushed_,
                                                plan_->map.ChunkRange(chunk));
  core_.ChunkReady(*pushed_, chunk, 1, std::move(data), now);
}

// Attacks that are conduct: sent beside what the session sends.
void LoadPlayer::PushOtherwise(absl::Time now) {
  const AttackKind kind = plan_->flags.attack.attack.kind;
  const ShardMap& map = plan_->map;
  const JobConfig& job = plan_->flags.common.job;
  const double scale = job.wire == DType::kFloat16 ? job.wire_scale : 1;
  const auto push = [&](uint64_t round, int64_t chunk, Payload data) {
    core_.PushAsIs({round, static_cast<uint64_t>(chunk), 1, job.wire, scale,
                    std::move(data)},
                   now);
  };
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    if (kind == AttackKind::kEquivocate) {
      push(*pushed_, chunk, plan_->attacks->Opposite(id_, *pushed_, chunk));
    } else if (kind == AttackKind::kReplay && *pushed_ > 0) {
      push(*pushed_ - 1, chunk, plan_->attacks->Push(id_, *pushed_, chunk));
    }
    // Of each round what belongs to it, so that it is known whatever is kept.
    for (uint64_t ahead = 1;
         kind == AttackKind::kFlood && ahead <= kFloodRounds; ++ahead)
      push(*pushed_ + ahead, chunk,
           plan_->attacks->Push(id_, *pushed_ + ahead, chunk));
  }
}

// ---- What comes
// ----------------------------------------------------------------------------

void LoadPlayer::OnAdmitted(uint64_t version, const std::string&) {
  version_ = version;
}

void LoadPlayer::OnLease(const Lease& lease) {
  plan_->attendance->NoteLease(lease);
  leases_.push_back(lease);
  if (leases_.size() > kKeptLeases) leases_.erase(leases_.begin());
  if (MayPush() && start_at_ == absl::InfiniteFuture())
    start_at_ = StartOf(version_);
}

void LoadPlayer::OnVersion(uint64_t version) {
  // Those between, and the one before if it was not whole. Who attacks may be
  // left out.
  if (known_ && !attacks_)
    stats_->lost += version - version_ - (whole_ ? 1 : 0);
  known_ = true;
  version_ = version;
  whole_ = false;
  present_ = 0;
  hash_ = 0;
  // A round that is over is not pushed to its end.
  if (pushed_.has_value() && version > *pushed_ + 1) left_ = 0;
  start_at_ = absl::InfiniteFuture();
}

void LoadPlayer::OnChunk(uint64_t version, int64_t chunk, Payload data) {
  ++taken_;
  stats_->received_bytes += data.size();
  const LoadChecker::Result result =
      plan_->checker->Check(version, chunk, data);
  hash_ += result.hash;
  if (result.verdict == LoadChecker::Verdict::kTorn) ++stats_->torn;
  if (result.verdict == LoadChecker::Verdict::kWrong) ++stats_->wrong;
  const bool answers = pushed_.has_value() && version == *pushed_ + 1;
  if (present_++ == 0) first_at_ = now_;
  if (answers && Measured(*pushed_))
    stats_->push_ack.Add(now_ - pushed_at_[static_cast<size_t>(chunk)]);
  if (present_ == plan_->map.chunks()) NoteWhole();
}

void LoadPlayer::NoteWhole() {
  whole_ = true;
  whole_at_ = now_;
  if (pushed_.has_value() && version_ == *pushed_ + 1) NoteLatencies();
  if (!attacks_ && version_ == static_cast<uint64_t>(plan_->flags.warmup)) {
    ++stats_->warm;
    stats_->began = std::max(stats_->began, now_);
  }
  if (MayPush()) start_at_ = StartOf(version_);
}

void LoadPlayer::NoteLatencies() {
  ++stats_->all_rounds;
  if (!Measured(*pushed_)) return;
  const uint64_t moved =
      2 * static_cast<uint64_t>(
              plan_->flags.parameters *
              static_cast<int64_t>(SizeOf(plan_->flags.common.job.wire)));
  ++stats_->rounds;
  stats_->first_weights.Add(first_at_ - push_began_);
  stats_->last_weights.Add(now_ - push_began_);
  stats_->round.Add(now_ - due_);
  stats_->timeline.Add(now_ - plan_->began, now_ - due_, moved);
  stats_->ended = std::max(stats_->ended, now_);
}

uint64_t LoadPlayer::HashOf(uint64_t) { return hash_; }

void LoadPlayer::OnFinish(Code code, const std::string& words) {
  finished_ = true;
  ++stats_->finished;
  stats_->pushed_bytes += core_.session().bytes_pushed();
  // A push of an old round is answered with weights.
  if (!attacks_) stats_->repeated += weights_seen_ - taken_;
  if (ExitCodeOf(code) == 0) return;
  // Attackers may well be sent away.
  if (attacks_) {
    ++stats_->sent_away;
  } else {
    ++stats_->failures[words];
  }
}

void LoadPlayer::OnMessage(const Message& message) {
  if (std::holds_alternative<WeightsMessage>(message.body)) {
    ++weights_seen_;
  } else if (const auto* refuse = std::get_if<RefuseMessage>(&message.body)) {
    ++stats_->refusals[refuse->code];
  } else if (const auto* ack = std::get_if<AckMessage>(&message.body)) {
    if (ack->status == AckStatus::kLate) ++stats_->late;
    if (ack->status == AckStatus::kDuplicate) ++stats_->duplicate;
  }
}

void LoadPlayer::OnLost(const Session::LinkKey&, const std::string&) {
  ++stats_->retries;
}

}  // namespace parapet
