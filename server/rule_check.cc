#include "server/rule_check.h"

#include "absl/strings/str_cat.h"
#include "server/rules/chain.h"

namespace parapet {
namespace {

absl::Status Refuse(const JobConfig& job, absl::string_view words) {
  return absl::InvalidArgumentError(
      absl::StrCat("--rule=", job.rule, ": ", words));
}

}  // namespace

absl::Status CheckRule(const CommonFlags& flags) {
  const JobConfig& job = flags.job;
  const absl::StatusOr<rules::Chain> chain = rules::Chain::Parse(job.rule);
  if (!chain.ok()) return Refuse(job, chain.status().message());
  const absl::Status limits = chain->CheckJob(job.workers, job.byzantine);
  if (!limits.ok()) return Refuse(job, limits.message());
  if (chain->needs_distances() && job.workers > kMostWorkersByDistance) {
    return Refuse(job, absl::StrCat("a rule on distances takes at most ",
                                    kMostWorkersByDistance,
                                    " workers; this job has ", job.workers));
  }
  const int quorum = flags.patience.quorum;
  const absl::Status few =
      quorum > 0 ? chain->CheckLimits(quorum, job.byzantine) : absl::OkStatus();
  if (few.ok()) return few;
  return Refuse(
      job, absl::StrCat(
               "--quorum=", quorum, " is too few: ",
               chain->CheckLimits(quorum, job.byzantine, "quorum").message()));
}

std::vector<std::string> RuleWarnings(const JobConfig& job) {
  const absl::StatusOr<rules::Chain> chain = rules::Chain::Parse(job.rule);
  if (!chain.ok()) return {};
  return chain->Warnings(job.workers, job.byzantine);
}

}  // namespace parapet
