#ifndef PARAPET_TOOLS_LOAD_SERVERS_H_
#define PARAPET_TOOLS_LOAD_SERVERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "tools/load_flags.h"
#include "tools/process.h"
#include "tools/run_env.h"
#include "tools/run_output.h"
#include "tools/run_plan.h"

namespace parapet {

// What a server took, as /proc says, and what it refused, as it says itself.
struct LoadServerFacts {
  double cpu_seconds = 0;
  int64_t peak_bytes = 0;  // of resident memory
  // Of it, the most that was seen to be shared with other processes: a page
  // counts once for each player in whose memory the server has it mapped.
  int64_t shared_bytes = 0;
  int exit_code = -1;  // -1: it runs
  // By the code's name; none: it has not said.
  std::optional<std::map<std::string, uint64_t>> refusals;
};

// The servers of a load test, as processes of their own on this machine. Their
// output goes to standard error. One thread, whose end is theirs.
class LoadServers {
 public:
  // Starts them all; they listen.
  static absl::StatusOr<std::unique_ptr<LoadServers>> Start(
      const LoadFlags& flags);

  const std::vector<std::string>& addresses() const { return addresses_; }
  // Looks after them: passes on what they write, reads what they took. Call
  // some times a second.
  void Turn();
  bool running() const;
  // The words of one that ended badly; empty: none has.
  std::string failure() const;
  // Waits for their end; kills those that run after `patience`.
  void Finish(absl::Duration patience);
  std::vector<LoadServerFacts> facts() const;

 private:
  struct Server {
    Process process;
    LineSplitter out, err;
    LoadServerFacts facts;
  };

  LoadServers(TempFolder folder, RunPlan plan)
      : folder_(std::move(folder)), plan_(std::move(plan)) {}
  absl::Status StartOne(const RunMember& member);
  std::string SummaryFile(int server) const;
  absl::Status TryFind(int server);
  absl::Status AwaitListening(int server);
  void Look(Server* server);
  void Pass(Descriptor* from, LineSplitter* lines, int number);

  TempFolder folder_;
  RunPlan plan_;
  SteadyClock clock_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_SERVERS_H_
