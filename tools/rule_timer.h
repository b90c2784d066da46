#ifndef PARAPET_TOOLS_RULE_TIMER_H_
#define PARAPET_TOOLS_RULE_TIMER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "server/rules/chain.h"
#include "server/rules/pairwise.h"
#include "tools/team.h"

namespace parapet {

// Times what servers do with a round of which every vector is there: n
// gradients of d float32 elements that differ, as if from unequal
// mini-batches, so that no rule gets them for nothing. Rows lie an odd number
// of cache lines apart from a power of two, as received chunks do.
//
// Threads take chunks in turn, as the reducer threads of a server do. Each
// time is the best of up to five, in seconds.
class RuleTimer {
 public:
  RuleTimer(int n, int64_t d, int threads);

  int n() const { return n_; }
  int64_t d() const { return d_; }
  double bytes() const {
    return static_cast<double>(n_) * static_cast<double>(d_) * 4;
  }

  // A plain sum over the same bytes: as fast as they can be read.
  double ReadSeconds();
  // memcpy of them, by pieces too large for a cache.
  double CopySeconds();
  // The mean, momentum's step with it, and new weights in bfloat16 beside
  // those in float32.
  double MeanStepSeconds();
  double DistancesSeconds();
  // Distances where the rule needs them, plan and aggregate.
  // FailedPrecondition: the rule's limits do not hold.
  absl::StatusOr<double> RuleSeconds(const rules::Chain& chain, int f);

 private:
  double BestSeconds(const std::function<void()>& work);
  // Calls work(begin, elements) for each chunk, those of a thread on it.
  void ForChunks(const std::function<void(int thread, int64_t begin,
                                          int64_t elements)>& work);
  std::vector<Row> RowsFrom(int64_t begin) const;
  rules::PartialDistances Measure();

  const int n_;
  const int64_t d_, stride_;
  const std::unique_ptr<Device> device_;
  std::vector<float> values_, aggregate_;
  Team team_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_RULE_TIMER_H_
