#ifndef PARAPET_TOOLS_LOAD_ATTACKS_H_
#define PARAPET_TOOLS_LOAD_ATTACKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/payload.h"
#include "kernels/device.h"
#include "tools/load_values.h"
#include "worker/attack_plan.h"

namespace parapet {

// What the attackers among the players of a load test push: the attacks of
// worker/attacks.h on the vectors that all players are known to push.
// Thread-safe.
class LoadAttacks {
 public:
  struct Config {
    AttackPlan plan;
    uint64_t seed = 1;
    DType wire = DType::kFloat32;
    double wire_scale = 1;
  };

  // Both must outlive it. FailedPrecondition if the attack makes no sense for
  // so many workers (alie(auto)).
  static absl::StatusOr<std::unique_ptr<LoadAttacks>> Create(
      const Config& config, const LoadValues& values, const Device& device);

  const AttackPlan& plan() const { return config_.plan; }
  // A range of the attacker's vector in place of its gradient. Of attacks that
  // need the honest vectors the first call of a round makes it, which takes
  // their number x elements.
  Payload Push(int worker, uint64_t round, Range range);
  // The same with each sign changed, of an attacker's gradient as it should be.
  Payload Opposite(int worker, uint64_t round, Range range) const;

 private:
  LoadAttacks(const Config& config, const LoadValues& values,
              const Device& device)
      : config_(config), values_(values), device_(device) {}
  absl::Status Prepare();
  std::shared_ptr<const std::byte> VectorOf(uint64_t round);
  absl::Status Make(uint64_t round, absl::Span<float> out) const;
  Payload Window(const std::shared_ptr<const std::byte>& stored, int64_t from,
                 int64_t count) const;

  const Config config_;
  const LoadValues& values_;
  const Device& device_;
  // The table of values as the attack changes it, where it changes each by
  // itself; null otherwise.
  std::shared_ptr<const std::byte> table_, opposite_;
  Mutex mutex_;
  // By round, the last ones: what all attackers push.
  std::map<uint64_t, std::shared_ptr<const std::byte>> vectors_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_ATTACKS_H_
