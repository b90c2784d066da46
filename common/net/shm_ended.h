#ifndef PARAPET_COMMON_NET_SHM_ENDED_H_
#define PARAPET_COMMON_NET_SHM_ENDED_H_

#include <sys/types.h>

#include <deque>
#include <memory>

#include "absl/time/time.h"
#include "common/net/shm_ring.h"
#include "common/unique_fd.h"

namespace parapet::net {

// What was lent over connections that have ended, until the other sides have
// let go of it: if its memory was used again before, who still reads it would
// get some of this and some of that.
//
// Not for ever: a process that is dead reads nothing; one of which it cannot be
// seen whether it lives (in another pid namespace) has so long; and of one that
// comes and goes all the time, only the last few connections count. So whoever
// misbehaves spoils what he reads himself.
// One thread.
class ShmEnded {
 public:
  explicit ShmEnded(absl::Duration patience) : patience_(patience) {}

  // `process`: at the other side; 0: unknown.
  void Keep(std::unique_ptr<ShmWriter> writer, pid_t process, absl::Time now);
  // Lets go of what nobody reads any more. To be called again and again: it
  // looks every now and then.
  void Forget(absl::Time now);

 private:
  struct Loans {
    std::unique_ptr<ShmWriter> writer;
    pid_t process = 0;
    UniqueFd life;     // readable when the process is dead; may be missing
    absl::Time until;  // if `life` is missing
  };
  static bool Over(const Loans& loans, absl::Time now);

  const absl::Duration patience_;
  std::deque<Loans> loans_;  // the oldest first
  absl::Time next_look_;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_ENDED_H_
