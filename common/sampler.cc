#include "common/sampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "common/rng.h"

namespace parapet {
namespace {

// Initial weights are drawn from stream 0 of keys that are derived in the same
// way.
constexpr uint64_t kPermutationStream = 0x7065726d;

// Progress goes from 0 at the first step after the warm-up to 1 at the run's
// last step.
double Cosine(uint64_t step, uint64_t warmup, uint64_t total) {
  if (total <= warmup + 1) return 1;
  const double span = static_cast<double>(total - warmup - 1);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / span);
  return 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

// Epochs are counted from the beginning of the run, with its warm-up.
double Steps(const ScheduleConfig& schedule, uint64_t step,
             uint64_t steps_per_epoch) {
  if (schedule.step_epochs <= 0 || steps_per_epoch == 0) return 1;
  const uint64_t epoch = step / steps_per_epoch;
  const uint64_t decays = epoch / static_cast<uint64_t>(schedule.step_epochs);
  return std::pow(schedule.step_gamma, static_cast<double>(decays));
}

}  // namespace

std::vector<uint32_t> EpochPermutation(uint64_t seed, uint64_t epoch,
                                       uint64_t samples) {
  std::vector<uint32_t> permutation(samples);
  std::iota(permutation.begin(), permutation.end(), 0u);
  Random random(MixKey(seed, epoch), kPermutationStream);
  for (uint64_t left = samples; left > 1; --left) {
    std::swap(permutation[left - 1], permutation[random.Below(left)]);
  }
  return permutation;
}

Share ShareOf(uint64_t position, uint64_t samples, uint64_t members,
              uint64_t index) {
  const uint64_t each = samples / members, further = samples % members;
  return {position + index * each + std::min(index, further),
          each + (index < further ? 1 : 0)};
}

Share OwnShareOf(uint64_t position, uint64_t batch, uint64_t own_samples) {
  if (position >= own_samples) return {position, 0};
  return {position, std::min(batch, own_samples - position)};
}

RoundFacts Cursor::Take(uint64_t wanted) {
  RoundFacts facts;
  facts.epoch = epoch_;
  facts.position = position_;
  facts.samples = std::min(wanted, samples_ - std::min(samples_, position_));
  position_ += facts.samples;
  if (position_ >= samples_) {
    ++epoch_;
    position_ = 0;
  }
  return facts;
}

uint64_t RoundsPerEpoch(uint64_t samples, uint64_t wanted) {
  if (samples == 0 || wanted == 0) return 0;
  return (samples - 1) / wanted + 1;
}

double LearningRate(const ScheduleConfig& schedule, int workers, uint64_t step,
                    uint64_t total, uint64_t steps_per_epoch) {
  const double lr = schedule.lr * (schedule.scale_lr ? workers : 1);
  const uint64_t warmup =
      static_cast<uint64_t>(std::max<int64_t>(schedule.warmup, 0));
  if (step < warmup) {
    // lr / warmup at the first step, lr at the last one of the warm-up.
    return lr * (static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  if (total == 0 || schedule.kind == ScheduleKind::kConstant) return lr;
  if (schedule.kind == ScheduleKind::kCosine)
    return lr * Cosine(step, warmup, total);
  return lr * Steps(schedule, step, steps_per_epoch);
}

}  // namespace parapet
