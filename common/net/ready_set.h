#ifndef PARAPET_COMMON_NET_READY_SET_H_
#define PARAPET_COMMON_NET_READY_SET_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace parapet::net {

// Which descriptors of a transport may have something to read, in the order in
// which they get their turn, and a way to end a wait. Descriptors go by keys of
// the owner's choice, any but kWake. One thread; Wake is for all.
class ReadySet {
 public:
  static constexpr uint64_t kWake = ~uint64_t{0};

  ReadySet() = default;
  ~ReadySet();
  ReadySet(const ReadySet&) = delete;
  ReadySet& operator=(const ReadySet&) = delete;

  absl::Status Open();
  absl::Status Watch(int fd, uint64_t key);
  void Unwatch(int fd);

  // Waits until something is readable, `wait` is over or Wake is called, and
  // appends the keys of what is readable to `found`.
  absl::Status Scan(absl::Duration wait, std::vector<uint64_t>* found);
  // Signal-safe.
  void Wake();
  // Whether Wake was called before the last Scan; forgets it.
  bool TakeWake();

  // The turns: each key is in the queue once.
  void Mark(uint64_t key);
  bool empty() const { return turns_.empty(); }
  uint64_t Take();  // not empty

 private:
  int epoll_ = -1, wake_ = -1;
  bool woken_ = false;
  std::deque<uint64_t> turns_;
  absl::flat_hash_set<uint64_t> marked_;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_READY_SET_H_
