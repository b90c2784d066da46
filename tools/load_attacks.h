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
// worker/attacks.h on the vectors that all players are known to push, and of
// worker/attacker.h in conduct. label_flip, without labels, is honest work on
// other samples: a gradient that nobody else pushes. Thread-safe.
class LoadAttacks {
 public:
  struct Config {
    AttackPlan plan;
    uint64_t seed = 1;
    DType wire = DType::kFloat32;
    double wire_scale = 1;
  };

  // All must outlive it. FailedPrecondition if the attack makes no sense for
  // so many workers (alie(auto)).
  static absl::StatusOr<std::unique_ptr<LoadAttacks>> Create(
      const Config& config, const LoadValues& values, const ShardMap& map,
      const Device& device);

  DType wire() const { return config_.wire; }
  double scale() const {
    return config_.wire == DType::kFloat16 ? config_.wire_scale : 1;
  }
  // Whether anything of a chunk is pushed.
  bool Pushes(int64_t chunk) const;
  // A chunk of the attacker's vector in place of its gradient. Of attacks that
  // need the honest vectors the first call of a round makes it, which takes
  // their number x elements.
  Payload Push(int worker, uint64_t round, int64_t chunk);
  // equivocate: the same chunk with each sign changed.
  Payload Opposite(int worker, uint64_t round, int64_t chunk) const;

  // Tables that pieces are sent from, beside those that are made for a round.
  std::vector<absl::Span<const std::byte>> stored() const;

 private:
  LoadAttacks(const Config& config, const LoadValues& values,
              const ShardMap& map, const Device& device)
      : config_(config), values_(values), map_(map), device_(device) {}
  absl::Status Prepare();
  std::shared_ptr<const std::byte> VectorOf(uint64_t round);
  absl::Status Make(uint64_t round, absl::Span<float> out) const;
  // As many values of `stored` as a chunk has, from its own place on or from
  // where a gradient begins.
  Payload Window(const std::shared_ptr<const std::byte>& stored, int64_t begin,
                 int64_t chunk) const;
  bool Negates(int64_t chunk) const;

  const Config config_;
  const LoadValues& values_;
  const ShardMap map_;
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
