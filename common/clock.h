#ifndef PARAPET_COMMON_CLOCK_H_
#define PARAPET_COMMON_CLOCK_H_

#include "absl/time/time.h"

namespace parapet {

// A monotonic clock. Its epoch means nothing; only differences do. State
// machines never hold one: they are told the time with each event, so that the
// simulator can make it up.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;
};

// The machine's steady clock. Safe to call from any thread.
class SteadyClock final : public Clock {
 public:
  absl::Time Now() override;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_CLOCK_H_
