#include "tools/plan_model.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/layout.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr double kFloat = 4;
// docs/wire.md, ShardReportBody: a compact exact sum has at most 100 bytes.
constexpr double kReportedPair = 100;
// docs/wire.md: an ExactSum.
constexpr double kNormBytes = 568;

double Wire(const PlanJob& job) {
  return static_cast<double>(SizeOf(job.wire));
}

bool HasExchange(const PlanJob& job) { return job.distances || job.clip_norm; }

// Time of a pipeline: its busiest part, and a unit of each other.
double PipelineTime(const std::vector<PlanPart>& parts, bool second) {
  double units = 0, most = 0;
  for (const PlanPart& part : parts) {
    if (part.second != second) continue;
    units += part.unit;
    most = std::max(most, part.seconds - part.unit);
  }
  return units + most;
}

double ExchangeTime(const PlanJob& job, const PlanHosts& hosts) {
  if (!HasExchange(job)) return 0;
  const double bytes =
      job.distances ? ReportBytes(job) : kNormBytes * job.servers;
  return 2 * hosts.latency + bytes / hosts.server_link;
}

absl::StatusOr<double> RoundSeconds(const PlanJob& job,
                                    const PlanHosts& hosts) {
  PARAPET_ASSIGN_OR_RETURN(const PlanShape shape, ShapeOf(job));
  return TimeOf(job, shape, hosts).seconds;
}

// "16 servers: a round of 0.52 times as long".
void AddChange(const std::string& what, const PlanJob& job,
               const PlanHosts& hosts, double now,
               std::vector<std::string>* advice) {
  const absl::StatusOr<double> then = RoundSeconds(job, hosts);
  // Not worth a sentence below a twentieth.
  if (!then.ok() || *then > 0.95 * now) return;
  advice->push_back(absl::StrFormat("%s would make a round %.2f times as long",
                                    what, *then / now));
}

void AddChanges(const PlanJob& job, const PlanHosts& hosts, double now,
                std::vector<std::string>* advice) {
  PlanJob more = job;
  more.servers *= 2;
  AddChange(absl::StrFormat("%d servers", more.servers), more, hosts, now,
            advice);
  PlanHosts faster = hosts;
  faster.server_link *= 2;
  AddChange("servers with links twice as fast", job, faster, now, advice);
  faster = hosts;
  faster.worker_link *= 2;
  AddChange("workers with links twice as fast", job, faster, now, advice);
  faster = hosts;
  faster.memory_bandwidth *= 2;
  AddChange("servers with twice the memory bandwidth", job, faster, now,
            advice);
  PlanJob narrow = job;
  narrow.wire = DType::kBFloat16;
  if (job.wire == DType::kFloat32)
    AddChange("--wire=bfloat16", narrow, hosts, now, advice);
  PlanJob alone = job;
  alone.distances = alone.previous = false;
  if (job.distances)
    AddChange("a rule on coordinates, as median or trimmed_mean,", alone, hosts,
              now, advice);
}

}  // namespace

absl::StatusOr<PlanShape> ShapeOf(const PlanJob& job) {
  PARAPET_ASSIGN_OR_RETURN(
      const ShardMap map,
      ShardMap::Create(job.parameters, job.servers, job.chunk));
  return PlanShape{map.chunk_elements(), map.chunks(), map.ChunksOf(0),
                   map.ElementsOf(0)};
}

int64_t BytesPushed(const PlanJob& job) {
  return job.workers * job.parameters * SizeOf(job.wire);
}

MemoryPasses PassesOf(const PlanJob& job) {
  const double rows = job.workers * Wire(job);
  MemoryPasses passes;
  passes.measure = job.distances ? rows : 0;
  // Weights and moments are read and written; a wire of 16 bits is written too.
  passes.step = rows + 2 * kFloat * (1 + job.moments);
  if (job.wire != DType::kFloat32) passes.step += Wire(job);
  if (job.previous) passes.step += 2 * kFloat;
  if (job.clip_norm) {
    // The pass over the rows writes the aggregate, the step reads it again.
    const double reduce = rows + kFloat;
    if (!job.distances) passes.measure = reduce;
    passes.step += job.distances ? 2 * kFloat : kFloat - rows;
  }
  return passes;
}

