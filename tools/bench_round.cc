#include "tools/bench_round.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/flags.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench_players.h"
#include "tools/run_env.h"

namespace parapet {
namespace {

struct Flags {
  std::vector<std::string> transports = {"shm", "ipc", "tcp"};
  int workers = 1, servers = 1, rounds = 0, server_threads = 0;
  std::vector<int64_t> bytes = {4096, 1 << 20, 64 << 20};
  int64_t chunk = 0;
  bool hot_echo = false;
  bool json = false;
};

struct Result {
  RoundBench bench;
  double p50 = 0, p99 = 0, raw_p50 = 0;
  double cpu_per_gib = 0;
};

double Percentile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(
      values.size() - 1,
      static_cast<size_t>(q * static_cast<double>(values.size())))];
}

std::vector<double> AllRounds(const std::vector<PlayerReport>& reports) {
  std::vector<double> all;
  for (const PlayerReport& report : reports)
    all.insert(all.end(), report.round_ms.begin(), report.round_ms.end());
  return all;
}

// GB/s each way, over all workers.
double Goodput(const RoundBench& bench, double ms) {
  return ms > 0 ? static_cast<double>(bench.bytes) * bench.workers / ms / 1e6
                : 0;
}

int RoundsFor(int64_t bytes, int workers) {
  const int64_t budget = int64_t{4} << 30;
  return static_cast<int>(
      std::clamp<int64_t>(budget / (bytes * workers), 20, 2000));
}

absl::StatusOr<Result> Measure(RoundBench bench) {
  PARAPET_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create(""));
  const std::string& dir = folder.path();
  if (bench.transport == "tcp") {
    PARAPET_ASSIGN_OR_RETURN(bench.ports, FreePorts(bench.servers));
  }
  PARAPET_ASSIGN_OR_RETURN(const auto raw, RunRawEcho(bench, dir));
  PARAPET_ASSIGN_OR_RETURN(const auto ours, RunParapetRounds(bench, dir));
  Result result;
  result.bench = bench;
  result.raw_p50 = Percentile(AllRounds(raw), 0.5);
  result.p50 = Percentile(AllRounds(ours), 0.5);
  result.p99 = Percentile(AllRounds(ours), 0.99);
  double cpu = 0;
  for (const PlayerReport& report : ours) cpu += report.cpu_seconds;
  const double gib = static_cast<double>(bench.bytes) * bench.workers * 2 *
                     (bench.rounds + bench.warmup) / (1 << 30);
  result.cpu_per_gib = cpu / gib;
  return result;
}

double MemcpyGbytesPerSecond(int64_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes);
  SteadyClock clock;
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const absl::Time began = clock.Now();
    std::memcpy(to.data(), from.data(), from.size());
    const double seconds = absl::ToDoubleSeconds(clock.Now() - began);
    best = std::max(best, static_cast<double>(bytes) / seconds / 1e9 *
                              (to[bytes / 2] == 1 ? 1 : 0));
  }
  return best;
}

nlohmann::json ToJson(const Result& r) {
  return {{"transport", r.bench.transport},
          {"workers", r.bench.workers},
          {"servers", r.bench.servers},
          {"bytes", r.bench.bytes},
          {"rounds", r.bench.rounds},
          {"round_ms", {{"p50", r.p50}, {"p99", r.p99}}},
          {"raw_round_ms", r.raw_p50},
          {"gbytes_per_second", Goodput(r.bench, r.p50)},
          {"raw_gbytes_per_second", Goodput(r.bench, r.raw_p50)},
          {"cpu_seconds_per_gib", r.cpu_per_gib},
          {"ratio", r.p50 > 0 ? r.raw_p50 / r.p50 : 0}};
}

void PrintRow(const Result& r) {
  std::printf(
      "%-5s %7d %7d %10lld  %9.3f %9.3f  %8.3f  %9.3f %8.3f  %6.2f  %7.2f\n",
      r.bench.transport.c_str(), r.bench.workers, r.bench.servers,
      static_cast<long long>(r.bench.bytes), r.p50, r.p99,
      Goodput(r.bench, r.p50), r.raw_p50, Goodput(r.bench, r.raw_p50),
      r.p50 > 0 ? r.raw_p50 / r.p50 : 0, r.cpu_per_gib);
  std::fflush(stdout);
}

absl::Status Bench(const Flags& flags) {
  nlohmann::json all = nlohmann::json::array();
  if (!flags.json) {
    std::printf("memcpy of 64 MiB: %.1f GB/s\n",
                MemcpyGbytesPerSecond(64 << 20));
    std::printf("%-5s %7s %7s %10s  %9s %9s  %8s  %9s %8s  %6s  %7s\n", "",
                "workers", "servers", "bytes", "p50 ms", "p99 ms", "GB/s",
                "raw ms", "raw GB/s", "ratio", "cpu/GiB");
  }
  for (const std::string& transport : flags.transports) {
    for (int64_t bytes : flags.bytes) {
      RoundBench bench{transport, flags.workers,        flags.servers,
                       bytes,     flags.chunk,          flags.rounds,
                       5,         flags.server_threads, flags.hot_echo};
      if (bench.rounds == 0) bench.rounds = RoundsFor(bytes, flags.workers);
      PARAPET_ASSIGN_OR_RETURN(const Result result, Measure(bench));
      if (!flags.json) PrintRow(result);
      all.push_back(ToJson(result));
    }
  }
  if (flags.json) std::printf("%s\n", all.dump(2).c_str());
  return absl::OkStatus();
}

}  // namespace

int RunBenchRound(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Rounds of a given size without a model, beside a bare zmq echo of the "
      "same bytes.",
      "parapet bench round");
  app.add_option("--transport", flags.transports, "any of shm, ipc, tcp")
      ->delimiter(',')
      ->check(CLI::IsMember({"shm", "ipc", "tcp"}));
  app.add_option("--workers", flags.workers, "worker processes")
      ->check(CLI::Range(1, 64));
  app.add_option("--servers", flags.servers, "server processes")
      ->check(CLI::Range(1, 9));
  app.add_option("--bytes", flags.bytes, "sizes of a worker's gradient [bytes]")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{4}, int64_t{1} << 34));
  app.add_option("--server_threads", flags.server_threads,
                 "that reduce in each server; 0: its event loop does")
      ->check(CLI::Range(0, 1024));
  app.add_option("--chunk", flags.chunk,
                 "elements of a chunk, a multiple of 16384; 0 chooses");
  app.add_option("--rounds", flags.rounds,
                 "rounds to time; 0: about 4 GiB of them")
      ->check(CLI::Range(0, 1000000));
  app.add_flag(
      "--hot_echo", flags.hot_echo,
      "the bare echo sends one chunk over and over, which stays in the "
      "caches, instead of a vector's");
  app.add_flag("--json", flags.json,
               "print an array of objects instead of a table");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  const absl::Status status = Bench(flags);
  if (status.ok()) return kExitDone;
  std::fprintf(stderr, "parapet bench round: %s\n",
               std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

}  // namespace parapet
