#ifndef PARAPET_TESTS_SIM_CLUSTER_H_
#define PARAPET_TESTS_SIM_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint.h"
#include "common/disk.h"
#include "common/net/sim_transport.h"
#include "kernels/device.h"
#include "server/node.h"
#include "tests/sim/altering_transport.h"
#include "tests/sim/changing_transport.h"
#include "tests/sim/ledger.h"
#include "tests/sim/process.h"
#include "tests/sim/scenario.h"

namespace parapet::sim {

// What became of a run.
struct RunResult {
  struct Ended {
    Code code = Code::kOk;
    std::string words;
  };
  bool hung = false;  // not over at the scenario's limit
  std::vector<std::optional<ServerNode::Outcome>> servers;  // none: crashed
  std::map<Peer, std::optional<Ended>> clients;             // likewise
  std::map<Code, uint64_t> refusals;                        // of all servers
  Ledger ledger;
  std::vector<std::string> log;
  absl::Duration took;  // virtual

  // Whether a line of the log contains some text.
  bool Logged(const std::string& text) const;
};

// A whole job in one thread and in virtual time: servers, workers, evaluators,
// the network between them and what goes wrong. A run is a pure function of
// its scenario (and of the disk's content).
class Cluster {
 public:
  // `disk` and `device` must outlive it. `resume`: the snapshot to go on with.
  Cluster(const Scenario& scenario, const Device* device, Disk* disk,
          std::optional<Snapshot> resume = std::nullopt, uint64_t term = 1);

  // Before Run: processes ("server-0", "worker-2") that never start, or crash.
  void NeverStart(const std::string& name) { absent_.insert(name); }
  void CrashAfter(const std::string& name, absl::Duration after);
  void StopAfter(const std::string& name, absl::Duration after);
  // Before Run: what the lead sends is altered.
  void AlterLead(AlteringTransport::Alter alter) { alter_ = std::move(alter); }

  RunResult Run();

 private:
  absl::Time Now() const { return network_.Now(); }
  absl::Time SoonAfterStart();
  std::unique_ptr<net::Transport> MakeNode(const std::string& name);
  void StartServer(int index);
  void StartClient(const Peer& peer);
  void Add(std::unique_ptr<Process> process);
  std::shared_ptr<Logger> LoggerFor(const std::string& name);
  absl::Time NextTime() const;
  void DriveAll();
  void DoFaults();
  void BreakSomething();
  void CutSomething();
  void AskSomeToStop();
  void Bury();
  void Crash(const std::string& name);
  bool Over() const;
  std::string SomeProcess();
  absl::Time Next(double per_second);
  void Note(const Process& process);

  const Scenario scenario_;
  const Layout layout_;
  const ShardMap map_;
  const Device* const device_;
  Disk* const disk_;
  const std::optional<Snapshot> resume_;
  const uint64_t term_;
  Random random_;
  net::SimNetwork network_;
  RunResult result_;
  std::map<std::string, std::unique_ptr<Process>> processes_;
  std::set<std::string> absent_;
  AlteringTransport::Alter alter_;
  std::multimap<absl::Time, std::string> crashes_, stops_;
  std::multimap<absl::Time, std::pair<std::string, std::string>> heals_;
  absl::Time next_break_, next_cut_;
  std::optional<absl::Time> stop_at_;  // once there is a lease
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_CLUSTER_H_
