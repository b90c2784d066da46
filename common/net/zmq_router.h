#ifndef PARAPET_COMMON_NET_ZMQ_ROUTER_H_
#define PARAPET_COMMON_NET_ZMQ_ROUTER_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/zmq_transport.h"
#include "common/net/zmq_util.h"

namespace parapet::net {

// How a ROUTER knows a peer: the number in the routing id that it made up for
// it.
using RoutingId = uint32_t;

// The operating system's socket of a peer. Descriptors are used again by other
// connections, inodes of sockets are not (for a very long time).
struct PeerSocket {
  int fd = -1;
  ino_t inode = 0;
};

// The accepting end of all connections: a ROUTER socket. Not thread-safe.
class ZmqRouter {
 public:
  // `endpoint`: where it is going to be bound.
  absl::Status Open(const ZmqContext& context, const ZmqOptions& options,
                    const std::string& endpoint);
  // Returns nothing on error but the status; once.
  absl::Status Bind(const std::string& endpoint) {
    return socket_.Bind(endpoint);
  }
  std::string LastEndpoint() const { return socket_.LastEndpoint(); }
  int fd() const { return socket_.fd(); }

  // 0 or errno; EHOSTUNREACH: the peer is gone.
  int Send(RoutingId to, absl::string_view header, const Payload& payload);
  // False: there is nothing. `banned` messages are to be dropped.
  bool Receive(RoutingId* from, ZmqIncoming* message, bool* banned);

  static PeerSocket Identify(const ZmqIncoming& message);
  // Nothing that a peer sends counts from now on, and its connection is closed
  // at `when`.
  void Ban(RoutingId peer, PeerSocket socket, absl::Time when);
  // A connection that is gone by itself: what may still come from it does not
  // count.
  void Forget(RoutingId peer);
  // Closes those whose time has come.
  void Tick(absl::Time now);
  absl::Time deadline() const {
    return kicks_.empty() ? absl::InfiniteFuture() : kicks_.front().when;
  }
  void Shut(absl::Duration linger);

 private:
  struct Kick {
    absl::Time when;
    PeerSocket socket;
  };
  ZmqSocket socket_;
  Limits limits_;
  absl::flat_hash_set<RoutingId> banned_;
  std::deque<RoutingId> banned_order_;  // oldest first, to forget them
  std::deque<Kick> kicks_;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_ROUTER_H_
