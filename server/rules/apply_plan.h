#ifndef PARAPET_SERVER_RULES_APPLY_PLAN_H_
#define PARAPET_SERVER_RULES_APPLY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/device.h"
#include "server/rules/plan.h"

namespace parapet::rules {

// What a plan makes of one range of the participants' vectors, in the words of
// the kernels. It points into the plan, which must stay.
struct PlanReduction {
  // rows: one a participant, in the plan's order; the samples of each are its
  // weight, which counts where the plan says so. A row that the plan does not
  // use may be null.
  PlanReduction(const Plan& plan, absl::Span<const Row> participants);

  ReduceSpec spec;
  std::vector<Row> rows;

 private:
  std::vector<double> nothing_;  // the mixing matrix of a bad plan: all zero
};

// A range of coordinates of the participants' vectors.
struct Shard {
  // One a participant, in worker-id order, of `elements` values. A row that the
  // plan does not use may be null: it is not read.
  absl::Span<const float* const> rows;
  absl::Span<const double>
      samples;  // of each row, for a mean weighted by them; empty: all 1
  const float* prev = nullptr;  // the previous aggregate; null: 0
  int64_t elements = 0;
};

// out[j] = the plan's aggregate at coordinate j; see Device::Reduce. `out` may
// be prev. A bad plan gives 0 everywhere.
ReduceReport ApplyPlan(const Device& device, const Plan& plan,
                       const Shard& shard, float* out);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_APPLY_PLAN_H_
