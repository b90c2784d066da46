#ifndef PARAPET_TOOLS_SCALE_MACHINES_H_
#define PARAPET_TOOLS_SCALE_MACHINES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job.h"
#include "tools/plan_model.h"

namespace parapet {

// A job in virtual time: the servers, the lead and the workers' sessions as
// they are in a real one, over the simulated network with the hosts' link
// rates. Values are not computed and take no memory (TimedShard); workers
// compute in no time and all begin a round at once, when the last has the
// weights before it. Everything else is as in a job: headers, leases, reports
// and decisions, credits, the order in which chunks are sent.
//
// Processors and loss are left out. Deterministic. One thread.

// What such a run costs: messages of a round, both ways and the joining, and
// sums of distances, which weigh as much.
int64_t MachineMessages(const PlanJob& job);
// Some minutes, and some gigabytes.
inline constexpr int64_t kMostMachineMessages = 50'000'000;

// How long each of the first `rounds` rounds takes, in seconds: from the first
// push to the last weights. `job`: workers, servers, wire, chunk, connections,
// optimizer, rule, byzantine and clip_norm count. InvalidArgument if the sizes
// make no job; Internal if it ends early or stands still, in words.
absl::StatusOr<std::vector<double>> RunMachines(const JobConfig& job,
                                                int64_t parameters,
                                                const PlanHosts& hosts,
                                                int rounds);

}  // namespace parapet

#endif  // PARAPET_TOOLS_SCALE_MACHINES_H_
