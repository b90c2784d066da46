#include "worker/trainer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "common/sampler.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr int64_t kEvaluationBatch = 256;

// Adds the time from its making to its end to a sum, and to the trace.
class Stopwatch {
 public:
  Stopwatch(const TrainerParts& parts, const char* name, uint64_t number,
            double* seconds)
      : parts_(parts),
        name_(name),
        number_(number),
        seconds_(seconds),
        began_(parts.clock->Now()) {}
  ~Stopwatch() {
    const absl::Time end = parts_.clock->Now();
    *seconds_ += absl::ToDoubleSeconds(end - began_);
    if (parts_.trace != nullptr)
      parts_.trace->Span(name_, static_cast<int64_t>(number_), 0, began_, end);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const TrainerParts& parts_;
  const char* const name_;
  const uint64_t number_;
  double* const seconds_;
  const absl::Time began_;
};

}  // namespace

Trainer::Trainer(TrainerConfig config, TrainerParts parts)
    : config_(std::move(config)), parts_(parts) {
  weights_.resize(parts_.model->layout().elements());
  // Whose labels are poisoned works with them like anybody else.
  if (!attacks() || config_.attack.attack.kind == AttackKind::kLabelFlip)
    return;
  const Contribution contribution{parts_.model, parts_.device,
                                  config_.job.worker_momentum};
  attacker_ = std::make_unique<Attacker>(
      config_.attack, config_.job.seed, contribution,
      [this](uint64_t epoch, const Share& share) {
        return Gather(epoch, share);
      },
      parts_.client);
}

absl::Status Trainer::Run() {
  const absl::StatusOr<std::string> joined = parts_.client->Join();
  if (absl::IsCancelled(joined.status())) return absl::OkStatus();
  PARAPET_ASSIGN_OR_RETURN(const std::string folder, joined);
  if (config_.job.worker_momentum > 0) PARAPET_RETURN_IF_ERROR(Restore(folder));
  if (attacker_ != nullptr)
    PARAPET_RETURN_IF_ERROR(attacker_->Prepare(*parts_.disk, folder));
  while (true) {
    absl::StatusOr<Client::Next> next = parts_.client->WaitNext();
    if (absl::IsCancelled(next.status())) return absl::OkStatus();
    if (!next.ok()) return next.status();
    if (next->snapshot) Snapshot(next->version);
    if (next->kind == Client::Next::Kind::kEnd) return parts_.client->Leave();
    const absl::Status done = RunRound(*next);
    if (absl::IsAborted(done))
      continue;  // left behind: there is a newer version to work with
    if (absl::IsCancelled(done)) return absl::OkStatus();
    PARAPET_RETURN_IF_ERROR(done);
  }
}

Batch Trainer::Gather(uint64_t epoch, const Share& share) {
  const auto samples = parts_.samples;
  if (epoch_ != epoch) {
    // Workers with data of their own shuffle it each in a way of its own.
    const bool own = config_.job.data_split == "own";
    permutation_ = EpochPermutation(
        own ? MixKey(config_.job.seed, 1 + config_.id) : config_.job.seed,
        epoch, samples);
    epoch_ = epoch;
  }
  inputs_.resize(share.count *
                 static_cast<uint64_t>(parts_.data->shape().features()));
  labels_.resize(share.count);
  parts_.data->Gather(
      absl::MakeConstSpan(permutation_).subspan(share.begin, share.count),
      inputs_.data(), labels_.data());
  if (attacks() && config_.attack.attack.kind == AttackKind::kLabelFlip)
    FlipLabels(parts_.data->shape().classes, absl::MakeSpan(labels_));
  return {inputs_.data(), labels_.data(), static_cast<int64_t>(share.count)};
}

absl::Status Trainer::RunRound(const Client::Next& next) {
  if (next.share.count == 0) {
    parts_.client->Abstain(next);
    return absl::OkStatus();
  }
  if (attacker_ != nullptr) {
    return attacker_->RunRound(next, weights_.data(),
                               momentum_.empty() ? nullptr : momentum_.data());
  }
  return Work(next);
}

absl::Status Trainer::Work(const Client::Next& next) {
  seconds_ = {};
  float* gradient = parts_.client->BeginRound(next);
  Batch batch;
  {
    Stopwatch watch(parts_, "data", next.version,
                    &seconds_[static_cast<int>(Phase::kData)]);
    batch = Gather(next.epoch, next.share);
  }
  PassTimes times;
  const PassHooks hooks = MakeHooks(next.version, gradient, &times);
  parts_.client->SetPhase(next.version, Phase::kForward);
  absl::StatusOr<PassResult> result;
  {
    Stopwatch watch(parts_, "round", next.version, &times.whole);
    result = parts_.model->Train(weights_.data(), batch, gradient, hooks);
  }
  if (!result.ok()) return result.status();
  Account(times);
  std::array<float, kPhases> phases{};
  std::copy(seconds_.begin(), seconds_.end(), phases.begin());
  parts_.client->EndRound(result->loss_sum,
                          static_cast<uint64_t>(result->correct), phases);
  parts_.client->SetPhase(next.version + 1, Phase::kWait);
  return absl::OkStatus();
}

