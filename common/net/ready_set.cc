#include "common/net/ready_set.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "common/net/zmq_util.h"

namespace parapet::net {
namespace {

constexpr int kPerScan = 64;
constexpr double kLongestMs = 1e6;

}  // namespace

ReadySet::~ReadySet() {
  if (epoll_ >= 0) close(epoll_);
  if (wake_ >= 0) close(wake_);
}

absl::Status ReadySet::Open() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ >= 0 && wake_ >= 0) return Watch(wake_, kWake);
  return ErrnoStatus("cannot open descriptors", errno);
}

absl::Status ReadySet::Watch(int fd, uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  const int rc = epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  return rc == 0 ? absl::OkStatus()
                 : ErrnoStatus("cannot watch a socket", errno);
}

void ReadySet::Unwatch(int fd) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

absl::Status ReadySet::Scan(absl::Duration wait, std::vector<uint64_t>* found) {
  // Rounded up: rounded down, the last millisecond would be spent spinning.
  const double ms = std::ceil(absl::ToDoubleMilliseconds(wait));
  epoll_event events[kPerScan];
  const int n = epoll_wait(epoll_, events, kPerScan,
                           static_cast<int>(std::clamp(ms, 0.0, kLongestMs)));
  if (n < 0 && errno != EINTR) return ErrnoStatus("epoll_wait", errno);
  for (int i = 0; i < n; ++i) {
    uint64_t count = 0;
    if (events[i].data.u64 != kWake) {
      found->push_back(events[i].data.u64);
    } else if (read(wake_, &count, sizeof(count)) > 0) {
      woken_ = true;
    }
  }
  return absl::OkStatus();
}

void ReadySet::Wake() {
  const int saved = errno;  // a signal handler must leave it
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_, &one, sizeof(one));
  errno = saved;
}

bool ReadySet::TakeWake() { return std::exchange(woken_, false); }

void ReadySet::Mark(uint64_t key) {
  if (marked_.insert(key).second) turns_.push_back(key);
}

uint64_t ReadySet::Take() {
  const uint64_t key = turns_.front();
  turns_.pop_front();
  marked_.erase(key);
  return key;
}

}  // namespace parapet::net
