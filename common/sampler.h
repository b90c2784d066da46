#ifndef PARAPET_COMMON_SAMPLER_H_
#define PARAPET_COMMON_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "common/job.h"
#include "common/lease.h"

namespace parapet {

// Which samples a worker takes in a round, and how the learning rate moves:
// pure functions, so that any process can work them out for itself.

// A permutation of [0, samples) for an epoch: a pure function of (seed, epoch,
// samples), by Fisher and Yates. samples < 2^32.
std::vector<uint32_t> EpochPermutation(uint64_t seed, uint64_t epoch,
                                       uint64_t samples);

// Part of a round's samples: positions [begin, begin + count) of the epoch's
// permutation.
struct Share {
  uint64_t begin = 0;
  uint64_t count = 0;  // 0: the worker abstains in this round
};

// The shares of `members` workers in a round that takes `samples` from
// `position` on: as even as can be, the lower indices one more. 0 <= index <
// members.
Share ShareOf(uint64_t position, uint64_t samples, uint64_t members,
              uint64_t index);

// With --data_split=own: the worker's own epoch has `own_samples`, and it
// abstains past their end.
Share OwnShareOf(uint64_t position, uint64_t batch, uint64_t own_samples);

// Walks the epochs: what the next round takes. `samples` is the length of an
// epoch: of the common data, or with data_split=own of the largest worker's
// data.
class Cursor {
 public:
  Cursor(uint64_t samples, uint64_t epoch, uint64_t position)
      : samples_(samples), epoch_(epoch), position_(position) {}

  uint64_t epoch() const { return epoch_; }
  uint64_t position() const { return position_; }
  bool at_epoch_start() const { return position_ == 0; }

  // Takes up to `wanted` samples, never across the end of an epoch; fills
  // epoch, position, samples.
  RoundFacts Take(uint64_t wanted);

 private:
  uint64_t samples_, epoch_, position_;
};

// How many rounds an epoch of `samples` has when each takes `wanted`.
uint64_t RoundsPerEpoch(uint64_t samples, uint64_t wanted);

// The learning rate of optimizer step `step` (from 0) out of `total` steps,
// with `steps_per_epoch` steps an epoch. Constant over a run that has no end
// (total = 0).
double LearningRate(const ScheduleConfig& schedule, int workers, uint64_t step,
                    uint64_t total, uint64_t steps_per_epoch);

}  // namespace parapet

#endif  // PARAPET_COMMON_SAMPLER_H_
