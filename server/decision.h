#ifndef PARAPET_SERVER_DECISION_H_
#define PARAPET_SERVER_DECISION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/messages.h"
#include "server/rules/plan.h"

namespace parapet {

// A plan as the lead tells it to the servers, without what is for the account
// only. The plan mixes or is bad.
DecisionMessage ToMessage(uint64_t round, const rules::Plan& plan);

// The plan back. InvalidArgument in words if no rule makes such a one.
absl::StatusOr<rules::Plan> ToPlan(const DecisionMessage& message);

}  // namespace parapet

#endif  // PARAPET_SERVER_DECISION_H_
