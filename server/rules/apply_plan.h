#ifndef PARAPET_SERVER_RULES_APPLY_PLAN_H_
#define PARAPET_SERVER_RULES_APPLY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/rules/plan.h"

namespace parapet::rules {

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

// What was met that is not a finite number.
struct ApplyReport {
  std::vector<int64_t>
      bad_values;  // per row: coordinates at which it was left out; empty: none
  int64_t bad_coordinates = 0;  // that got 0 because too few rows were finite
  int64_t first_bad = -1;       // the first of them within the range; -1: none
};

// out[j] = the plan's aggregate at coordinate j. Every coordinate is worked out
// by itself, so the result is the same for every cut into ranges, bit for bit.
// Mixed rows and sums are in float64, rounded once. `out` may be prev. A bad
// plan gives 0 everywhere.
ApplyReport ApplyPlan(const Plan& plan, const Shard& shard, float* out);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_APPLY_PLAN_H_
