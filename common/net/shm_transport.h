#ifndef PARAPET_COMMON_NET_SHM_TRANSPORT_H_
#define PARAPET_COMMON_NET_SHM_TRANSPORT_H_

#include <memory>

#include "absl/time/time.h"
#include "common/layout.h"
#include "common/net/shm_ring.h"
#include "common/net/transport.h"

namespace parapet::net {

struct ShmOptions {
  Limits limits;
  // Of each direction of each connection.
  ShmShape shape;
  // A Connect that has not succeeded by then is kDown. The same goes for a
  // peer's handshake.
  absl::Duration connect_timeout = absl::Seconds(10);
  // How long what was sent just before the end of the transport may take to
  // leave. The destructor waits that long at most.
  absl::Duration linger = absl::Milliseconds(200);
  // How long what was lent over a connection that ended is kept for a process
  // of which it cannot be seen whether it lives and may still read it
  // (shm_ended.h).
  absl::Duration keep_lent = absl::Seconds(60);
};

// For a job's chunks and its control messages.
ShmOptions ShmOptionsFor(const ShardMap& map);

// The transport between processes of one user on one machine, over shared
// memory: "shm:///path", a Unix socket by which they meet and learn of each
// other's end. Never null; what cannot be had shows in the status of the first
// call.
//
// Beyond the contract:
//  * Send copies a payload at once, or when there is room, and then lets go of
//    it; one that lies in memory from Allocate is lent instead, and let go of
//    when the other side has done so. A received payload lies where it was
//    copied to, or is lent (shm_ring.h).
//  * The accepting side gets a kDown, too, for connections that it has heard
//    from.
//  * Processes of other users are refused, on both sides. Those of the same
//  user
//    are trusted with no more than they can do by a signal: payloads that they
//    may change say so (Payload::may_change), and what they write is checked.
//    One that meddles with a bell which it was given delays others, until their
//    Poll is over.
//  * Every Poll looks at every connection: it is made for some hundreds.
std::unique_ptr<Transport> MakeShmTransport(const ShmOptions& options);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_TRANSPORT_H_
