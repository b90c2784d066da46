#ifndef PARAPET_COMMON_NET_SIM_HOST_H_
#define PARAPET_COMMON_NET_SIM_HOST_H_

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/time/time.h"
#include "common/net/sim_transport.h"

namespace parapet::net {

// A host's link to the simulated network: each way it carries one message after
// the other, each as a whole, and none faster than its rate.
class SimHost {
 public:
  void SetRates(const SimRates& rates) { rates_ = rates; }

  // Whatever reaches the host is in at once.
  bool in_is_free() const { return std::isinf(rates_.in); }

  // When a message that is sent, or reaches the host, `now` is through. Calls
  // come in the order of time.
  absl::Time Out(absl::Time now, size_t bytes) {
    return Serve(now, bytes, rates_.out, &out_free_);
  }
  absl::Time In(absl::Time now, size_t bytes) {
    return Serve(now, bytes, rates_.in, &in_free_);
  }
  // When all is in that has reached the host.
  absl::Time in_free() const { return in_free_; }

 private:
  static absl::Time Serve(absl::Time now, size_t bytes, double rate,
                          absl::Time* free) {
    *free =
        std::max(*free, now) + absl::Seconds(static_cast<double>(bytes) / rate);
    return *free;
  }

  SimRates rates_;
  absl::Time out_free_ = absl::InfinitePast();
  absl::Time in_free_ = absl::InfinitePast();
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SIM_HOST_H_
