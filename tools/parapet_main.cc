// parapet: the program for people. Each command lives in a file of its own.

#include <cstdio>
#include <cstring>

#include "common/flags.h"
#include "common/process_setup.h"
#include "tools/aggregate.h"
#include "tools/audit_report.h"
#include "tools/bench_round.h"
#include "tools/bench_rules.h"
#include "tools/bench_scale.h"
#include "tools/ckpt.h"
#include "tools/load.h"
#include "tools/plan.h"
#include "tools/rules_table.h"
#include "tools/run.h"

namespace {

// `parapet bench WHAT`.
int RunBench(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "round") == 0)
    return parapet::RunBenchRound(argc - 1, argv + 1);
  if (argc >= 2 && std::strcmp(argv[1], "rules") == 0)
    return parapet::RunBenchRules(argc - 1, argv + 1);
  if (argc >= 2 && std::strcmp(argv[1], "scale") == 0)
    return parapet::RunBenchScale(argc - 1, argv + 1);
  std::fputs(
      "usage: parapet bench round [--flags]\n"
      "       parapet bench rules [--flags]\n"
      "       parapet bench scale [--flags]\n",
      stderr);
  return parapet::kExitUsage;
}

struct Command {
  const char* name;
  const char* what;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"run", "start a whole job on this machine", parapet::RunJob},
    {"bench", "measure rounds or rules on this machine, simulate many",
     RunBench},
    {"plan", "say what a job needs and how long its rounds take",
     parapet::ShowPlan},
    {"load", "play many workers against servers, and measure",
     parapet::RunLoad},
    {"rules", "list the rules that make one gradient of many",
     parapet::RunRules},
    {"aggregate", "apply a rule to the rows of a NumPy file",
     parapet::RunAggregate},
    {"audit", "say who was left out how often, and why", parapet::RunAudit},
    {"ckpt", "look into snapshots and export them", parapet::RunCkpt},
};

int Usage(FILE* out, int code) {
  std::fputs("usage: parapet COMMAND [--flags]\n\n", out);
  for (const Command& command : kCommands)
    std::fprintf(out, "  %-9s %s\n", command.name, command.what);
  std::fputs("\nparapet COMMAND --help says more.\n", out);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  parapet::SetUpProcess();
  if (argc < 2) return Usage(stderr, parapet::kExitUsage);
  if (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "help") == 0)
    return Usage(stdout, 0);
  for (const Command& command : kCommands) {
    if (std::strcmp(argv[1], command.name) == 0)
      return command.run(argc - 1, argv + 1);
  }
  std::fprintf(stderr, "parapet: no command '%s'\n", argv[1]);
  return Usage(stderr, parapet::kExitUsage);
}
