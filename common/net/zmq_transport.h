#ifndef PARAPET_COMMON_NET_ZMQ_TRANSPORT_H_
#define PARAPET_COMMON_NET_ZMQ_TRANSPORT_H_

#include <memory>

#include "absl/time/time.h"
#include "common/layout.h"
#include "common/net/transport.h"

namespace parapet::net {

struct ZmqOptions {
  Limits limits;
  // Threads that move bytes; one does about 2 GB/s.
  int io_threads = 1;
  // Messages that libzmq holds for a connection each way, beside
  // Limits::max_queued_messages of our own. Received ones that Poll has not
  // taken yet cost their size in memory, per connection.
  int send_high_water = 64;
  int receive_high_water = 64;
  // A Connect that has not succeeded by then is kDown. The same goes for a
  // peer's handshake.
  absl::Duration connect_timeout = absl::Seconds(10);
  // How long what was sent just before a Close, or before the end of the
  // transport, may take to leave. The transport's destructor waits that long at
  // most.
  absl::Duration linger = absl::Milliseconds(200);
};

// The defaults, with limits for a job's chunks and its control messages.
ZmqOptions OptionsFor(const ShardMap& map);

// The transport over libzmq: "tcp://host:port" and "ipc:///path". Never null;
// what cannot be had (threads, descriptors) shows in the status of the first
// call.
//
// Beyond the contract:
//  * A payload's owner is released on a thread of libzmq's.
//  * Connect and Listen look host names up, which can block; a name that is not
//  known is a kDown.
//  * Only its failing Sends tell of the loss of an accepted connection.
//  * Close on an accepted connection cuts the peer off after `linger`.
std::unique_ptr<Transport> MakeZmqTransport(const ZmqOptions& options);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_TRANSPORT_H_
