#include "tools/bench_rules.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/clock.h"
#include "common/flags.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/rules/local_round.h"
#include "server/rules/registry.h"

namespace parapet {
namespace {

using rules::Chain;

constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int kMaxWorkers = 512;
constexpr size_t kPiece = size_t{16} << 20;  // elements
constexpr int kMostTimes = 5;    // a measurement is the best of so many,
constexpr double kEnough = 1.0;  // or of as many as begin within a second

struct Flags {
  std::vector<std::string> rules;
  std::vector<int> n = {8, 16, 32, 64};
  std::vector<int64_t> d = {1'000'000};
  int f = -1;
  int threads = 1;
  int64_t memory = int64_t{2} << 30;
  bool json = false;
};

struct Measured {
  std::string rule;
  int n = 0;
  int64_t d = 0;
  int f = 0;
  double seconds = 0;
};

// Gradients that differ, as if from unequal mini-batches: no rule gets them for
// nothing.
class Gradients {
 public:
  Gradients(int n, int64_t d) : n_(n), d_(d), values_(n * d) {
    Random random(1);
    for (float& value : values_)
      value = static_cast<float>(random.Uniform() - 0.45);
    for (int i = 0; i < n; ++i) rows_.push_back(&values_[i * d]);
  }
  int n() const { return n_; }
  int64_t d() const { return d_; }
  const std::vector<const float*>& rows() const { return rows_; }
  const std::vector<float>& values() const { return values_; }
  double bytes() const { return static_cast<double>(values_.size()) * 4; }

 private:
  int n_;
  int64_t d_;
  std::vector<float> values_;
  std::vector<const float*> rows_;
};

void OnThreads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
}

double BestSeconds(const std::function<void()>& work) {
  SteadyClock clock;
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (int time = 0; time < kMostTimes && sum < kEnough; ++time) {
    const absl::Time began = clock.Now();
    work();
    const double seconds = absl::ToDoubleSeconds(clock.Now() - began);
    best = std::min(best, seconds);
    sum += seconds;
  }
  return best;
}

// memcpy of all rows, by pieces too large for a cache.
double MemcpySeconds(const Gradients& gradients, int threads) {
  const std::vector<float>& from = gradients.values();
  const size_t piece = std::min(kPiece, from.size() / threads + 1);
  std::vector<std::vector<float>> to(threads, std::vector<float>(piece));
  return BestSeconds([&] {
    OnThreads(threads, [&](int t) {
      for (size_t at = t * piece; at < from.size(); at += threads * piece) {
        std::memcpy(to[t].data(), &from[at],
                    std::min(piece, from.size() - at) * sizeof(float));
      }
    });
  });
}

// What the servers do with a round of which every vector is there.
absl::StatusOr<double> RuleSeconds(const Chain& chain,
                                   const Gradients& gradients, int f,
                                   int threads) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  rules::LocalRound round{device.get(), gradients.rows(), gradients.d()};
  round.f = f;
  round.shards = threads;
  round.shuffle = rules::SecretShuffle(1, 0);
  std::vector<float> out(gradients.d());
  absl::Status failure;
  const double seconds = BestSeconds([&] {
    std::vector<rules::PartialDistances> parts(
        threads, rules::PartialDistances(gradients.n()));
    if (chain.needs_distances()) {
      OnThreads(threads, [&](int t) { parts[t] = MeasureShard(round, t); });
      for (int t = 1; t < threads; ++t) parts[0].Merge(parts[t]);
    }
    const rules::Plan plan = rules::PlanLocally(chain, round, parts[0]);
    if (plan.limits_failed) {
      failure = absl::FailedPreconditionError(plan.why_bad);
      return;
    }
    OnThreads(threads, [&](int t) { ApplyShard(plan, round, t, out.data()); });
  });
  if (!failure.ok()) return failure;
  return seconds;
}

// Few enough for every rule: bulyan needs 4f+3 workers.
int LiarsFor(int n) { return n / 8; }

class Bench {
 public:
  explicit Bench(const Flags& flags) : flags_(flags) {}

  absl::Status Run(const std::vector<Chain>& chains) {
    for (int n : flags_.n) {
      for (int64_t d : flags_.d) PARAPET_RETURN_IF_ERROR(RunSize(n, d, chains));
    }
    if (flags_.json) std::printf("%s\n", all_.dump(2).c_str());
    return absl::OkStatus();
  }

 private:
  absl::Status RunSize(int n, int64_t d, const std::vector<Chain>& chains) {
    if (n * d * 4 > flags_.memory) {
      std::fprintf(stderr,
                   "n=%d, d=%lld is left out: %lld bytes of gradients are over "
                   "--memory=%lld\n",
                   n, static_cast<long long>(d),
                   static_cast<long long>(n) * d * 4,
                   static_cast<long long>(flags_.memory));
      return absl::OkStatus();
    }
    const Gradients gradients(n, d);
    const int f = flags_.f >= 0 ? flags_.f : LiarsFor(n);
    memory_ = MemcpySeconds(gradients, flags_.threads);
    PARAPET_ASSIGN_OR_RETURN(mean_, RuleSeconds(*Chain::Parse("mean"),
                                                gradients, 0, flags_.threads));
    if (!flags_.json) PrintTitle(gradients, f);
    for (const Chain& chain : chains) RunChain(chain, gradients, f);
    return absl::OkStatus();
  }

