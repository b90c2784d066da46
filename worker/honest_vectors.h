#ifndef PARAPET_WORKER_HONEST_VECTORS_H_
#define PARAPET_WORKER_HONEST_VECTORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/disk.h"
#include "common/sampler.h"
#include "kernels/device.h"
#include "worker/model.h"

namespace parapet {

// Gives the batch of a share of an epoch, valid until the next call.
using GatherShare = std::function<Batch(uint64_t epoch, const Share& share)>;

// One worker's gradient of a batch, and what it makes of it before it pushes:
// its momentum, if it has any.
struct Contribution {
  Model* model = nullptr;
  const Device* device = nullptr;
  double beta = 0;  // of the worker momentum; 0: none

  // Writes what a worker of that momentum pushes to `vector`. Both have as many
  // elements as the layout; `momentum` is not read where beta is 0.
  absl::StatusOr<PassResult> Compute(const float* weights, const Batch& batch,
                                     float* momentum, float* vector) const;
};

// What the honest workers of a job push in a round, worked out by one that has
// the same data: an attacker. Their samples follow from the sampler, their
// gradients from the weights, which all hold, and their momentum from the
// rounds before; so the vectors are theirs bit for bit (before the wire's
// rounding) as long as all compute alike and this worker misses no round. Costs
// a gradient and two vectors of memory for each of them.
class HonestVectors {
 public:
  // `honest`: workers with lower ids are.
  HonestVectors(const Contribution& contribution, int honest,
                GatherShare gather);

  // Sets all up; with momentum, from a snapshot's folder, if not empty, as each
  // worker does. ResourceExhausted if it takes over 16 GiB.
  absl::Status Prepare(Disk& disk, const std::string& folder);

  // The round takes `samples` samples from `position` of the epoch on, shared
  // among `members`, ascending.
  absl::Status Learn(uint64_t epoch, uint64_t position, uint64_t samples,
                     absl::Span<const uint32_t> members, const float* weights);

  // Of the last round: one a honest worker that has samples in it, by ascending
  // id, and whose they are.
  absl::Span<const float* const> vectors() const { return vectors_; }
  absl::Span<const int> ids() const { return ids_; }

 private:
  struct Worker {
    std::vector<float> vector, momentum;
  };

  const Contribution contribution_;
  const GatherShare gather_;
  std::vector<Worker> workers_;
  std::vector<const float*> vectors_;
  std::vector<int> ids_;
};

// Reads one worker's momentum from a snapshot's folder: NotFound if that
// snapshot has none of it.
absl::Status ReadMomentum(Disk& disk, const std::string& folder,
                          const Layout& layout, uint32_t id, float* momentum);

}  // namespace parapet

#endif  // PARAPET_WORKER_HONEST_VECTORS_H_
