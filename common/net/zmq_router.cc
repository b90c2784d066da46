#include "common/net/zmq_router.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "common/net/zmq_dealer.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

constexpr size_t kMaxBanned = 65536;
constexpr int kBacklog = 1024;
// libzmq's own routing ids: a zero byte and a number.
constexpr size_t kRoutingBytes = 5;

ino_t InodeOf(int fd) {
  struct stat info {};
  return fd >= 0 && fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode)
             ? info.st_ino
             : 0;
}

// libzmq cannot close one peer of a ROUTER; the end of its socket does. In
// between the descriptor could become another connection's: the inode tells,
// but for a moment too short to matter, and then that peer just connects again.
void Cut(PeerSocket peer) {
  if (peer.inode != 0 && InodeOf(peer.fd) == peer.inode)
    shutdown(peer.fd, SHUT_RDWR);
}

bool ParseRouting(const ZmqMessage& frame, RoutingId* id) {
  if (frame.size() != kRoutingBytes ||
      *static_cast<const char*>(frame.data()) != 0)
    return false;
  std::memcpy(id, static_cast<const char*>(frame.data()) + 1, sizeof(*id));
  return true;
}

ZmqMessage RoutingFrame(RoutingId id) {
  char bytes[kRoutingBytes] = {};
  std::memcpy(bytes + 1, &id, sizeof(id));
  return ZmqMessage::Copy({bytes, sizeof(bytes)});
}

}  // namespace

absl::Status ZmqRouter::Open(const ZmqContext& context,
                             const ZmqOptions& options,
                             const std::string& endpoint) {
  limits_ = options.limits;
  PARAPET_ASSIGN_OR_RETURN(socket_, ZmqSocket::Open(context, ZMQ_ROUTER));
  PARAPET_RETURN_IF_ERROR(SetCommonOptions(&socket_, options, endpoint));
  const int handshake =
      static_cast<int>(absl::ToInt64Milliseconds(options.connect_timeout));
  PARAPET_RETURN_IF_ERROR(socket_.Set(ZMQ_HANDSHAKE_IVL, handshake));
  PARAPET_RETURN_IF_ERROR(socket_.Set(ZMQ_BACKLOG, kBacklog));
  return socket_.Set(ZMQ_ROUTER_MANDATORY, 1);
}

int ZmqRouter::Send(RoutingId to, absl::string_view header,
                    const Payload& payload) {
  const int error = socket_.Send(RoutingFrame(to), true);
  return error != 0 ? error : SendMessage(&socket_, header, payload);
}

bool ZmqRouter::Receive(RoutingId* from, ZmqIncoming* message, bool* banned) {
  ZmqMessage routing;
  if (socket_.Receive(&routing) != 0) return false;
  if (!ReceiveMessage(&socket_, limits_, message)) return false;
  // Ours never choose a routing id. One who does could take over another's
  // after its loss.
  if (!ParseRouting(routing, from)) {
    Cut(Identify(*message));
    *banned = true;
    return true;
  }
  *banned = banned_.contains(*from);
  return true;
}

PeerSocket ZmqRouter::Identify(const ZmqIncoming& message) {
  return {message.source_fd, InodeOf(message.source_fd)};
}

void ZmqRouter::Ban(RoutingId peer, PeerSocket socket, absl::Time when) {
  Forget(peer);
  // Almost always in order of time already; after a change of clock just a
  // little late.
  const auto place =
      std::upper_bound(kicks_.begin(), kicks_.end(), when,
                       [](absl::Time t, const Kick& k) { return t < k.when; });
  kicks_.insert(place, Kick{when, socket});
}

void ZmqRouter::Forget(RoutingId peer) {
  if (!banned_.insert(peer).second) return;
  banned_order_.push_back(peer);
  if (banned_order_.size() <= kMaxBanned) return;
  banned_.erase(banned_order_.front());
  banned_order_.pop_front();
}

void ZmqRouter::Tick(absl::Time now) {
  while (!kicks_.empty() && kicks_.front().when <= now) {
    Cut(kicks_.front().socket);
    kicks_.pop_front();
  }
}

void ZmqRouter::Shut(absl::Duration linger) {
  (void)socket_.Set(ZMQ_LINGER,
                    static_cast<int>(absl::ToInt64Milliseconds(linger)));
  socket_.Close();
}

}  // namespace parapet::net
