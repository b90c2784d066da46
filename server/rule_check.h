#ifndef PARAPET_SERVER_RULE_CHECK_H_
#define PARAPET_SERVER_RULE_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/flags.h"

namespace parapet {

// A rule on distances compares each worker with each other one: so many at
// most, which bounds what a server reports of a round.
inline constexpr int kMostWorkersByDistance = 512;

// Whether there is such a rule and its limits hold for the job's workers, and
// for those that --quorum is content with; InvalidArgument in words. A JobCheck
// (common/flags.h).
absl::Status CheckRule(const CommonFlags& flags);

// What a user should know of the job's rule though it is no error. The rule has
// been checked; `secret`: --rule_secret is given.
std::vector<std::string> RuleWarnings(const JobConfig& job, bool secret);

}  // namespace parapet

#endif  // PARAPET_SERVER_RULE_CHECK_H_
