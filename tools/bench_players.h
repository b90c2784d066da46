#ifndef PARAPET_TOOLS_BENCH_PLAYERS_H_
#define PARAPET_TOOLS_BENCH_PLAYERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parapet {

// What one process of a benchmark found out.
struct PlayerReport {
  std::vector<double> round_ms;  // empty for servers
  double cpu_seconds = 0;        // of the whole process
};

// Runs each function in a process of its own, forked from this one (which must
// have no other thread), and collects what they return. A process that fails or
// outlives `timeout_seconds` fails the call; none is left behind.
absl::StatusOr<std::vector<PlayerReport>> RunPlayers(
    const std::vector<std::function<absl::StatusOr<PlayerReport>()>>& players,
    double timeout_seconds);

struct RoundBench {
  std::string transport = "ipc";  // or "tcp"
  int workers = 1;
  int servers = 1;
  int64_t bytes = 64 << 20;  // of gradients a worker pushes in a round
  int64_t chunk = 0;         // elements; 0 chooses
  int rounds = 50;
  int warmup = 5;
  int server_threads = 0;       // that reduce; 0: in each server's event loop
  bool hot_echo = false;        // see ZmqEchoRounds
  std::vector<int> ports = {};  // one a server, for tcp
};

// Ports of this machine that were free a moment ago.
absl::StatusOr<std::vector<int>> FreePorts(int count);

// Parapet's own processes: a report for each worker, then for each server.
absl::StatusOr<std::vector<PlayerReport>> RunParapetRounds(
    const RoundBench& bench, const std::string& dir);

// The same number of processes that echo the same frames with bare libzmq.
absl::StatusOr<std::vector<PlayerReport>> RunRawEcho(const RoundBench& bench,
                                                     const std::string& dir);

}  // namespace parapet

#endif  // PARAPET_TOOLS_BENCH_PLAYERS_H_
