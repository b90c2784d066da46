#ifndef PARAPET_COMMON_NET_SHM_LINK_H_
#define PARAPET_COMMON_NET_SHM_LINK_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/net/shm_file.h"
#include "common/net/shm_ring.h"
#include "common/unique_fd.h"

namespace parapet::net {

// How a sleeping process is woken: an eventfd, and a word in shared memory that
// says whether it sleeps. One of a process; its peers have both.
class ShmBell {
 public:
  static absl::StatusOr<std::shared_ptr<ShmBell>> Make();
  // Of a peer; checked: to ring it must not keep us waiting.
  static absl::StatusOr<std::shared_ptr<ShmBell>> Open(UniqueFd bell,
                                                       const UniqueFd& word);

  // Wakes it if it sleeps. From any thread.
  void Ring();
  // The owner is about to sleep, and looks once more for work in between; it is
  // awake.
  void SetSleeping(bool sleeping) {
    word_->store(sleeping ? 1 : 0, std::memory_order_seq_cst);
  }
  // Forgets what was rung.
  void Clear();

  int fd() const { return bell_.get(); }
  std::vector<int> fds() const { return {bell_.get(), file_.get()}; }

 private:
  ShmBell() = default;

  UniqueFd bell_;
  UniqueFd file_;  // of the word; only its owner keeps it
  Mapping mapping_;
  std::atomic<uint32_t>* word_ = nullptr;
};

// The two directions between two processes.
struct ShmLink {
  std::unique_ptr<ShmWriter> writer;
  std::unique_ptr<ShmReader> reader;
  std::shared_ptr<ShmBell> peer;
};

// After the handshake a side may tell of slabs that it lends from, before the
// first record that does.
absl::Status SendSlab(int socket, uint32_t id, int file, size_t bytes);
struct ShmSlab {
  uint32_t id = 0;
  size_t bytes = 0;
  Mapping mapping;  // to be read only
};
// Unavailable: there is no word; Aborted: the other side is gone.
// ResourceExhausted: it is larger than `most` bytes.
absl::StatusOr<ShmSlab> TakeSlab(int socket, size_t most);

// How two processes agree on one, by a packet each way over a Unix socket. The
// accepting side makes the memory.
//
// The connecting side says hello and gives its bell.
absl::Status SendHello(int socket, const ShmBell& bell);
// The accepting side answers a hello with the memory and its own bell.
// Unavailable: it has not come yet.
absl::StatusOr<ShmLink> AnswerHello(int socket, const ShmBell& bell,
                                    const ShmShape& shape,
                                    const Limits& limits);
// The connecting side takes the answer. Unavailable: it has not come yet.
absl::StatusOr<ShmLink> TakeAnswer(int socket, const Limits& limits);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_LINK_H_
