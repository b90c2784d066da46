#ifndef PARAPET_COMMON_NET_TRANSPORT_H_
#define PARAPET_COMMON_NET_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/payload.h"

namespace parapet::net {

// A connection, from its opening to its loss. Ids are never used again by the
// same transport.
using ConnectionId = uint64_t;

// Limits on what a peer can make us hold; counts are per transport, sizes in
// bytes.
struct Limits {
  size_t max_header = 4096;  // a longer header closes the connection
  size_t max_payload = size_t{1} << 30;  // likewise a longer payload
  size_t max_queued_messages =
      65536;  // per connection, not yet taken by the network
  size_t max_connections = 65536;  // accepted; further ones are refused
};

struct Event {
  enum class Kind {
    kUp,  // a connection we asked for is open: sends will reach the peer, if
          // nothing breaks
    kMessage,  // `header` and `payload` came from the peer, in the order in
               // which it sent them
    kDown,  // the connection is lost or was never made; `reason` says why. The
            // id is dead.
  };
  Kind kind = Kind::kMessage;
  ConnectionId connection = 0;
  std::string header;  // raw bytes, as received, not yet verified
  Payload payload;     // empty where the message has none; it may change if
                       // the peer lies (Payload::may_change)
  std::string reason;
};

// Carries messages between two processes, point to point. Contract
// (tests/contract checks it for every backend):
//  * On one connection messages arrive whole, at most once and in order, until
//  it is lost; nothing is
//    promised between connections. What was in flight when a connection is lost
//    may be lost.
//  * A lost connection is not opened again by itself: the owner calls Connect
//  anew.
//  * An accepting side first learns of a peer through its first message (there
//  is no kUp for accepted
//    connections), and learns of its loss at the latest when a send fails;
//    liveness is judged by pings above this interface.
//  * Send never blocks. The payload is kept alive until the network has taken
//  it, without a copy.
//  * A peer that breaks the limits, or the framing, is closed; never a crash.
// Not thread-safe: one thread owns a transport and calls everything but Wake.
class Transport {
 public:
  virtual ~Transport() = default;

  // Accepts connections at `address` ("tcp://host:port", "ipc:///path",
  // "sim://name"). Port 0 picks a free one. Returns the address that peers can
  // connect to. Once per transport.
  virtual absl::StatusOr<std::string> Listen(const std::string& address) = 0;

  // Opens a connection. kUp or kDown follows as an event; an address that can
  // never work is InvalidArgument here.
  virtual absl::StatusOr<ConnectionId> Connect(const std::string& address) = 0;

  // Queues a message. NotFound: no such connection (it is down).
  // ResourceExhausted: the peer takes nothing and max_queued_messages are
  // waiting. InvalidArgument: it is over this side's limits. May be called
  // before kUp.
  virtual absl::Status Send(ConnectionId to, absl::string_view header,
                            Payload payload) = 0;

  // A buffer with any content, 64-byte aligned, from which Send to some peers
  // takes a payload without copying it: they read it where it is, so it stays
  // as it is from the first Send of something in it until all such payloads
  // have been let go of. With its last owner it may be given out again; it may
  // outlive the transport. Null: this transport has none to give, ordinary
  // memory will do. From any thread.
  virtual std::shared_ptr<std::byte> Allocate(size_t bytes) { return nullptr; }

  // Closes a connection; what is queued is dropped, or sent if the network
  // takes it at once. No event follows. Unknown ids are ignored.
  virtual void Close(ConnectionId connection) = 0;

  // Appends what has happened to `events`; waits up to `timeout` for something,
  // or until Wake. Returns at least one event if there is one; gives a bounded
  // number at a time. An error means that the transport itself is broken.
  virtual absl::Status Poll(absl::Duration timeout,
                            std::vector<Event>* events) = 0;

  // Makes a Poll that waits, or the next one, return soon. From any thread or
  // signal-safe context.
  virtual void Wake() = 0;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_TRANSPORT_H_
