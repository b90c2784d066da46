#ifndef PARAPET_TOOLS_LOAD_MALFORMED_H_
#define PARAPET_TOOLS_LOAD_MALFORMED_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/transport.h"
#include "common/rng.h"
#include "common/wire.h"
#include "tools/load_player.h"

namespace parapet {

// A message as it is on the wire.
struct LoadFrames {
  std::string header, payload;
};

// A message of some kind that no server can take from a stranger, mostly with
// bytes changed, cut off or put in.
LoadFrames MakeMalformed(Random* random);

// Sends malformed messages at a rate, each on a connection of its own, and
// counts the answers. A thread and a transport of its own; members may be
// called from any thread.
class LoadMalformed {
 public:
  LoadMalformed(const LoadPlan& plan, double rate);
  ~LoadMalformed();
  LoadMalformedStats Stats() const;

 private:
  struct Open {
    absl::Time since;
    bool sent = false;
  };

  void Loop();
  void StartOne(absl::Time now);
  void Handle(net::Event& event);
  void GiveUp(absl::Time now);
  void Forget(net::ConnectionId connection);

  const std::vector<std::string> servers_;
  const WireLimits limits_;
  const absl::Duration every_;
  SteadyClock clock_;
  std::unique_ptr<net::Transport> transport_;
  Random random_;
  std::map<net::ConnectionId, Open> open_;
  std::atomic<bool> quit_ = false;
  mutable Mutex mutex_;
  LoadMalformedStats stats_;  // of the thread while it holds the mutex
  std::thread thread_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_MALFORMED_H_
