#include "tools/bench_scale.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "absl/strings/str_format.h"
#include "common/flags.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/command_line.h"
#include "tools/plan_flags.h"
#include "tools/plan_model.h"
#include "tools/rates.h"
#include "tools/scale_machines.h"
#include "tools/scale_model.h"

namespace parapet {
namespace {

struct Flags {
  PlanFlags plan;
  std::vector<int> workers = {4, 16, 64, 256, 1024, 4096};
  std::vector<int> servers = {1, 4, 16, 64, 256};
  int64_t simulate_up_to = 150'000;
  bool json = false;
};

struct Point {
  int workers = 0, servers = 0;
  // Seconds. Simulated: by the job's state machines, where they were run.
  std::optional<double> simulated;
  double model = 0, formula = 0, ring = 0;
};

struct Crossing {
  int workers = 0;
  int servers =
      0;  // the fewest that beat a ring; 0: not even as many as workers
};

absl::StatusOr<Point> Measure(const Flags& flags, const PlanJob& job,
                              const PlanHosts& hosts) {
  Point point{job.workers, job.servers, std::nullopt,
              0,           0,           RingTime(job, hosts)};
  PARAPET_ASSIGN_OR_RETURN(const PlanShape shape, ShapeOf(job));
  point.formula = TimeOf(job, shape, hosts).seconds;
  PARAPET_ASSIGN_OR_RETURN(point.model, SimulateRound(job, hosts));
  if (MachineMessages(job) > flags.simulate_up_to) return point;
  PARAPET_ASSIGN_OR_RETURN(const JobConfig config,
                           ReadJobConfig(flags.plan, job.workers, job.servers));
  PARAPET_ASSIGN_OR_RETURN(const std::vector<double> rounds,
                           RunMachines(config, job.parameters, hosts, 1));
  point.simulated = rounds[0];
  return point;
}

absl::StatusOr<std::vector<Point>> MeasureAll(const Flags& flags, PlanJob job,
                                              const PlanHosts& hosts) {
  std::vector<Point> points;
  for (const int workers : flags.workers) {
    PARAPET_RETURN_IF_ERROR(CheckPlanRule(flags.plan, workers));
    for (const int servers : flags.servers) {
      job.workers = workers;
      job.servers = servers;
      PARAPET_ASSIGN_OR_RETURN(Point point, Measure(flags, job, hosts));
      points.push_back(point);
    }
  }
  return points;
}

std::vector<Crossing> Crossings(const Flags& flags, PlanJob job,
                                const PlanHosts& hosts) {
  std::vector<Crossing> crossings;
  for (const int workers : flags.workers) {
    job.workers = workers;
    crossings.push_back({workers, ServersToBeatRing(job, hosts, workers)});
  }
  return crossings;
}

// The largest share by which the model is off where the machines were run.
std::optional<double> LargestDeviation(const std::vector<Point>& points) {
  std::optional<double> most;
  for (const Point& p : points) {
    if (!p.simulated) continue;
    most = std::max(most.value_or(0), std::abs(p.model / *p.simulated - 1));
  }
  return most;
}

nlohmann::json OrNull(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nullptr;
}

void PrintJson(const std::vector<Point>& points,
               const std::vector<Crossing>& crossings, std::ostream& out) {
  nlohmann::json rounds = nlohmann::json::array(),
                 wins = nlohmann::json::array();
  for (const Point& p : points) {
    rounds.push_back({{"workers", p.workers},
                      {"servers", p.servers},
                      {"simulated", OrNull(p.simulated)},
                      {"model", p.model},
                      {"formula", p.formula},
                      {"ring", p.ring}});
  }
  for (const Crossing& c : crossings)
    wins.push_back(
        {{"workers", c.workers},
         {"servers", c.servers > 0 ? nlohmann::json(c.servers) : nullptr}});
  out << nlohmann::json{{"rounds", rounds},
                        {"largest_deviation", OrNull(LargestDeviation(points))},
                        {"beats_ring_from", wins}}
             .dump(2)
      << "\n";
}

void PrintTable(const std::vector<Point>& points,
                const std::vector<Crossing>& crossings, std::ostream& out) {
  out << absl::StrFormat("%8s %8s %11s %11s %11s %11s %11s\n", "workers",
                         "servers", "simulated", "model", "formula", "ring",
                         "ring/model");
  for (const Point& p : points) {
    out << absl::StrFormat("%8d %8d %11s %11s %11s %11s %11.2f\n", p.workers,
                           p.servers,
                           p.simulated ? SecondsInWords(*p.simulated) : "-",
                           SecondsInWords(p.model), SecondsInWords(p.formula),
                           SecondsInWords(p.ring), p.ring / p.model);
  }
  if (const auto most = LargestDeviation(points)) {
    out << absl::StrFormat(
        "\nWhere the job's state machines were simulated, the model is off by "
        "%.2f %% at most.\n",
        100 * *most);
  }
  out << "\nA round is shorter than ring all-reduce, by the formulas:\n";
  for (const Crossing& c : crossings) {
    out << (c.servers > 0
                ? absl::StrFormat("  %4d workers: from %d servers on\n",
                                  c.workers, c.servers)
                : absl::StrFormat(
                      "  %4d workers: with no number of servers up to %d\n",
                      c.workers, c.workers));
  }
}

}  // namespace

int RunBenchScale(const std::vector<std::string>& args, std::ostream& out,
                  std::ostream& err) {
  CLI::App app(
      "Round times of jobs with n workers and S servers: the job's own state "
      "machines over a simulated network, and a model message by message for "
      "any size, beside formulas and ring all-reduce. Nothing is measured; "
      "each process has a host of its own, and workers compute in no time.",
      "parapet bench scale");
  Flags flags;
  flags.plan.parameters = 100e6;
  AddPlanFlags(&app, &flags.plan);
  app.add_option("--workers", flags.workers, "numbers of workers")
      ->delimiter(',')
      ->check(CLI::Range(2, 4096));
  app.add_option("--servers", flags.servers, "numbers of servers")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--simulate_up_to", flags.simulate_up_to,
                 "messages of a job whose state machines are simulated (about "
                 "5 us each); 0: only the model")
      ->check(CLI::Range(int64_t{0}, kMostMachineMessages));
  app.add_flag("--json", flags.json, "print an object, in seconds");
  if (const auto ended = ParseArgs(&app, args, out, err)) return *ended;
  PlanJob job;
  PlanHosts hosts;
  const absl::Status read = ReadPlanFlags(flags.plan, &job, &hosts);
  const absl::StatusOr<std::vector<Point>> points =
      read.ok() ? MeasureAll(flags, job, hosts) : read;
  if (!points.ok()) {
    err << "parapet bench scale: " << points.status().message() << "\n";
    return kExitUsage;
  }
  (flags.json ? PrintJson : PrintTable)(*points, Crossings(flags, job, hosts),
                                        out);
  return kExitDone;
}

int RunBenchScale(int argc, char** argv) {
  return RunBenchScale(ArgsOf(argc, argv), std::cout, std::cerr);
}

}  // namespace parapet
