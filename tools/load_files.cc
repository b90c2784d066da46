#include "tools/load_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

// Of a connecting end over libzmq: the stream, its socket's mailbox, and two
// more of the monitor's pair.
constexpr int64_t kPerConnection = 4;
constexpr int64_t kOthers = 128;

}  // namespace

int64_t LoadOpenFiles(int players, int servers, int connections) {
  return kOthers +
         kPerConnection * players * servers * (int64_t{1} + connections);
}

absl::Status RaiseOpenFiles(int64_t needed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return absl::UnavailableError("cannot read the limit on open files");
  if (limit.rlim_cur != limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_max == RLIM_INFINITY ||
      static_cast<int64_t>(limit.rlim_max) >= needed)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "so many players may open ", needed, " files, the limit is ",
      limit.rlim_max,
      ": raise it (ulimit -Hn), or play fewer in a process (--players, "
      "--first_worker)"));
}

}  // namespace parapet
