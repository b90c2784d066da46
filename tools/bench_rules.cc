#include "tools/bench_rules.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/flags.h"
#include "common/status_macros.h"
#include "kernels/cpu/targets.h"
#include "nlohmann/json.hpp"
#include "server/rules/chain.h"
#include "server/rules/registry.h"
#include "tools/rule_timer.h"

namespace parapet {
namespace {

using rules::Chain;

constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int kMaxWorkers = 512;

struct Flags {
  std::vector<std::string> rules;
  std::vector<int> n = {8, 16, 32, 64};
  std::vector<int64_t> d = {1'000'000};
  int f = -1;
  int threads = 1;
  int64_t memory = int64_t{2} << 30;
  std::string isa;
  bool json = false;
};

struct Measured {
  std::string rule;
  int n = 0;
  int64_t d = 0;
  int f = 0;
  double seconds = 0;
};

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
    RuleTimer timer(n, d, flags_.threads);
    const int f = flags_.f >= 0 ? flags_.f : LiarsFor(n);
    read_ = timer.ReadSeconds();
    PARAPET_ASSIGN_OR_RETURN(mean_,
                             timer.RuleSeconds(*Chain::Parse("mean"), 0));
    if (!flags_.json) PrintTitle(timer, f);
    Report({"(plain sum)", n, d, 0, read_}, timer.bytes());
    Report({"(memcpy)", n, d, 0, timer.CopySeconds()}, timer.bytes());
    Report({"(distances)", n, d, 0, timer.DistancesSeconds()}, timer.bytes());
    Report({"(mean, momentum, publish)", n, d, 0, timer.MeanStepSeconds()},
           timer.bytes() + 18.0 * static_cast<double>(d));
    for (const Chain& chain : chains) RunChain(chain, &timer, f);
    return absl::OkStatus();
  }

  void RunChain(const Chain& chain, RuleTimer* timer, int f) {
    const Measured row{chain.text(), timer->n(), timer->d(), f, 0};
    absl::Status allowed = chain.CheckJob(row.n, f);
    if (!allowed.ok()) return LeaveOut(row, allowed);
    const absl::StatusOr<double> seconds = timer->RuleSeconds(chain, f);
    if (!seconds.ok()) return LeaveOut(row, seconds.status());
    Report({row.rule, row.n, row.d, f, *seconds}, timer->bytes());
  }

  void LeaveOut(const Measured& row, const absl::Status& why) const {
    std::fprintf(stderr, "%s at n=%d is left out: %s\n", row.rule.c_str(),
                 row.n, std::string(why.message()).c_str());
  }

  void PrintTitle(const RuleTimer& timer, int f) const {
    std::printf("\nn=%d d=%lld f=%d, %d %s\n%-36s %12s %8s %9s %9s\n",
                timer.n(), static_cast<long long>(timer.d()), f, flags_.threads,
                flags_.threads == 1 ? "thread" : "threads", "rule", "ms",
                "GB/s", "x mean", "of read");
    std::fflush(stdout);
  }

  // `bytes` that are read or written once.
  void Report(const Measured& row, double bytes) {
    const double speed = bytes / row.seconds / 1e9;
    const double read = static_cast<double>(row.n) *
                        static_cast<double>(row.d) * 4 / read_ / 1e9;
    all_.push_back({{"rule", row.rule},
                    {"n", row.n},
                    {"d", row.d},
                    {"f", row.f},
                    {"threads", flags_.threads},
                    {"seconds", row.seconds},
                    {"gbytes_per_second", speed},
                    {"ratio_to_mean", row.seconds / mean_},
                    {"share_of_read", speed / read}});
    if (flags_.json) return;
    std::printf("%-36s %12.2f %8.2f %9.2f %8.0f%%\n", row.rule.c_str(),
                row.seconds * 1e3, speed, row.seconds / mean_,
                100 * speed / read);
    std::fflush(stdout);
  }

  const Flags& flags_;
  double read_ = 0, mean_ = 0;  // seconds, at the size that is measured
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
  app->add_option("--threads", flags->threads, "that work on chunks at once")
      ->check(CLI::Range(1, 256));
  app->add_option("--memory", flags->memory,
                  "most bytes of gradients, n * d * 4 [bytes]")
      ->check(CLI::Range(int64_t{1}, kMaxBytes));
  app->add_option("--isa", flags->isa,
                  "use this instruction set instead of the best: AVX3 "
                  "(AVX-512), AVX2, SSE4, SSSE3, SCALAR");
  app->add_flag("--json", flags->json,
                "print an array of objects instead of tables");
}

}  // namespace

int RunBenchRules(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Time of each rule: distances, plan and aggregate of n gradients of d "
      "float32 elements. GB/s are of those n * d * 4 bytes; 'x mean' says how "
      "many times as long as a mean of them it takes, 'of read' how fast it is "
      "beside a plain sum over them. In parentheses: that sum, a memcpy, and "
      "parts of a round.",
      "parapet bench rules");
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  const absl::StatusOr<std::vector<Chain>> chains =
      ParseAll(flags.rules.empty() ? AllChains() : flags.rules);
  absl::Status status = chains.status();
  if (status.ok() && !flags.isa.empty()) status = UseCpuVectors(flags.isa);
  if (status.ok()) status = Bench(flags).Run(*chains);
  if (status.ok()) return kExitDone;
  std::fprintf(stderr, "parapet bench rules: %s\n",
               std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

}  // namespace parapet
