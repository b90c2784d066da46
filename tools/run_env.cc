#include "tools/run_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

// sun_path holds 108 bytes; "/parapet-XXXXXX/server-65535" is 28 of them.
constexpr size_t kMaxBase = 108 - 1 - 28;

// Whether a socket below it can be given in a list of addresses.
bool Usable(const std::string& base) {
  return !base.empty() && base.size() <= kMaxBase &&
         base.find(',') == std::string::npos;
}

bool Ignored(int signal) {
  struct sigaction action;
  return ::sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

}  // namespace

SignalSource::SignalSource() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) {
    ::sigaddset(&wanted, signal);
  }
  if (!Ignored(SIGHUP)) ::sigaddset(&wanted, SIGHUP);
  ::sigprocmask(SIG_BLOCK, &wanted, &before_);
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, &pipe_before_);
  // An ignored SIGCHLD (it is inherited) would have the kernel reap our
  // children.
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, &child_before_);
  fd_ = Descriptor(::signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
}

SignalSource::~SignalSource() {
  ::sigaction(SIGCHLD, &child_before_, nullptr);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalSource::Next() {
  signalfd_siginfo info;
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

absl::StatusOr<TempFolder> TempFolder::Create(const std::string& base) {
  std::string path =
      absl::StrCat(Usable(base) ? base : "/tmp", "/parapet-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make a folder ", path, ": ", strerror(errno)));
  }
  return TempFolder(std::move(path));
}

TempFolder::TempFolder(TempFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

absl::StatusOr<std::string> ProgramFolder() {
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::FailedPreconditionError(
        "cannot read /proc/self/exe; say --bin_dir=DIR");
  }
  return program.parent_path().string();
}

void EnsureStandardStreams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= 2 && ::fcntl(fd, F_SETFD, 0) == 0);
  if (fd > 2) ::close(fd);
}

}  // namespace parapet
