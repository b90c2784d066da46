#ifndef PARAPET_TESTS_SIM_REFERENCE_H_
#define PARAPET_TESTS_SIM_REFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "server/rules/chain.h"
#include "server/rules/make_plan.h"
#include "tests/sim/ledger.h"
#include "tests/sim/scenario.h"

namespace parapet::sim {

// What the weights must be, worked out on the whole vector by one process,
// from who took part (records) and what they pushed. It goes on where the
// last run stopped, so it also follows a job over several runs.
class Reference {
 public:
  Reference(const Scenario& scenario, const Device& device);

  // Takes the rounds of a run and compares every version that somebody held.
  // `map` is that run's. Returns what is wrong, in words.
  std::vector<std::string> Follow(const Ledger& ledger, const ShardMap& map);

  uint64_t version() const { return version_; }
  const std::vector<float>& weights() const { return weights_; }
  uint64_t WeightsHash() const;

 private:
  // For each chunk, the workers whose values entered it, ascending.
  using Entered = std::vector<std::vector<uint32_t>>;

  static Entered WhoEntered(const RoundRecord& record, const ShardMap& map);
  void Round(const RoundRecord& record, const Ledger& ledger,
             const ShardMap& map, std::vector<std::string>* complaints);
  std::vector<float> Aggregate(const RoundRecord& record,
                               const Entered& entered, const Ledger& ledger,
                               const ShardMap& map,
                               std::vector<std::string>* complaints) const;
  int64_t Mean(const std::vector<uint32_t>& workers, uint64_t round,
               int64_t chunk, Range range, const Ledger& ledger,
               float* out) const;
  // Another rule than the mean, by the library of rules.
  int64_t ByCoordinate(const std::vector<uint32_t>& workers, uint64_t round,
                       int64_t chunk, Range range, const Ledger& ledger,
                       float* out) const;
  std::vector<float> ByDistances(const RoundRecord& record,
                                 const std::vector<uint32_t>& workers,
                                 const Ledger& ledger, const ShardMap& map,
                                 std::vector<std::string>* complaints) const;
  rules::RoundFacts FactsOf(const std::vector<uint32_t>& workers,
                            uint64_t round) const;
  std::vector<float> Decoded(const Ledger::Pushed& pushed,
                             const ShardMap& map) const;
  double ScaleOf(const std::vector<float>& aggregate) const;
  void Step(Range range, const StepFacts& facts, const float* aggregate);
  void Compare(const Ledger& ledger,
               std::vector<std::string>* complaints) const;
  std::string Published() const;

  const JobConfig job_;
  const rules::Chain chain_;
  const uint64_t secret_;
  const Device& device_;
  uint64_t version_ = 0;
  std::vector<float> weights_, moment1_, moment2_, previous_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_REFERENCE_H_
