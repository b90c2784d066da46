#include "common/clock.h"

#include <chrono>

namespace parapet {

absl::Time SteadyClock::Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return absl::UnixEpoch() + absl::FromChrono(since);
}

}  // namespace parapet