double ReportBytes(const PlanJob& job) {
  const double n = job.workers;
  return job.servers * kReportedPair * (n + 2) * (n + 1) / 2;
}

RoundTime TimeOf(const PlanJob& job, const PlanShape& shape,
                 const PlanHosts& hosts) {
  const double n = job.workers,
               all = static_cast<double>(job.parameters) * Wire(job);
  const auto shard = static_cast<double>(shape.shard);
  const double shard_in = n * shard * Wire(job) / hosts.server_link;
  const double own = all / hosts.worker_link;
  // A worker sends one chunk to each server before the last has work.
  const double worker_unit =
      own / static_cast<double>(std::max<int64_t>(shape.shard_chunks, 1));
  const double share =
      1.0 / static_cast<double>(std::max<int64_t>(shape.shard_chunks, 1));
  const MemoryPasses passes = PassesOf(job);
  const bool exchange = HasExchange(job);
  const auto memory = [&](double bytes) {
    return bytes * shard / hosts.memory_bandwidth;
  };

  RoundTime time;
  time.parts = {{"workers' links, out", own, worker_unit, false},
                {"servers' links, in", shard_in, shard_in * share, false}};
  // Rows that are measured stay on the GPU until they are reduced, if there is
  // room.
  const double staged = shard_in * hosts.server_link / hosts.gpu_link;
  if (job.gpu)
    time.parts.push_back(
        {"servers' GPUs, copies in", staged, staged * share, false});
  if (exchange) {
    time.parts.push_back({job.distances ? "servers' memory, distances"
                                        : "servers' memory, aggregate",
                          memory(passes.measure),
                          memory(passes.measure) * share, false});
  }
  time.parts.push_back({"servers' memory, rule and step", memory(passes.step),
                        memory(passes.step) * share, exchange});
  if (job.gpu) {
    const double back = shard * Wire(job) / hosts.gpu_link;
    time.parts.push_back(
        {"servers' GPUs, copies out", back, back * share, exchange});
  }
  time.parts.push_back(
      {"servers' links, out", shard_in, shard_in * share, exchange});
  time.parts.push_back({"workers' links, in", own, worker_unit, exchange});
  time.exchange = ExchangeTime(job, hosts);
  time.latency = 2 * hosts.latency;
  time.seconds = PipelineTime(time.parts, false) +
                 PipelineTime(time.parts, true) + time.exchange + time.latency;
  const auto most = std::max_element(time.parts.begin(), time.parts.end(),
                                     [](const PlanPart& a, const PlanPart& b) {
                                       return a.seconds < b.seconds;
                                     });
  time.bottleneck = static_cast<int>(most - time.parts.begin());
  return time;
}

double RingTime(const PlanJob& job, const PlanHosts& hosts) {
  const double steps = 2.0 * (job.workers - 1);
  const double all = static_cast<double>(job.parameters) * Wire(job);
  return steps * (all / job.workers / hosts.worker_link + hosts.latency);
}

int ServersToBeatRing(const PlanJob& job, const PlanHosts& hosts, int most) {
  const double ring = RingTime(job, hosts);
  PlanJob with = job;
  for (with.servers = 1; with.servers <= most; ++with.servers) {
    const absl::StatusOr<double> seconds = RoundSeconds(with, hosts);
    if (seconds.ok() && *seconds < ring) return with.servers;
  }
  return 0;
}

std::vector<std::string> Advice(const PlanJob& job, const PlanHosts& hosts) {
  const absl::StatusOr<PlanShape> shape = ShapeOf(job);
  if (!shape.ok()) return {};
  const RoundTime time = TimeOf(job, *shape, hosts);
  const PlanPart& part = time.parts[time.bottleneck];
  std::vector<std::string> advice = {
      absl::StrFormat("bounded by the %s: busy for %.0f %% of a round",
                      part.name, 100 * part.seconds / time.seconds)};
  AddChanges(job, hosts, time.seconds, &advice);
  if (shape->shard_chunks < 4) {
    advice.push_back(
        absl::StrFormat("a server has only %d chunks, so that little overlaps: "
                        "a smaller --chunk than %d may help",
                        shape->shard_chunks, shape->chunk));
  }
  return advice;
}

}  // namespace parapet
