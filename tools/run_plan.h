#ifndef PARAPET_TOOLS_RUN_PLAN_H_
#define PARAPET_TOOLS_RUN_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/flags.h"

namespace parapet {

enum class RunRole { kServer, kWorker, kEvaluator };

// A process of the job, and what it is called on the screen.
struct RunMember {
  RunRole role = RunRole::kServer;
  int number = 0;
  std::string name;  // "server 0"
};

// What to start, and with which arguments: all that `parapet run` decides
// beforehand.
class RunPlan {
 public:
  // `bin_dir` has the programs, `folder` is the launcher's own; `terminal`: the
  // lead's progress may overwrite its line; `gpus`: the indices of those that
  // workers and evaluators take turns to get, unless --device says otherwise.
  RunPlan(const RunFlags& flags, std::string bin_dir, std::string folder,
          bool terminal, std::vector<int> gpus = {});

  std::vector<RunMember> Members(RunRole role) const;
  // With tcp a server's port is known when its port file is there; with ipc
  // nothing is to be waited for.
  bool has_ports() const { return tcp_; }
  std::string PortFile(int server) const;
  // NotFound as long as the file is not there; DataLoss if it has no port.
  absl::StatusOr<int> ReadPort(int server) const;
  void SetPort(int server, int port);

  // Program and arguments. Whoever starts with tcp before a server's port is
  // known is told port 0.
  std::vector<std::string> Command(const RunMember& member) const;
  std::string summary_file() const { return folder_ + "/summary.json"; }

 private:
  std::string Addresses() const;
  void AddDevice(int number, std::vector<std::string>* argv) const;
  void AddLeadFlags(std::vector<std::string>* argv) const;

  RunFlags flags_;
  std::string bin_dir_, folder_;
  std::string lead_progress_;
  bool tcp_;
  std::vector<int> gpus_;
  std::vector<int> ports_;
};

// "trace.json" of one process: "trace-server-0.json".
std::string TraceFile(const std::string& path, const RunMember& member);

}  // namespace parapet

#endif  // PARAPET_TOOLS_RUN_PLAN_H_
