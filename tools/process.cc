#include "tools/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

struct Pipe {
  Descriptor read, write;
};

absl::Status SystemError(absl::string_view what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(error)));
}

// Closed on exec: a child must not hold the pipes of its sisters, or their ends
// are never seen.
absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    return SystemError("cannot make a pipe", errno);
  }
  return Pipe{Descriptor(fds[0]), Descriptor(fds[1])};
}

struct ChildPlan {
  pid_t parent;
  int in, out, err, failed;
  char* const* argv;
};

void ResetSignals() {
  struct sigaction normal = {};
  normal.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &normal, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Between fork and exec: only what POSIX calls async-signal-safe.
[[noreturn]] void BecomeChild(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl, and then no signal comes any more.
  if (::getppid() != plan.parent) ::_exit(127);
  ResetSignals();
  int error = 0;
  if (::dup2(plan.in, 0) < 0 || ::dup2(plan.out, 1) < 0 ||
      ::dup2(plan.err, 2) < 0) {
    error = errno;
  } else {
    ::execv(plan.argv[0], plan.argv);
    error = errno;
  }
  [[maybe_unused]] const ssize_t told =
      ::write(plan.failed, &error, sizeof(error));
  ::_exit(127);
}

// 0 once the child runs its program; otherwise why it does not.
int AwaitExec(int fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

void SetNonBlocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = other.Release();
  return *this;
}

int Descriptor::Release() { return std::exchange(fd_, -1); }

void Descriptor::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Process::Process(pid_t pid, Descriptor out, Descriptor err)
    : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}

Process::Process(Process&& other) noexcept
    : pid_(other.pid_),
      running_(std::exchange(other.running_, false)),
      code_(other.code_),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

Process::~Process() {
  if (!running_) return;
  Signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

absl::StatusOr<Process> Process::Start(const std::vector<std::string>& argv) {
  absl::StatusOr<Pipe> out = MakePipe(), err = MakePipe(), failed = MakePipe();
  for (const auto* pipe : {&out, &err, &failed}) {
    if (!pipe->ok()) return pipe->status();
  }
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  const ChildPlan plan{::getpid(),       null.get(),          out->write.get(),
                       err->write.get(), failed->write.get(), words.data()};
  const pid_t pid = ::fork();
  if (pid < 0) {
    return SystemError(absl::StrCat("cannot start ", argv[0]), errno);
  }
  if (pid == 0) BecomeChild(plan);
  failed->write.Close();
  SetNonBlocking(out->read.get());
  SetNonBlocking(err->read.get());
  // Its group is there once it runs its program, so a signal to the group
  // cannot come too early.
  const int error = AwaitExec(failed->read.get());
  Process process(pid, std::move(out->read), std::move(err->read));
  if (error != 0) {
    return SystemError(absl::StrCat("cannot start ", argv[0]), error);
  }
  return process;
}

void Process::Signal(int signal) {
  if (!running_) return;
  if (signal == SIGKILL) ::kill(-pid_, SIGKILL);
  ::kill(pid_, signal);
}

std::optional<int> Process::Poll() {
  if (!running_) return code_;
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  // Not reaped yet, so the group's number is still its own: what it left behind
  // goes now.
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  running_ = false;
  code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return code_;
}

}  // namespace parapet
