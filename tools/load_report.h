#ifndef PARAPET_TOOLS_LOAD_REPORT_H_
#define PARAPET_TOOLS_LOAD_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/load_flags.h"
#include "tools/load_servers.h"
#include "tools/load_stats.h"

namespace parapet {

// What a load test came to.
struct LoadReport {
  LoadFlags flags;
  LoadStats stats;
  LoadMalformedStats malformed;
  std::vector<LoadServerFacts> servers;  // empty: they are not ours
  double player_cpu_seconds = 0;
  std::string trouble;  // why it ended early; empty: it did not

  // Of the measured part, and of players that do not attack.
  double Seconds() const;
  double Rounds() const;
  double RoundsPerSecond() const;
  double Goodput() const;  // GB/s each way: payload of rounds that were whole
  uint64_t BytesOfModel() const;  // as the wire has it
  // Bytes in both directions over all rounds, as GiB: what CPU seconds are
  // divided by.
  double AllGib() const;
};

// What a server's memory comes to at its peak by the formula of
// docs/benchmarks.md, `index` of flags.common.job.servers: the program itself,
// three versions of its shard, every worker's gradient of it, and connections.
int64_t LoadServerBytes(const LoadFlags& flags, int index);

// Why the exit code is not 0, in words: limits that did not hold, and anything
// that came wrong.
std::vector<std::string> LoadComplaints(const LoadReport& report);

nlohmann::json LoadJson(const LoadReport& report);
std::string LoadTable(const LoadReport& report);
// One line of what happened so far; `before`: a second ago.
std::string LoadLiveLine(const LoadStats& now, const LoadStats& before,
                         const LoadFlags& flags, absl::Duration elapsed,
                         absl::Duration between);

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_REPORT_H_
