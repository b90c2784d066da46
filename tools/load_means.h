#ifndef PARAPET_TOOLS_LOAD_MEANS_H_
#define PARAPET_TOOLS_LOAD_MEANS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/layout.h"
#include "kernels/device.h"
#include "tools/load_attacks.h"
#include "tools/load_attendance.h"
#include "tools/load_values.h"

namespace parapet {

// What the rule mean makes of what workers push, bit for bit: sums in float64
// in the order of ids, values that are not finite left out, rounded once.
// Thread-safe.
class LoadMeans {
 public:
  // All must outlive it; `attacks` may be null: nobody attacks.
  LoadMeans(const LoadValues& values, LoadAttacks* attacks, const ShardMap& map,
            const Device& device)
      : values_(values), attacks_(attacks), map_(map), device_(device) {}

  // At elements of the flat vector that lie in `chunk`; none: at all of it.
  std::vector<float> Of(const LoadTurnout& turnout, uint64_t round,
                        int64_t chunk, absl::Span<const int64_t> places) const;

 private:
  // What one attacker pushes there.
  std::vector<float> Lies(int worker, uint64_t round, int64_t chunk,
                          absl::Span<const int64_t> places) const;

  const LoadValues& values_;
  LoadAttacks* const attacks_;
  const ShardMap map_;
  const Device& device_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_MEANS_H_
