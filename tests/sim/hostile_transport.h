#ifndef PARAPET_TESTS_SIM_HOSTILE_TRANSPORT_H_
#define PARAPET_TESTS_SIM_HOSTILE_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "common/net/transport.h"
#include "common/rng.h"
#include "common/wire.h"
#include "tests/sim/forwarding_transport.h"
#include "tests/sim/ledger.h"
#include "tests/sim/scenario.h"

namespace parapet::sim {

// Turns an honest worker into a hostile one: beside what it sends, there are
// messages that must change nothing. A push is accompanied by repetitions,
// other bytes for the same chunk, wrong sizes, chunks, rounds, sessions and
// counts, more than the credit allows, and what only servers may say.
class HostileTransport final : public ForwardingTransport {
 public:
  HostileTransport(std::unique_ptr<net::Transport> inner,
                   const Scenario& scenario, const ShardMap& map,
                   const Ledger* ledger, uint32_t worker);

  absl::Status Send(net::ConnectionId to, absl::string_view header,
                    Payload payload) override;

 private:
  // Before the true push, or after it.
  void Before(net::ConnectionId to, const Message& message);
  void After(net::ConnectionId to, const Message& message);
  void SendOthersWords(net::ConnectionId to, const Message& message);
  void SendGarbage(net::ConnectionId to, absl::string_view header);
  void SendAhead(net::ConnectionId to, const Message& message);
  // The push with other bytes.
  Message Changed(const Message& message);
  void Say(net::ConnectionId to, const Message& message);

  const ShardMap map_;
  const uint32_t worker_;
  const uint32_t most_samples_;
  const Ledger* const ledger_;
  WireLimits limits_;
  Random random_;
  Encoder encoder_;
  bool pushed_ = false;
};

// Somebody who belongs to no job: connects, and sends what he likes.
class Stranger {
 public:
  Stranger(std::unique_ptr<net::Transport> transport, int servers,
           uint64_t seed);
  void Act();

 private:
  void Speak(net::ConnectionId to);

  const std::unique_ptr<net::Transport> transport_;
  const int servers_;
  Random random_;
  Encoder encoder_;
  std::vector<net::ConnectionId> open_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_HOSTILE_TRANSPORT_H_
