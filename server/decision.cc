#include "server/decision.h"

namespace parapet {
namespace {

constexpr auto kLastOp = rules::CoordinateOp::kSignVote;

// Whether the operation has enough rows: see ReduceSpec.
bool EnoughRows(const DecisionMessage& m) {
  using Op = rules::CoordinateOp;
  switch (static_cast<Op>(m.op)) {
    case Op::kMean:
    case Op::kMedian:
    case Op::kSignVote:
      return m.rows > 0;
    case Op::kMeamed:
      return m.rows > m.f;
    case Op::kTrimmedMean:
    case Op::kPhocas:
      return m.rows > 2 * uint64_t{m.f};
  }
  return false;
}

}  // namespace

DecisionMessage ToMessage(uint64_t round, const rules::Plan& plan) {
  DecisionMessage message;
  message.round = round;
  message.workers.assign(plan.workers.begin(), plan.workers.end());
  message.bad = plan.bad;
  message.rows = static_cast<uint32_t>(plan.mixing.rows);
  message.weights = plan.mixing.weights;
  message.op = static_cast<uint8_t>(plan.coordinate.op);
  message.f = static_cast<uint32_t>(plan.coordinate.f);
  message.scale = plan.coordinate.scale;
  return message;
}

absl::StatusOr<rules::Plan> ToPlan(const DecisionMessage& m) {
  if (m.op > static_cast<uint8_t>(kLastOp))
    return absl::InvalidArgumentError("a decision of an unknown operation");
  const bool nobody = m.workers.empty();
  if (!m.bad && !nobody && !EnoughRows(m)) {
    return absl::InvalidArgumentError("a decision with too few rows");
  }
  rules::Plan plan;
  plan.workers.assign(m.workers.begin(), m.workers.end());
  plan.bad = m.bad;
  plan.mixes = true;
  if (m.weights.size() != m.rows * (m.workers.size() + 2))
    return absl::InvalidArgumentError("a decision with other weights");
  plan.mixing.rows = static_cast<int>(m.rows);
  plan.mixing.columns = static_cast<int>(m.workers.size() + 2);
  plan.mixing.weights = m.weights;
  plan.coordinate.op = static_cast<rules::CoordinateOp>(m.op);
  plan.coordinate.f = static_cast<int>(m.f);
  plan.coordinate.scale = m.scale;
  return plan;
}

}  // namespace parapet
