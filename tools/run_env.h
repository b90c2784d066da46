#ifndef PARAPET_TOOLS_RUN_ENV_H_
#define PARAPET_TOOLS_RUN_ENV_H_

#include <signal.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/process.h"

namespace parapet {

// Signals as something to poll for: SIGINT, SIGTERM, SIGHUP (unless it was
// ignored, as nohup does) and SIGCHLD. SIGPIPE is ignored. Restores all on
// destruction.
class SignalSource {
 public:
  SignalSource();
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  int fd() const { return fd_.get(); }
  // The next signal that came, if there is one. Does not wait.
  std::optional<int> Next();

 private:
  sigset_t before_;
  struct sigaction pipe_before_, child_before_;
  Descriptor fd_;
};

// A folder that only this user can enter, removed with all that is in it on
// destruction.
class TempFolder {
 public:
  // Under `base`, or /tmp if `base` is empty or too long for the name of a
  // socket.
  static absl::StatusOr<TempFolder> Create(const std::string& base);
  TempFolder(TempFolder&& other) noexcept;
  TempFolder& operator=(TempFolder&&) = delete;
  ~TempFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The folder that this program lies in.
absl::StatusOr<std::string> ProgramFolder();

// Opens /dev/null for those of 0, 1 and 2 that are closed, so that no pipe gets
// their number.
void EnsureStandardStreams();

}  // namespace parapet

#endif  // PARAPET_TOOLS_RUN_ENV_H_
