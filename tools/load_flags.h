#ifndef PARAPET_TOOLS_LOAD_FLAGS_H_
#define PARAPET_TOOLS_LOAD_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/flags.h"
#include "tools/load_checker.h"
#include "tools/load_delay.h"
#include "worker/attack_plan.h"

namespace parapet {

// What `parapet load` is asked to do.
struct LoadFlags {
  // The job that players join: its model is "flat:N", "zipf:..." or
  // "layout:FILE", its optimizer sgd. rounds counts the warm-up; with a
  // duration it is more than will be reached.
  CommonFlags common;
  int64_t parameters = 1 << 20;  // of the model
  AttackPlan attack;

  int own_servers = 0;               // to be started; 0: `servers` are there
  std::vector<std::string> servers;  // addresses
  std::string transport = "auto";    // of own servers; never auto once read
  int server_threads = 0;            // likewise
  std::string bin_dir;               // likewise: where parapet-server is

  int first_worker = 0;  // players of this process: [first, first + players)
  int players = 1;
  int Honest() const;  // of them, those that do not attack
  // Whether the weights' values are known: under mean, unless more attackers
  // than can be told apart may be sent away each by itself.
  bool KnowsValues() const;
  int threads = 1;  // that play

  int64_t warmup = 5;       // rounds that are not measured
  int64_t rounds = 0;       // that are; 0: `duration`
  absl::Duration duration;  // of the measured part; 0: `rounds`
  double rate = 0;          // rounds a second; 0: as fast as it goes
  // In which a player's gradients come, tensor by tensor from the layout's end,
  // each in proportion to its size.
  absl::Duration backward;

  LoadDelay stragglers, slow_readers;
  double malformed = 0;  // messages a second
  LoadCheck check = LoadCheck::kSampled;

  bool json = false;
  std::string plot;        // file; empty: none
  absl::Duration max_p99;  // of a round; 0: no limit
  double min_goodput = 0;  // GB/s each way; 0: no limit
};

// Reads argv (argv[0] is skipped); common.print is set for --help.
// InvalidArgument in words: exit with kExitUsage.
absl::StatusOr<LoadFlags> ParseLoadFlags(int argc, const char* const* argv);

// The flags that servers must have been started with to take these players,
// beside --servers and --index.
std::vector<std::string> LoadServerFlags(const LoadFlags& flags);

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_FLAGS_H_