PassHooks Trainer::MakeHooks(uint64_t version, float* gradient,
                             PassTimes* times) {
  PassHooks hooks;
  hooks.need_weights = [this, times](Range range) {
    Stopwatch watch(parts_, "weights of", range.begin, &times->waited);
    return parts_.client->Weights(range, weights_.data());
  };
  const absl::Time began = parts_.clock->Now();
  hooks.gradient_ready = [this, version, gradient, times, began](Range range) {
    if (times->forward == 0) {
      times->forward = absl::ToDoubleSeconds(parts_.clock->Now() - began);
      parts_.client->SetPhase(version, Phase::kBackward);
    }
    Stopwatch watch(parts_, "gradient of", range.begin, &times->pushed);
    Push(range, gradient);
    return absl::OkStatus();
  };
  return hooks;
}

void Trainer::Account(const PassTimes& times) {
  const auto phase = [this](Phase one) -> double& {
    return seconds_[static_cast<int>(one)];
  };
  phase(Phase::kWait) = times.waited;
  phase(Phase::kForward) = std::max(0.0, times.forward - times.waited);
  phase(Phase::kBackward) =
      std::max(0.0, times.whole - times.forward - times.pushed);
  phase(Phase::kPush) = times.pushed;
}

void Trainer::Push(Range range, float* gradient) {
  if (!momentum_.empty()) {
    // What is pushed is the momentum; it is copied, since it must not change
    // while it travels.
    float* momentum = momentum_.data() + range.begin;
    parts_.device->WorkerMomentum(config_.job.worker_momentum,
                                  gradient + range.begin, range.size(),
                                  momentum);
    std::memcpy(gradient + range.begin, momentum,
                static_cast<size_t>(range.size()) * sizeof(float));
  }
  parts_.client->Push(range);
}

// ---- State of its own: the momentum
// -------------------------------------------------------------

absl::Status Trainer::Restore(const std::string& folder) {
  momentum_.assign(weights_.size(), 0.0f);
  if (folder.empty()) return absl::OkStatus();
  const absl::Status read =
      ReadMomentum(*parts_.disk, folder, parts_.model->layout(), config_.id,
                   momentum_.data());
  if (!absl::IsNotFound(read)) return read;
  std::fill(momentum_.begin(), momentum_.end(), 0.0f);
  parts_.logger->warn(
      "the snapshot '{}' has no momentum of this worker: it starts from zero, "
      "and from there on the bits differ from a run without a break",
      folder);
  return absl::OkStatus();
}

absl::StatusOr<FileEntry> Trainer::WriteMomentum(uint64_t version) {
  const std::string folder = PartialPath(config_.snapshot_dir, version);
  PARAPET_RETURN_IF_ERROR(parts_.disk->MakeDir(folder));
  const Section section{"momentum",
                        {{0, static_cast<int64_t>(momentum_.size())}},
                        {momentum_.data()}};
  return WriteShardFile(*parts_.disk, folder, WorkerFileName(config_.id),
                        parts_.model->layout(), {section});
}

void Trainer::Snapshot(uint64_t version) {
  if (momentum_.empty()) return;
  const absl::StatusOr<FileEntry> entry = WriteMomentum(version);
  SnapshotDoneMessage done;
  done.version = version;
  done.ok = entry.ok();
  if (entry.ok()) done.file = *entry;
  done.words = std::string(entry.status().message());
  parts_.client->TellLead(std::move(done));
}

// ---- The evaluator
// ------------------------------------------------------------------------------

namespace {

absl::StatusOr<EvalReportMessage> Measure(const TrainerParts& parts,
                                          uint64_t version,
                                          const float* weights) {
  EvalReportMessage report{version, 0, 0, 0, 0};
  const absl::Time began = parts.clock->Now();
  std::vector<float> inputs(kEvaluationBatch * parts.data->shape().features());
  std::vector<int32_t> labels(kEvaluationBatch);
  std::vector<uint32_t> indices;
  for (int64_t at = 0; at < parts.data->samples(); at += kEvaluationBatch) {
    indices.resize(std::min(kEvaluationBatch, parts.data->samples() - at));
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(at));
    parts.data->Gather(indices, inputs.data(), labels.data());
    PARAPET_ASSIGN_OR_RETURN(
        const PassResult result,
        parts.model->Evaluate(weights, {inputs.data(), labels.data(),
                                        static_cast<int64_t>(indices.size())}));
    report.loss_sum += result.loss_sum;
    report.correct += static_cast<uint64_t>(result.correct);
    report.samples += static_cast<uint64_t>(result.samples);
  }
  report.seconds = absl::ToDoubleSeconds(parts.clock->Now() - began);
  return report;
}

}  // namespace

absl::Status RunEvaluator(const TrainerParts& parts) {
  std::vector<float> replica(parts.model->layout().elements());
  const absl::Status joined = parts.client->Join().status();
  if (absl::IsCancelled(joined)) return absl::OkStatus();
  PARAPET_RETURN_IF_ERROR(joined);
  while (true) {
    absl::StatusOr<Client::Next> next = parts.client->WaitNext();
    if (absl::IsCancelled(next.status())) return absl::OkStatus();
    if (!next.ok()) return next.status();
    parts.client->BeginRound(*next);
    const absl::StatusOr<const float*> weights = parts.client->Weights(
        {0, static_cast<int64_t>(replica.size())}, replica.data());
    if (absl::IsAborted(weights.status())) continue;
    if (absl::IsCancelled(weights.status())) return absl::OkStatus();
    PARAPET_RETURN_IF_ERROR(weights.status());
    PARAPET_ASSIGN_OR_RETURN(const EvalReportMessage report,
                             Measure(parts, next->version, *weights));
    parts.client->TellLead(report);
  }
}

}  // namespace parapet
