#include "common/rule.h"

#include "absl/strings/str_cat.h"

namespace parapet {

absl::Status CheckRule(const JobConfig& job) {
  if (job.rule != "mean") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rule=", job.rule, ": there is no such rule; there is mean"));
  }
  if (job.byzantine > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--byzantine=", job.byzantine,
                     ": the mean tolerates no Byzantine worker"));
  }
  return absl::OkStatus();
}

}  // namespace parapet
