#include "server/reduction.h"

#include <memory>
#include <utility>

#include "common/status_macros.h"
#include "server/rules/apply_plan.h"

namespace parapet {

absl::StatusOr<ReduceReport> ReduceByPlan(const ShardDevice& device,
                                          const rules::Plan& plan,
                                          absl::Span<const Row> rows,
                                          const KeptRows* kept,
                                          int64_t elements, float* previous,
                                          float* aggregate) {
  const rules::PlanReduction reduction(plan, rows);
  return device.Reduce(reduction.spec, reduction.rows, kept, previous, elements,
                       aggregate);
}

absl::StatusOr<ReduceReport> StepByPlan(
    const ShardDevice& device, const rules::Plan& plan,
    absl::Span<const Row> rows, const KeptRows* kept, int64_t elements,
    float* previous, const OptimizerConfig& optimizer, const StepFacts& facts,
    const StepTarget& target) {
  const rules::PlanReduction reduction(plan, rows);
  return device.ReduceStep(reduction.spec, reduction.rows, kept, previous,
                           elements, optimizer, facts, target);
}

absl::StatusOr<std::vector<LeafSums>> MeasureLeaves(
    const ShardDevice& device, absl::Span<const Row> rows,
    const float* previous, int64_t elements, int64_t leaf,
    std::shared_ptr<const KeptRows>* kept) {
  const auto pairs = PairCount(static_cast<int>(rows.size()));
  const auto leaves = (elements + leaf - 1) / leaf;
  std::vector<double> sums(leaves * pairs);
  std::vector<uint8_t> finite(leaves * rows.size());
  PARAPET_RETURN_IF_ERROR(device.Distances(rows, previous, elements, leaf,
                                           sums.data(), finite.data(), kept));
  std::vector<LeafSums> measured;
  auto sum = sums.begin();
  auto flag = finite.begin();
  for (int64_t i = 0; i < leaves; ++i) {
    measured.push_back({{sum, sum + pairs}, {flag, flag + rows.size()}});
    sum += pairs;
    flag += static_cast<ptrdiff_t>(rows.size());
  }
  return measured;
}

ShardDistances::ShardDistances(std::vector<uint32_t> workers)
    : workers_(std::move(workers)), sums_(static_cast<int>(workers_.size())) {}

void ShardDistances::Add(absl::Span<const uint32_t> workers,
                         absl::Span<const LeafSums> leaves) {
  const std::vector<int> rows = rules::PositionsOf(workers_, workers);
  for (const LeafSums& leaf : leaves)
    sums_.AddSums(rows, leaf.sums.data(), leaf.finite.data());
}

ShardReportMessage ShardDistances::Report(
    uint64_t round, const std::vector<uint32_t>& workers) const {
  const rules::PartialDistances kept =
      sums_.Keep(rules::PositionsOf(workers_, workers));
  ShardReportMessage report;
  report.round = round;
  report.workers = workers;
  report.finite = kept.finite();
  report.sums = std::make_shared<std::vector<ExactSum>>(kept.sums());
  return report;
}

}  // namespace parapet
