#ifndef PARAPET_COMMON_NET_SIM_TRANSPORT_H_
#define PARAPET_COMMON_NET_SIM_TRANSPORT_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/net/transport.h"

namespace parapet::net {

struct SimOptions {
  uint64_t seed = 1;
  // A message takes a time that is uniform between these, but never overtakes
  // another of its connection.
  absl::Duration min_delay = absl::Microseconds(50);
  absl::Duration max_delay = absl::Milliseconds(2);
  // A Connect that nobody has answered by then is kDown.
  absl::Duration connect_timeout = absl::Seconds(5);
  // How long it takes until an end learns that its connection is lost, at most.
  absl::Duration max_loss_delay = absl::Milliseconds(500);
  // The chance that an accepting end learns of a loss before its sends fail.
  double told_early = 0.5;
  // The chance that a peer of a crashed node is never told: what it sends is
  // swallowed.
  double silent_crash = 0.3;
};

// How fast a host's link is, each way by itself [bytes/s, above 0; infinite: a
// message takes its delay and nothing else].
struct SimRates {
  double out = std::numeric_limits<double>::infinity();
  double in = std::numeric_limits<double>::infinity();
};

class SimCore;

// A network in memory, in virtual time, with faults. Every choice comes from
// the seed: the same calls in the same order give the same events at the same
// times. One thread.
//
// Nodes are transports whose Poll never waits: it gives what has arrived by
// Now(). Their addresses are "sim://NAME", where NAME is free. A message counts
// against Limits::max_queued_messages until the receiver's Poll takes it. The
// network never repeats a message.
//
// A node is a host with a link of its own. A message is stored and forwarded:
// it takes its bytes (header and payload) at the sender's rate, its delay, and
// its bytes at the receiver's rate. Each way a link carries one message after
// the other, first come, first served, whatever the connection: whoever sends
// large messages to many waits for them himself. Between the links there is
// room for everything; opening and closing connections takes no bytes.
class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options);
  // After its nodes.
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // A new node, as a process that starts. The name must be free: never used, or
  // its node crashed or destroyed. To destroy a node is to end its process in
  // good order.
  std::unique_ptr<Transport> MakeNode(const std::string& name,
                                      const Limits& limits = {});

  // By name: also holds for a node of that name that starts later. For what is
  // sent, or reaches the node, from now on.
  void SetRates(const std::string& name, const SimRates& rates);

  // Virtual time. It begins at the Unix epoch.
  absl::Time Now() const;
  // InfiniteFuture: nothing is under way.
  absl::Time NextEventTime() const;
  // Goes on to the next event; false: there is none.
  bool Step();
  // Everything up to and with `time`, which is Now() afterwards.
  void RunUntil(absl::Time time);
  // The nodes whose Poll has something to give, or that were woken, in order of
  // their names.
  std::vector<std::string> ReadyNodes() const;

  // Faults. Names without a node are allowed, and have no connections.
  //
  // Breaks all connections between two nodes; returns how many. Of what is in
  // flight a random part of each direction is lost, from some message on.
  int BreakConnections(const std::string& a, const std::string& b);
  // Breaks one of all connections; false: there is none.
  bool BreakRandomConnection();
  enum class Cut {
    kHold,   // nothing passes until Heal; the connections live on
    kBreak,  // nothing passes, and the connections that are there break
  };
  // By name: also holds for a node of that name that starts later.
  void Partition(const std::string& a, const std::string& b, Cut cut);
  void Heal(const std::string& a, const std::string& b);
  void HealAll();
  // Ends a node's process, or its machine: its transport is broken from now on
  // (every call fails with Aborted, events are gone), and its peers learn of it
  // late or never.
  void CrashNode(const std::string& name);

 private:
  std::unique_ptr<SimCore> core_;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SIM_TRANSPORT_H_
