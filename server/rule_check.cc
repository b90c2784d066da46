#include "server/rule_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/rules/chain.h"

namespace parapet {
namespace {

absl::Status Refuse(const JobConfig& job, absl::string_view words) {
  return absl::InvalidArgumentError(
      absl::StrCat("--rule=", job.rule, ": ", words));
}

bool Shuffles(const rules::Chain& chain) {
  const std::vector<rules::Chain::Link>& links = chain.links();
  return std::any_of(links.begin(), links.end(),
                     [](const auto& link) { return link.name == "bucketing"; });
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

std::vector<std::string> RuleWarnings(const JobConfig& job, bool secret) {
  const absl::StatusOr<rules::Chain> chain = rules::Chain::Parse(job.rule);
  if (!chain.ok()) return {};
  std::vector<std::string> warnings =
      chain->Warnings(job.workers, job.byzantine);
  if (Shuffles(*chain) && !secret) {
    warnings.push_back(
        "bucketing shuffles by a secret that is drawn anew at every start: "
        "other runs, and a resume, give other bits; give the lead a "
        "--rule_secret for the same");
  }
  return warnings;
}

}  // namespace parapet
