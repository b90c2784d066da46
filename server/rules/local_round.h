#ifndef PARAPET_SERVER_RULES_LOCAL_ROUND_H_
#define PARAPET_SERVER_RULES_LOCAL_ROUND_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/rules/apply_plan.h"
#include "server/rules/make_plan.h"
#include "server/rules/pairwise.h"

namespace parapet::rules {

// A round whose vectors are all in this process: what the servers and the lead
// do together, without a network between them. Whoever makes one owns what it
// points to.
struct LocalRound {
  const Device* device = nullptr;
  // One a participant, in worker-id order, of `elements` values.
  absl::Span<const float* const> rows;
  int64_t elements = 0;
  const float* prev = nullptr;    // the previous aggregate; null: 0
  std::vector<int> workers = {};  // ids, ascending; empty: 0, 1, ...
  int f = 0;
  Shuffle shuffle = nullptr;  // for bucketing
  // Leaves, of `leaf` elements, are dealt to the shards in turn.
  int shards = 1;
  int64_t leaf = 16 * 1024;
};

// What becomes of it. `report` is for the whole vector, as if it were one
// range.
struct LocalOutcome {
  Plan plan;
  ReduceReport report;
  std::vector<float> values;
};

// One shard's part of the distances. Pure, so shards may be measured at once on
// several threads. 0 <= shard < round.shards.
PartialDistances MeasureShard(const LocalRound& round, int shard);

// What the lead makes of the sum of all shards' parts, which is not read under
// a chain that needs no distances.
Plan PlanLocally(const Chain& chain, const LocalRound& round,
                 const PartialDistances& sum);

// Writes one shard's leaves of the aggregate to their places in `out`
// (round.elements values). Pure as well.
ReduceReport ApplyShard(const Plan& plan, const LocalRound& round, int shard,
                        float* out);

// All of it, one shard after the other. A chain that needs no distances takes
// none.
LocalOutcome RunLocally(const Chain& chain, const LocalRound& round);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_LOCAL_ROUND_H_
