#include "tools/plan_flags.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/flags.h"
#include "common/layout.h"
#include "common/status_macros.h"
#include "server/rule_check.h"
#include "server/rules/chain.h"
#include "tools/rates.h"

namespace parapet {
namespace {

absl::StatusOr<OptimizerConfig> ParseOptimizer(const std::string& name) {
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov,
        OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    if (NameOf(kind) == name) return OptimizerConfig{.kind = kind};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--optimizer=", name,
                   " is none of sgd, momentum, nesterov, adam, adamw"));
}

absl::Status ReadHosts(const PlanFlags& flags, PlanHosts* hosts) {
  PARAPET_ASSIGN_OR_RETURN(hosts->server_link, ParseRate(flags.link));
  PARAPET_ASSIGN_OR_RETURN(
      hosts->worker_link,
      ParseRate(flags.worker_link.empty() ? flags.link : flags.worker_link));
  PARAPET_ASSIGN_OR_RETURN(hosts->memory_bandwidth,
                           ParseRate(flags.memory_bandwidth));
  hosts->latency = flags.latency * 1e-6;
  return absl::OkStatus();
}

}  // namespace

void AddPlanFlags(CLI::App* app, PlanFlags* flags) {
  app->add_option("--parameters", flags->parameters, "of the model, e.g. 7e9")
      ->check(CLI::Range(1.0, static_cast<double>(int64_t{1} << 40)));
  app->add_option("--wire", flags->wire, "float32, bfloat16 or float16");
  app->add_option("--optimizer", flags->optimizer,
                  "sgd, momentum, nesterov, adam or adamw");
  app->add_option("--rule", flags->rule,
                  "as for a job, e.g. 'nnm + trimmed_mean'");
  app->add_option("--byzantine", flags->byzantine, "workers that may lie")
      ->check(CLI::Range(0, 4095));
  app->add_option("--chunk", flags->chunk, "elements; 0 chooses as a job does");
  app->add_option("--connections", flags->connections,
                  "data connections for each worker and server")
      ->check(CLI::Range(1, 64));
  app->add_option("--clip_norm", flags->clip_norm, "as for a job; 0: none")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--worker_momentum", flags->worker_momentum,
                  "as for a job; 0: none")
      ->check(CLI::Range(0.0, 1.0));
  app->add_option("--link", flags->link,
                  "of each host, each way, e.g. 100Gbps or 12.5GB/s");
  app->add_option("--worker_link", flags->worker_link,
                  "of a worker's host, if it differs");
  app->add_option("--latency", flags->latency,
                  "of a message beside its bytes [us]")
      ->check(CLI::Range(0.0, 1e7));
  app->add_option("--memory_bandwidth", flags->memory_bandwidth,
                  "of a server's memory, e.g. 100GB/s");
}

absl::Status ReadPlanFlags(const PlanFlags& flags, PlanJob* job,
                           PlanHosts* hosts) {
  job->parameters = std::llround(flags.parameters);
  PARAPET_ASSIGN_OR_RETURN(job->wire, ParseDType(flags.wire));
  PARAPET_ASSIGN_OR_RETURN(const OptimizerConfig optimizer,
                           ParseOptimizer(flags.optimizer));
  job->moments = optimizer.moments();
  PARAPET_ASSIGN_OR_RETURN(const rules::Chain chain,
                           rules::Chain::Parse(flags.rule));
  job->distances = chain.needs_distances();
  job->previous = chain.needs_previous();
  job->chunk = flags.chunk;
  job->connections = flags.connections;
  job->clip_norm = flags.clip_norm > 0;
  job->worker_momentum = flags.worker_momentum > 0;
  return ReadHosts(flags, hosts);
}

absl::StatusOr<JobConfig> ReadJobConfig(const PlanFlags& flags, int workers,
                                        int servers) {
  JobConfig job;
  job.workers = workers;
  job.servers = servers;
  PARAPET_ASSIGN_OR_RETURN(job.wire, ParseDType(flags.wire));
  PARAPET_ASSIGN_OR_RETURN(job.optimizer, ParseOptimizer(flags.optimizer));
  job.rule = flags.rule;
  job.byzantine = flags.byzantine;
  job.chunk = flags.chunk;
  job.connections = flags.connections;
  job.clip_norm = flags.clip_norm;
  job.worker_momentum = flags.worker_momentum;
  return job;
}

absl::Status CheckPlanRule(const PlanFlags& flags, int workers) {
  CommonFlags common;
  common.job.rule = flags.rule;
  common.job.workers = workers;
  common.job.byzantine = flags.byzantine;
  return CheckRule(common);
}

}  // namespace parapet
