#ifndef PARAPET_WORKER_ATTACK_PLAN_H_
#define PARAPET_WORKER_ATTACK_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/flags.h"
#include "worker/attacks.h"

namespace parapet {

// Which workers of a job attack, and how: for tests, demos and load tests only.
// Servers are not told, as they would not be by real liars.
struct AttackPlan {
  Attack attack;
  std::string text = "none";  // as the flag has it
  int workers = 1;
  int attackers = 0;  // the last of the workers

  int honest() const { return workers - attackers; }
  bool Attacks(uint32_t id) const {
    return attackers > 0 && static_cast<int64_t>(id) >= honest();
  }
  // "ATTACK: ...", loud.
  std::string Warning() const;
};

// What --attack and --attackers say. InvalidArgument in words: no such attack,
// one that this job gives no room for, or one of the two without the other.
absl::StatusOr<AttackPlan> MakeAttackPlan(const CommonFlags& flags);

}  // namespace parapet

#endif  // PARAPET_WORKER_ATTACK_PLAN_H_
