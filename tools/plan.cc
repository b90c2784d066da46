#include "tools/plan.h"

#include <iostream>

#include "absl/strings/str_format.h"
#include "common/flags.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/command_line.h"
#include "tools/plan_flags.h"
#include "tools/plan_memory.h"
#include "tools/plan_model.h"
#include "tools/rates.h"

namespace parapet {
namespace {

// All that is said, in the form of a table or of JSON.
struct Plan {
  PlanJob job;
  PlanHosts hosts;
  PlanShape shape;
  RoundTime time;
  std::vector<MemoryItem> server, gpu, worker;
  // What they map of each other's.
  std::vector<MemoryItem> by_server, by_worker;
};

struct Flags {
  PlanFlags plan;
  std::string transport = "tcp", server_device = "cpu", gpu_link = "25GB/s";
  bool json = false;
};

nlohmann::json ToJson(const std::vector<MemoryItem>& items) {
  nlohmann::json json = nlohmann::json::array();
  for (const MemoryItem& item : items)
    json.push_back(
        {{"item", item.name}, {"usual", item.usual}, {"most", item.most}});
  const MemoryItem total = Total(items);
  return {{"items", json}, {"usual", total.usual}, {"most", total.most}};
}

nlohmann::json ToJson(const RoundTime& time) {
  nlohmann::json parts = nlohmann::json::array();
  for (const PlanPart& part : time.parts)
    parts.push_back({{"part", part.name}, {"seconds", part.seconds}});
  return {{"parts", parts},
          {"exchange", time.exchange},
          {"latency", time.latency},
          {"seconds", time.seconds},
          {"bottleneck", time.parts[time.bottleneck].name}};
}

nlohmann::json ToJson(const Plan& plan) {
  return {{"chunk", plan.shape.chunk},
          {"chunks", plan.shape.chunks},
          {"bytes_pushed", BytesPushed(plan.job)},
          {"bytes_published", BytesPushed(plan.job)},
          {"server_memory", ToJson(plan.server)},
          {"gpu_memory", ToJson(plan.gpu)},
          {"server_maps", ToJson(plan.by_server)},
          {"worker_memory", ToJson(plan.worker)},
          {"worker_maps", ToJson(plan.by_worker)},
          {"round", ToJson(plan.time)},
          {"ring_seconds", RingTime(plan.job, plan.hosts)},
          {"advice", Advice(plan.job, plan.hosts)}};
}

void PrintMemory(const std::string& title, std::vector<MemoryItem> items,
                 std::ostream& out) {
  if (items.empty()) return;
  out << absl::StrFormat("%-34s %10s %10s\n", title, "usual", "most");
  items.push_back(Total(items));
  for (const MemoryItem& item : items) {
    out << absl::StrFormat("  %-32s %10s %10s\n", item.name,
                           BytesInWords(item.usual), BytesInWords(item.most));
  }
  out << "\n";
}

void PrintRound(const Plan& plan, std::ostream& out) {
  out << absl::StrFormat("%-34s %10s\n", "Round, each part by itself", "busy");
  for (const PlanPart& part : plan.time.parts)
    out << absl::StrFormat("  %-32s %10s\n", part.name,
                           SecondsInWords(part.seconds));
  if (plan.time.exchange > 0)
    out << absl::StrFormat("  %-32s %10s\n", "decision",
                           SecondsInWords(plan.time.exchange));
  out << absl::StrFormat("  %-32s %10s\n", "round, parts overlapping",
                         SecondsInWords(plan.time.seconds));
  if (plan.job.workers > 1) {
    out << absl::StrFormat("  %-32s %10s\n", "(ring all-reduce, the mean only)",
                           SecondsInWords(RingTime(plan.job, plan.hosts)));
  }
}

void Print(const Plan& plan, std::ostream& out) {
  out << absl::StrFormat(
      "%d chunks of %d elements; each round pushes %s and publishes as "
      "much.\n\n",
      plan.shape.chunks, plan.shape.chunk,
      BytesInWords(static_cast<double>(BytesPushed(plan.job))));
  PrintMemory("Memory of the fullest server", plan.server, out);
  PrintMemory("Of its GPU", plan.gpu, out);
  PrintMemory("Mapped by it, the workers' own", plan.by_server, out);
  PrintMemory("Memory of a worker, beside compute", plan.worker, out);
  PrintMemory("Mapped by it, the servers' own", plan.by_worker, out);
  PrintRound(plan, out);
  out << "\n";
  for (const std::string& line : Advice(plan.job, plan.hosts))
    out << "* " << line << "\n";
}

absl::StatusOr<Plan> MakePlan(const Flags& flags, PlanJob job) {
  Plan plan;
  PARAPET_RETURN_IF_ERROR(ReadPlanFlags(flags.plan, &job, &plan.hosts));
  PARAPET_RETURN_IF_ERROR(CheckPlanRule(flags.plan, job.workers));
  PARAPET_ASSIGN_OR_RETURN(plan.hosts.gpu_link, ParseRate(flags.gpu_link));
  job.shared_memory = flags.transport == "shm";
  job.gpu = flags.server_device == "cuda";
  plan.job = job;
  PARAPET_ASSIGN_OR_RETURN(plan.shape, ShapeOf(job));
  plan.time = TimeOf(job, plan.shape, plan.hosts);
  plan.server = ServerMemory(job, plan.shape);
  plan.gpu = GpuMemory(job, plan.shape);
  plan.worker = WorkerMemory(job, plan.shape);
  plan.by_server = MappedByServer(job, plan.shape);
  plan.by_worker = MappedByWorker(job, plan.shape);
  return plan;
}

}  // namespace

int ShowPlan(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err) {
  CLI::App app(
      "What a job needs of memory, how long its rounds take without the "
      "workers' computing, what bounds them and what to change. Each process "
      "has a host of its own.",
      "parapet plan");
  Flags flags;
  PlanJob job;
  AddPlanFlags(&app, &flags.plan);
  app.get_option("--parameters")->required();
  app.add_option("--workers", job.workers, "how many")
      ->required()
      ->check(CLI::Range(1, 4096));
  app.add_option("--servers", job.servers, "how many")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--snapshots", job.snapshots,
               "count copies for a snapshot while training goes on");
  app.add_option(
         "--transport", flags.transport,
         "tcp, ipc, or shm: all processes on one machine lend each other "
         "memory (rounds are computed as over a network)")
      ->check(CLI::IsMember({"tcp", "ipc", "shm"}));
  app.add_option("--server_device", flags.server_device,
                 "where shards live: cpu or cuda (--memory_bandwidth is then a "
                 "GPU's)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--gpu_link", flags.gpu_link,
                 "between a server's host and its GPU, each way");
  app.add_option("--threads", job.reducing_threads,
                 "of a server that reduce at once: each has staging on the GPU")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", flags.json, "print an object, in bytes and seconds");
  if (const auto ended = ParseArgs(&app, args, out, err)) return *ended;
  const absl::StatusOr<Plan> plan = MakePlan(flags, job);
  if (!plan.ok()) {
    err << "parapet plan: " << plan.status().message() << "\n";
    return kExitUsage;
  }
  if (flags.json) {
    out << ToJson(*plan).dump(2) << "\n";
  } else {
    Print(*plan, out);
  }
  return kExitDone;
}

int ShowPlan(int argc, char** argv) {
  return ShowPlan(ArgsOf(argc, argv), std::cout, std::cerr);
}

}  // namespace parapet
