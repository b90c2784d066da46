#include "worker/attack_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

template <typename... Words>
absl::Status Refuse(const AttackPlan& plan, const Words&... words) {
  return absl::InvalidArgumentError(
      absl::StrCat("--attack=", plan.text, ": ", words...));
}

absl::Status CheckNumber(const AttackPlan& plan) {
  if (plan.attack.kind == AttackKind::kNone) {
    if (plan.attackers == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--attackers=", plan.attackers,
                     " do what? Say --attack=sign_flip or another"));
  }
  if (plan.attackers == 0)
    return Refuse(plan, "by how many workers? Say --attackers=N");
  if (plan.attackers >= plan.workers) {
    return Refuse(
        plan, "--attackers=", plan.attackers,
        " must be below the number of workers, --workers=", plan.workers);
  }
  return absl::OkStatus();
}

// What an attack needs of the job.
absl::Status CheckRoom(const AttackPlan& plan, const JobConfig& job) {
  const Attack& attack = plan.attack;
  if (attack.needs_honest() && job.data_split == "own") {
    return Refuse(plan,
                  "works out what the honest workers send from their samples, "
                  "which it does not have with --data_split=own");
  }
  if (attack.automatic) {
    const absl::Status z = AlieZ(plan.workers, plan.attackers).status();
    if (!z.ok()) return Refuse(plan, z.message());
  }
  if (attack.kind == AttackKind::kMimic && attack.target >= plan.honest()) {
    return Refuse(plan, "worker ", attack.target,
                  " is not honest; workers 0 to ", plan.honest() - 1, " are");
  }
  if (attack.kind == AttackKind::kPartial && job.servers < 2)
    return Refuse(plan, "leaves out one of at least two servers; there is one");
  return absl::OkStatus();
}

}  // namespace

std::string AttackPlan::Warning() const {
  return absl::StrCat("ATTACK: workers ", honest(), " to ", workers - 1,
                      " send lies on purpose (--attack=", text,
                      "). This job is a test.");
}

absl::StatusOr<AttackPlan> MakeAttackPlan(const CommonFlags& flags) {
  AttackPlan plan;
  plan.text = flags.attack;
  plan.workers = flags.job.workers;
  plan.attackers = flags.attackers;
  absl::StatusOr<Attack> attack = ParseAttack(flags.attack);
  if (!attack.ok()) return Refuse(plan, attack.status().message());
  plan.attack = *attack;
  PARAPET_RETURN_IF_ERROR(CheckNumber(plan));
  PARAPET_RETURN_IF_ERROR(CheckRoom(plan, flags.job));
  return plan;
}

}  // namespace parapet
