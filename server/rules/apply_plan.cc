#include "server/rules/apply_plan.h"

namespace parapet::rules {

PlanReduction::PlanReduction(const Plan& plan,
                             absl::Span<const Row> participants)
    : rows(participants.begin(), participants.end()) {
  const Coordinate& coordinate = plan.coordinate;
  for (Row& row : rows) {
    if (!coordinate.weighted) row.weight = 1;
  }
  if (plan.bad) {
    nothing_.resize(rows.size() + 2);
    spec.mixed_rows = 1;
    spec.mixing = nothing_.data();
    return;
  }
  spec.op = coordinate.op;
  spec.f = coordinate.f;
  spec.scale = coordinate.scale;
  if (!plan.mixes) return;
  spec.mixed_rows = plan.mixing.rows;
  spec.mixing = plan.mixing.weights.data();
}

ReduceReport ApplyPlan(const Device& device, const Plan& plan,
                       const Shard& shard, float* out) {
  std::vector<Row> rows;
  for (size_t i = 0; i < shard.rows.size(); ++i) {
    rows.push_back({.data = shard.rows[i],
                    .weight = shard.samples.empty() ? 1 : shard.samples[i]});
  }
  const PlanReduction reduction(plan, rows);
  return device.Reduce(reduction.spec, reduction.rows, shard.prev,
                       shard.elements, out);
}

}  // namespace parapet::rules
