#ifndef PARAPET_TOOLS_PROCESS_H_
#define PARAPET_TOOLS_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parapet {

// A file descriptor with an owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  int Release();
  void Close();

 private:
  int fd_;
};

// A program that this process started, in a process group of its own (so that a
// terminal's Ctrl-C reaches only the starter), reading /dev/null and writing to
// pipes. The kernel kills it when the *thread* that started it dies, however
// that dies; what it starts itself is its own affair until it ends, when the
// rest of its group is killed.
//
// Nothing else is ever signalled: as long as a process is not reaped, its
// number and its group's are not given to another.
class Process {
 public:
  // `argv[0]` is the program's path. An error means that nothing runs. Call
  // from a process whose SIGCHLD is not ignored; signals are unblocked and
  // SIGPIPE is restored in the child.
  static absl::StatusOr<Process> Start(const std::vector<std::string>& argv);

  Process(Process&&) noexcept;
  Process& operator=(Process&&) = delete;
  // Kills the process and its group if it still runs.
  ~Process();

  pid_t pid() const { return pid_; }
  bool running() const { return running_; }
  // Ends of the pipes, non-blocking; to be closed by the reader at their end.
  Descriptor& out() { return out_; }
  Descriptor& err() { return err_; }

  // Does nothing once the process has ended. SIGKILL goes to its whole group.
  void Signal(int signal);

  // Once it has ended: its exit code, or 128 + the signal that ended it. Does
  // not wait.
  std::optional<int> Poll();

 private:
  Process(pid_t pid, Descriptor out, Descriptor err);

  pid_t pid_;
  bool running_ = true;
  std::optional<int> code_;
  Descriptor out_, err_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_PROCESS_H_
