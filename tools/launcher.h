#ifndef PARAPET_TOOLS_LAUNCHER_H_
#define PARAPET_TOOLS_LAUNCHER_H_

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/job.h"
#include "tools/process.h"
#include "tools/run_env.h"
#include "tools/run_output.h"
#include "tools/run_plan.h"

namespace parapet {

// Starts the processes of a plan in their order and stays with them until the
// last has ended: one thread and one poll loop. run.h says what it does when.
class Launcher {
 public:
  struct Options {
    PatienceConfig patience;
    bool raw_lead_output =
        false;  // the lead's standard output goes to `out` as it is
  };

  // Everything is borrowed.
  Launcher(RunPlan* plan, const Options& options, Clock* clock,
           SignalSource* signals, Screen* screen, Sink* out, Sink* err);

  // The exit code of the job.
  int Run();

 private:
  enum class Phase {
    kLead,
    kLeadPort,
    kServers,
    kServerPorts,
    kWorkers,
    kAllStarted
  };
  // How far the end has come. Each is left for the next when `deadline_`
  // passes.
  enum class Ending { kNo, kLeaving, kTerminating, kKilled };

  struct Child {
    RunMember member;
    Process process;
    LineSplitter out, err;
    bool reaped = false;
  };

  bool IsLead(const Child& child) const;
  bool Running() const;
  bool Running(RunRole role) const;

  void StartMore();
  bool StartStep();
  bool Start(const RunMember& member);
  bool StartAll(RunRole role, int from);
  bool HavePorts(int from, int to);

  void Wait();
  int PollTimeout() const;
  void AddReader(Descriptor* fd, std::vector<pollfd>* fds) const;
  void ReadAll();
  void Read(Child* child, Descriptor* fd, LineSplitter* splitter, bool last);
  void Print(const Child& child, bool raw,
             const std::vector<LineSplitter::Line>& lines);

  void TakeSignals();
  void Reap();
  void Ended(Child* child, int code);
  void Failed(int code);
  void Leave(absl::Duration time, absl::string_view why);
  void PassOn(int signal);
  void Terminate(int signal);
  void Kill();
  void CheckDeadline();
  void FlushOutput();

  RunPlan* plan_;
  Options options_;
  Clock* clock_;
  SignalSource* signals_;
  Screen* screen_;
  Sink* out_;
  Sink* err_;

  std::vector<std::unique_ptr<Child>> children_;
  Phase phase_ = Phase::kLead;
  std::vector<bool> port_known_;
  absl::Time port_deadline_ = absl::InfiniteFuture();
  absl::Time port_report_ = absl::InfiniteFuture();
  Ending ending_ = Ending::kNo;
  absl::Time deadline_ = absl::InfiniteFuture();
  int signals_taken_ = 0;
  int passed_on_ = 0;  // the signal that all were sent, once one was
  std::optional<int> first_failure_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LAUNCHER_H_
