#include "common/net/shm_ended.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace parapet::net {
namespace {

// As many connections as a process has to another, and more.
constexpr auto kMostOfOne = 16;
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

}  // namespace

void ShmEnded::Keep(std::unique_ptr<ShmWriter> writer, pid_t process,
                    absl::Time now) {
  if (!writer->Lends()) return;
  Loans loans{std::move(writer), process, UniqueFd(), now + patience_};
  if (process > 0) {
    loans.life =
        UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    if (!loans.life.valid() && errno == ESRCH) return;
  }
  loans_.push_back(std::move(loans));
  const auto same = [process](const Loans& each) {
    return each.process == process;
  };
  if (std::count_if(loans_.begin(), loans_.end(), same) > kMostOfOne)
    loans_.erase(std::find_if(loans_.begin(), loans_.end(), same));
}

bool ShmEnded::Over(const Loans& loans, absl::Time now) {
  if (!loans.writer->Lends()) return true;
  if (!loans.life.valid()) return loans.until < now;
  pollfd life = {loans.life.get(), POLLIN, 0};
  return poll(&life, 1, 0) > 0;
}

void ShmEnded::Forget(absl::Time now) {
  if (loans_.empty() || now < next_look_) return;
  next_look_ = now + kLookEvery;
  loans_.erase(
      std::remove_if(loans_.begin(), loans_.end(),
                     [now](const Loans& each) { return Over(each, now); }),
      loans_.end());
}

}  // namespace parapet::net
