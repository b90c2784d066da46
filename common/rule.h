#ifndef PARAPET_COMMON_RULE_H_
#define PARAPET_COMMON_RULE_H_

#include "absl/status/status.h"
#include "common/job.h"

namespace parapet {

// Whether there is a rule of the job's name and its limits hold for the job;
// InvalidArgument in words. A JobCheck for the flags (common/flags.h).
absl::Status CheckRule(const JobConfig& job);

}  // namespace parapet

#endif  // PARAPET_COMMON_RULE_H_
