#ifndef PARAPET_TOOLS_PLAN_FLAGS_H_
#define PARAPET_TOOLS_PLAN_FLAGS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job.h"
#include "tools/plan_model.h"

namespace parapet {

// What `parapet plan` and `parapet bench scale` take alike, as written.
struct PlanFlags {
  double parameters = 0;  // a double, so that 7e9 may be written
  std::string wire = "float32", optimizer = "momentum", rule = "mean";
  int byzantine = 0;
  int64_t chunk = 0;
  int connections = 1;
  double clip_norm = 0, worker_momentum = 0;
  std::string link = "100Gbps", worker_link, memory_bandwidth = "100GB/s";
  double latency = 20;  // microseconds
};

void AddPlanFlags(CLI::App* app, PlanFlags* flags);

// Reads everything but the numbers of workers and servers. InvalidArgument in
// words.
absl::Status ReadPlanFlags(const PlanFlags& flags, PlanJob* job,
                           PlanHosts* hosts);

// The job that is meant, as a real one would be told. InvalidArgument in words.
absl::StatusOr<JobConfig> ReadJobConfig(const PlanFlags& flags, int workers,
                                        int servers);

// Whether the rule's limits hold for so many workers; InvalidArgument in words.
absl::Status CheckPlanRule(const PlanFlags& flags, int workers);

}  // namespace parapet

#endif  // PARAPET_TOOLS_PLAN_FLAGS_H_
