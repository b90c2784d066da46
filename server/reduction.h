#ifndef PARAPET_SERVER_REDUCTION_H_
#define PARAPET_SERVER_REDUCTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/messages.h"
#include "kernels/device.h"
#include "kernels/shard_device.h"
#include "server/rules/pairwise.h"
#include "server/rules/plan.h"

namespace parapet {

// A plan over the rows of a chunk as received: one row for each of
// plan.workers, in that order; those that the plan does not use are not read.
// The weights of the rows count where the plan says so. `kept`: rows that the
// device has, or null. `previous`, if not null, is the aggregate of the round
// before and becomes this one. Addresses but those of rows are the device's.
//
// ReduceByPlan writes the aggregate; StepByPlan takes the optimizer step with
// it.
absl::StatusOr<ReduceReport> ReduceByPlan(const ShardDevice& device,
                                          const rules::Plan& plan,
                                          absl::Span<const Row> rows,
                                          const KeptRows* kept,
                                          int64_t elements, float* previous,
                                          float* aggregate);
absl::StatusOr<ReduceReport> StepByPlan(
    const ShardDevice& device, const rules::Plan& plan,
    absl::Span<const Row> rows, const KeptRows* kept, int64_t elements,
    float* previous, const OptimizerConfig& optimizer, const StepFacts& facts,
    const StepTarget& target);

// Squared distances within each leaf of a chunk, see Device::Distances. Sets
// *kept as ShardDevice::Distances does.
struct LeafSums {
  std::vector<double> sums;
  std::vector<uint8_t> finite;
};
absl::StatusOr<std::vector<LeafSums>> MeasureLeaves(
    const ShardDevice& device, absl::Span<const Row> rows,
    const float* previous, int64_t elements, int64_t leaf,
    std::shared_ptr<const KeptRows>* kept);

// The distances of one round on one shard, as they come in chunk by chunk.
class ShardDistances {
 public:
  // `workers`: ascending; no chunk has a row of another.
  explicit ShardDistances(std::vector<uint32_t> workers);
  // A chunk's leaves, with the rows of these workers, ascending.
  void Add(absl::Span<const uint32_t> workers,
           absl::Span<const LeafSums> leaves);
  // Of the workers who had a row in every chunk.
  ShardReportMessage Report(uint64_t round,
                            const std::vector<uint32_t>& workers) const;

 private:
  const std::vector<uint32_t> workers_;
  rules::PartialDistances sums_;
};

}  // namespace parapet

#endif  // PARAPET_SERVER_REDUCTION_H_
