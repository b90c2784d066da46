#ifndef PARAPET_TOOLS_LOAD_DELAY_H_
#define PARAPET_TOOLS_LOAD_DELAY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parapet {

// How delays are distributed about their mean.
enum class DelayShape : uint8_t {
  kExponential,
  kConstant,
  kUniform,    // from 0 to twice the mean
  kLogNormal,  // with sigma = 1: its median is 0.61 of the mean
  kPareto,     // with alpha = 1.5: from a third of the mean on, a heavy tail
};

// A share of the players, and how long each of them is held up.
struct LoadDelay {
  // No delay is longer than so many times the mean.
  static constexpr double kLongest = 100;

  double share = 0;
  absl::Duration mean;
  DelayShape shape = DelayShape::kExponential;

  // A pure function of its arguments.
  absl::Duration At(uint64_t key, int worker, uint64_t round) const;
};

// "SHARE,DELAY" or "SHARE,DELAY,SHAPE", as in 0.1,20ms,pareto. InvalidArgument
// in words; `shapes`: whether a shape may be said.
absl::StatusOr<LoadDelay> ParseLoadDelay(const std::string& text,
                                         absl::Duration most, bool shapes);

// Whether a worker is one of a share of all of them that the seed picks.
bool IsHeldUp(const LoadDelay& delay, uint64_t seed, int worker, int workers);

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_DELAY_H_
