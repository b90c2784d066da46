#ifndef PARAPET_TOOLS_LOAD_ATTENDANCE_H_
#define PARAPET_TOOLS_LOAD_ATTENDANCE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/lease.h"
#include "common/mutex.h"
#include "worker/attack_plan.h"

namespace parapet {

// Workers whose gradients enter a chunk, each ascending. All ids of attackers
// are above those of honest workers.
struct LoadTurnout {
  std::vector<int> honest, attackers;
  int count() const {
    return static_cast<int>(honest.size() + attackers.size());
  }
};

// Who may have taken part in a round, as far as players can know: the lease
// says who is a member, each player of this process tells when it pushes, and
// an attack says whose chunks cannot have come. Honest workers of other
// processes are taken to have pushed. What is left open, servers decide:
// whether an attacker was in time or was sent away, and whether the last to
// push were too late for a deadline. So a chunk has several candidates.
// Thread-safe.
class LoadAttendance {
 public:
  // Up to so many attackers are taken to be in or out each by itself, more only
  // all together.
  static constexpr int kMostAlone = 8;

  // Players of this process: [first, first + players).
  LoadAttendance(const AttackPlan& plan, int first, int players)
      : plan_(plan), first_(first), players_(players) {}

  void NoteLease(const Lease& lease);
  // Before a player pushes anything of a round.
  void NotePush(int worker, uint64_t round);

  // The i-th candidate for the chunks of `server`, the likeliest first; nothing
  // beyond the last. There is a first one always.
  std::optional<LoadTurnout> Candidate(uint64_t round, int server, int i) const;

 private:
  // Rounds that are remembered.
  static constexpr size_t kKept = 64;
  // How many of those who pushed last may have been too late.
  static constexpr int kMostLate = 4;

  struct Round {
    std::shared_ptr<const std::vector<int>> members;
    std::vector<int> pushed;  // honest ones, in that order
  };

  std::vector<int> MembersOf(uint64_t round) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int> HonestOf(const std::vector<int>& members,
                            const std::vector<int>& pushed, int late) const;
  bool NeverCome(int server) const;
  Round& RoundAt(uint64_t round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AttackPlan plan_;
  const int first_, players_;
  mutable Mutex mutex_;
  std::map<uint64_t, Round> rounds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_ATTENDANCE_H_
