#include "tools/run.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/flags.h"
#include "server/rule_check.h"
#include "tools/launcher.h"
#include "tools/run_env.h"
#include "tools/run_output.h"
#include "tools/run_plan.h"
#include "tools/run_summary.h"
#include "worker/attack_plan.h"
#include "worker/device_choice.h"
#include "worker/gpu.h"

namespace parapet {
namespace {

// Waits for the reader: at the end there is nothing else to do.
void WriteOut(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

void PrintSummary(const RunFlags& flags, const RunPlan& plan) {
  if (flags.summary == "none") return;
  const absl::StatusOr<nlohmann::json> summary =
      ReadSummary(plan.summary_file());
  if (!summary.ok()) {
    WriteOut(STDERR_FILENO,
             absl::StrCat("no summary: ", summary.status().message(), "\n"));
    return;
  }
  const bool json = flags.summary == "json";
  WriteOut(STDOUT_FILENO,
           json ? summary->dump() + "\n" : SummaryTable(*summary));
}

int Refuse(const absl::Status& status, int code) {
  WriteOut(STDERR_FILENO,
           absl::StrCat("parapet run: ", status.message(), "\n"));
  return code;
}

size_t LongestName(const RunPlan& plan) {
  size_t longest = 0;
  for (const RunRole role :
       {RunRole::kServer, RunRole::kWorker, RunRole::kEvaluator}) {
    for (const RunMember& member : plan.Members(role)) {
      longest = std::max(longest, member.name.size());
    }
  }
  return longest;
}

std::string Environment(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// For the workers to take turns.
std::vector<int> Gpus(const RunFlags& flags) {
  if (flags.device != "auto") return {};
  return UsableGpus(AskGpus());
}

int RunPlanned(const RunFlags& flags, RunPlan* plan, bool terminal) {
  SteadyClock clock;
  SignalSource signals;
  Sink out(STDOUT_FILENO), err(STDERR_FILENO);
  Screen screen(&err, terminal, LongestName(*plan));
  const Launcher::Options options{flags.patience, flags.progress == "json"};
  const int code =
      Launcher(plan, options, &clock, &signals, &screen, &out, &err).Run();
  PrintSummary(flags, *plan);
  return code;
}

}  // namespace

int RunJob(int argc, char** argv) {
  EnsureStandardStreams();
  const absl::StatusOr<RunFlags> flags = ParseRunFlags(argc, argv, CheckRule);
  if (!flags.ok()) return Refuse(flags.status(), kExitUsage);
  if (!flags->print.empty()) {
    WriteOut(STDOUT_FILENO, flags->print);
    return kExitDone;
  }
  const absl::StatusOr<AttackPlan> attack = MakeAttackPlan(*flags);
  if (!attack.ok()) return Refuse(attack.status(), kExitUsage);
  if (attack->attackers > 0)
    WriteOut(STDERR_FILENO,
             absl::StrCat("parapet run: ", attack->Warning(), "\n"));
  absl::StatusOr<std::string> programs = flags->bin_dir;
  if (programs->empty()) programs = ProgramFolder();
  if (!programs.ok()) return Refuse(programs.status(), kExitFailed);
  const absl::StatusOr<TempFolder> folder =
      TempFolder::Create(Environment("TMPDIR"));
  if (!folder.ok()) return Refuse(folder.status(), kExitFailed);
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  RunPlan plan(*flags, *programs, folder->path(), terminal, Gpus(*flags));
  return RunPlanned(*flags, &plan, terminal);
}

}  // namespace parapet
