#ifndef PARAPET_COMMON_NET_ZMQ_CONNECTION_H_
#define PARAPET_COMMON_NET_ZMQ_CONNECTION_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/net/transport.h"
#include "common/net/zmq_dealer.h"
#include "common/net/zmq_router.h"
#include "common/net/zmq_util.h"
#include "common/payload.h"

namespace parapet::net {

// A message that the network has not taken yet.
struct Outgoing {
  std::string header;
  Payload payload;
};

// A connection of either kind, as ZmqTransport keeps it.
struct ZmqConnection {
  ConnectionId id = 0;
  std::deque<Outgoing> queue;
  std::unique_ptr<ZmqDealer> dealer;  // null: accepted
  bool up = false;                    // dealer: kUp was given
  RoutingId routing = 0;              // accepted, as the next two
  PeerSocket socket;
  absl::Time lost = absl::InfinitePast();  // when a Send found the peer gone

  bool gone() const { return lost != absl::InfinitePast(); }
};

inline void AppendMessage(ConnectionId id, ZmqIncoming&& message,
                          std::vector<Event>* events) {
  Event event;
  event.connection = id;
  event.header = std::move(message.header);
  event.payload = std::move(message.payload);
  events->push_back(std::move(event));
}

inline void AppendState(Event::Kind kind, ConnectionId id, std::string reason,
                        std::vector<Event>* events) {
  Event event;
  event.kind = kind;
  event.connection = id;
  event.reason = std::move(reason);
  events->push_back(std::move(event));
}

inline void AppendDown(ConnectionId id, std::string reason,
                       std::vector<Event>* events) {
  AppendState(Event::Kind::kDown, id, std::move(reason), events);
}

// It is down, though its owner may not have been told yet.
inline bool IsLost(const ZmqConnection& c) {
  return c.gone() ||
         (c.dealer && c.dealer->state() >= ZmqDealer::State::kBreaking);
}

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_CONNECTION_H_
