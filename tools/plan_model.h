#ifndef PARAPET_TOOLS_PLAN_MODEL_H_
#define PARAPET_TOOLS_PLAN_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/dtype.h"

namespace parapet {

// The formulas of docs/plan.md: what a job needs and how long its rounds take,
// from its sizes alone. Pure functions; all sizes are in bytes, times in
// seconds, rates in bytes a second.

// What a job is.
struct PlanJob {
  int64_t parameters = 0;
  int workers = 1, servers = 1;
  int moments = 1;  // of the optimizer, float32 each
  DType wire = DType::kFloat32;
  int64_t chunk = 0;       // elements; 0 chooses as ShardMap does
  int connections = 1;     // data connections for each (worker, server)
  bool distances = false;  // the rule needs them: gradients are held
  bool previous = false;   // the rule keeps its output of the round before
  bool clip_norm = false;  // aggregates are held until the scale is known
  bool snapshots = false;  // some are taken while training goes on
  bool worker_momentum = false;
  bool shared_memory = false;  // processes of one machine lend to each other
  bool gpu = false;            // shards live on the servers' GPUs
  int reducing_threads = 8;    // of a server: each has staging on the GPU
};

// What it runs on: each process on a host of its own.
struct PlanHosts {
  double worker_link = 12.5e9, server_link = 12.5e9;  // each way
  double latency = 20e-6;           // of a message, beside its bytes
  double memory_bandwidth = 100e9;  // of a server; on a GPU the GPU's
  double gpu_link = 25e9;           // between a server's host and its GPU, each
                                    // way
};

// How a job falls into chunks. The busiest server counts: server 0, which has
// the most of them.
struct PlanShape {
  int64_t chunk = 0;         // elements
  int64_t chunks = 0;        // of the whole vector
  int64_t shard_chunks = 0;  // of server 0
  int64_t shard = 0;         // elements of server 0
};

// InvalidArgument as ShardMap::Create.
absl::StatusOr<PlanShape> ShapeOf(const PlanJob& job);

// Payloads on the wire in a round, over all servers; exact, without headers.
int64_t BytesPushed(const PlanJob& job);

// What a server's memory moves for an element: under a rule on distances in
// two passes, otherwise all in the second.
struct MemoryPasses {
  double measure = 0;
  double step = 0;
};
MemoryPasses PassesOf(const PlanJob& job);

// What the servers tell the lead for one decision, at most; all together.
double ReportBytes(const PlanJob& job);

// One resource that every chunk passes through.
struct PlanPart {
  std::string name;
  double seconds = 0;   // busy in a round
  double unit = 0;      // of that, until the next resource has work
  bool second = false;  // after the decision, under a rule that needs one
};

struct RoundTime {
  std::vector<PlanPart> parts;
  double exchange = 0;  // until the decision (or the scale) is known
  double latency = 0;
  double seconds = 0;  // from the first push to the last weights
  int bottleneck = 0;  // index of a part
};

// Parts overlap as chunks pass through them: a pipeline takes as long as its
// busiest part, and one unit of each other. With an exchange there are two
// pipelines, one after the other.
RoundTime TimeOf(const PlanJob& job, const PlanShape& shape,
                 const PlanHosts& hosts);

// Ring all-reduce of the same bytes between the workers: 2 (n - 1) steps, in
// each of which every worker sends an n-th.
double RingTime(const PlanJob& job, const PlanHosts& hosts);

// The fewest servers, at most `most`, with which a round is shorter than a
// ring's; 0: none.
int ServersToBeatRing(const PlanJob& job, const PlanHosts& hosts, int most);

// What bounds a round and what would help, each a sentence.
std::vector<std::string> Advice(const PlanJob& job, const PlanHosts& hosts);

}  // namespace parapet

#endif  // PARAPET_TOOLS_PLAN_MODEL_H_