  void RunChain(const Chain& chain, const Gradients& gradients, int f) {
    const Measured row{chain.text(), gradients.n(), gradients.d(), f, 0};
    absl::Status allowed = chain.CheckJob(row.n, f);
    if (!allowed.ok()) return LeaveOut(row, allowed);
    const absl::StatusOr<double> seconds =
        row.rule == "mean" ? mean_
                           : RuleSeconds(chain, gradients, f, flags_.threads);
    if (!seconds.ok()) return LeaveOut(row, seconds.status());
    Report({row.rule, row.n, row.d, f, *seconds}, gradients.bytes());
  }

  void LeaveOut(const Measured& row, const absl::Status& why) const {
    std::fprintf(stderr, "%s at n=%d is left out: %s\n", row.rule.c_str(),
                 row.n, std::string(why.message()).c_str());
  }

  void PrintTitle(const Gradients& gradients, int f) const {
    std::printf(
        "\nn=%d d=%lld f=%d, %d %s; memcpy %.1f GB/s\n%-36s %12s %8s %9s %9s\n",
        gradients.n(), static_cast<long long>(gradients.d()), f, flags_.threads,
        flags_.threads == 1 ? "thread" : "threads",
        gradients.bytes() / memory_ / 1e9, "rule", "ms", "GB/s", "x mean",
        "x memcpy");
    std::fflush(stdout);
  }

  void Report(const Measured& row, double bytes) {
    const double speed = bytes / row.seconds / 1e9;
    all_.push_back({{"rule", row.rule},
                    {"n", row.n},
                    {"d", row.d},
                    {"f", row.f},
                    {"threads", flags_.threads},
                    {"seconds", row.seconds},
                    {"gbytes_per_second", speed},
                    {"ratio_to_mean", row.seconds / mean_},
                    {"ratio_to_memory", row.seconds / memory_}});
    if (flags_.json) return;
    std::printf("%-36s %12.2f %8.2f %9.2f %9.2f\n", row.rule.c_str(),
                row.seconds * 1e3, speed, row.seconds / mean_,
                row.seconds / memory_);
    std::fflush(stdout);
  }

  const Flags& flags_;
  double memory_ = 0, mean_ = 0;  // seconds, at the size that is measured
  nlohmann::json all_ = nlohmann::json::array();
};

// Each rule by itself, each step before a mean, and the chain that
// docs/rules.md recommends.
std::vector<std::string> AllChains() {
  std::vector<std::string> chains;
  for (const rules::StageInfo& info : rules::AllStages())
    chains.push_back(info.ExampleChain());
  chains.emplace_back("nnm + trimmed_mean");
  return chains;
}

absl::StatusOr<std::vector<Chain>> ParseAll(
    const std::vector<std::string>& texts) {
  std::vector<Chain> chains;
  for (const std::string& text : texts) {
    PARAPET_ASSIGN_OR_RETURN(Chain chain, Chain::Parse(text));
    chains.push_back(std::move(chain));
  }
  return chains;
}

void AddFlags(CLI::App* app, Flags* flags) {
  app->add_option("--rules", flags->rules,
                  "rules to time, separated by ';'; all by default")
      ->delimiter(';');
  app->add_option("--n", flags->n, "numbers of workers")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxWorkers));
  app->add_option("--d", flags->d, "elements of a gradient")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app->add_option("--byzantine", flags->f,
                  "workers that may lie; without it n / 8")
      ->check(CLI::Range(0, kMaxWorkers));
  app->add_option("--threads", flags->threads, "that work on leaves at once")
      ->check(CLI::Range(1, 256));
  app->add_option("--memory", flags->memory,
                  "most bytes of gradients, n * d * 4 [bytes]")
      ->check(CLI::Range(int64_t{1}, kMaxBytes));
  app->add_flag("--json", flags->json,
                "print an array of objects instead of tables");
}

}  // namespace

int RunBenchRules(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Time of each rule: distances, plan and aggregate of n gradients of d "
      "float32 elements. GB/s are of those n * d * 4 bytes; 'x mean' and 'x "
      "memcpy' say how many times as long as a mean, or a memcpy, of them it "
      "takes.",
      "parapet bench rules");
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  const absl::StatusOr<std::vector<Chain>> chains =
      ParseAll(flags.rules.empty() ? AllChains() : flags.rules);
  const absl::Status status =
      chains.ok() ? Bench(flags).Run(*chains) : chains.status();
  if (status.ok()) return kExitDone;
  std::fprintf(stderr, "parapet bench rules: %s\n",
               std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

}  // namespace parapet
