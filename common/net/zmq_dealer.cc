#include "common/net/zmq_dealer.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/net/zmq_address.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

// A lost socket is closed within milliseconds, so this only has to be longer
// than a pause between two Polls. Not -1 ("never"): with -1 libzmq 4.3.4 throws
// away the messages that arrived before the loss and were not read yet, and
// does not report a connection that was refused.
constexpr int kReconnectMs = INT_MAX;
// libzmq hands over what it had received just after it reports the loss, and
// says CONNECT_RETRIED when that is done; after an error of the protocol it
// does not say so.
constexpr absl::Duration kSettle = absl::Milliseconds(20);

constexpr int kEvents =
    ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

// Of a TCP connection within this machine, in bytes. Left to itself the kernel
// makes it grow to megabytes, as for a long way; what lies in it has left the
// cache when it is copied on. A quarter less time for large messages.
constexpr int kLoopbackSendBuffer = 128 << 10;

}  // namespace

absl::Status SetCommonOptions(ZmqSocket* socket, const ZmqOptions& options,
                              const std::string& endpoint) {
  const size_t largest =
      std::max(options.limits.max_header, options.limits.max_payload);
  const int64_t bound =
      static_cast<int64_t>(std::min<size_t>(largest, INT64_MAX));
  PARAPET_RETURN_IF_ERROR(socket->Set(ZMQ_LINGER, 0));
  PARAPET_RETURN_IF_ERROR(socket->Set(ZMQ_IPV6, 1));
  PARAPET_RETURN_IF_ERROR(socket->Set(ZMQ_SNDHWM, options.send_high_water));
  PARAPET_RETURN_IF_ERROR(socket->Set(ZMQ_RCVHWM, options.receive_high_water));
  if (IsLoopback(endpoint))
    PARAPET_RETURN_IF_ERROR(socket->Set(ZMQ_SNDBUF, kLoopbackSendBuffer));
  return socket->Set64(ZMQ_MAXMSGSIZE, bound);
}

absl::StatusOr<std::unique_ptr<ZmqDealer>> ZmqDealer::Open(
    const ZmqContext& context, const ZmqOptions& options, uint64_t id,
    const std::string& endpoint, absl::Time now) {
  std::unique_ptr<ZmqDealer> dealer(new ZmqDealer);
  dealer->limits_ = options.limits;
  dealer->endpoint_ = endpoint;
  dealer->deadline_ = now + options.connect_timeout;
  PARAPET_RETURN_IF_ERROR(dealer->Setup(context, options, id));
  return dealer;
}

absl::Status ZmqDealer::Setup(const ZmqContext& context,
                              const ZmqOptions& options, uint64_t id) {
  PARAPET_ASSIGN_OR_RETURN(data_, ZmqSocket::Open(context, ZMQ_DEALER));
  PARAPET_RETURN_IF_ERROR(SetCommonOptions(&data_, options, endpoint_));
  PARAPET_RETURN_IF_ERROR(data_.Set(ZMQ_RECONNECT_IVL, kReconnectMs));
  PARAPET_ASSIGN_OR_RETURN(
      monitor_, data_.Monitor(context, absl::StrCat("dealer-", id), kEvents));
  return data_.Connect(endpoint_);
}

int ZmqDealer::Send(absl::string_view header, const Payload& payload) {
  return SendMessage(&data_, header, payload);
}

bool ZmqDealer::Receive(ZmqIncoming* message) {
  if (!ReceiveMessage(&data_, limits_, message)) return false;
  // The monitor may be slower than the first message.
  if (state_ == State::kConnecting)
    OnMonitor(ZMQ_EVENT_HANDSHAKE_SUCCEEDED, 0, absl::Time());
  return true;
}

void ZmqDealer::ReadMonitor(absl::Time now) {
  ZmqMessage event, address;
  while (monitor_.Receive(&event) == 0) {
    if (event.more()) monitor_.Receive(&address);
    uint16_t kind = 0;
    uint32_t value = 0;
    if (event.size() < sizeof(kind) + sizeof(value)) continue;
    std::memcpy(&kind, event.data(), sizeof(kind));
    std::memcpy(&value, static_cast<const char*>(event.data()) + sizeof(kind),
                sizeof(value));
    OnMonitor(kind, value, now);
  }
}

void ZmqDealer::OnMonitor(int event, uint32_t value, absl::Time now) {
  const std::string failed =
      absl::StrCat("handshake with ", endpoint_, " failed");
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      if (state_ != State::kConnecting) return;
      state_ = State::kUp;
      deadline_ = absl::InfiniteFuture();
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      return Break(
          absl::StrCat(failed, ": ", zmq_strerror(static_cast<int>(value))),
          now);
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return Break(absl::StrCat(failed, ": not our protocol"), now);
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return Break(absl::StrCat(failed, ": refused with code ", value), now);
    case ZMQ_EVENT_CONNECT_RETRIED:
      Break(absl::StrCat("cannot connect to ", endpoint_), now);
      state_ = State::kLost;
      return;
    default:  // DISCONNECTED, CLOSED
      return Break(
          state_ == State::kUp
              ? absl::StrCat("the connection to ", endpoint_, " is lost")
              : absl::StrCat("cannot connect to ", endpoint_,
                             ": nobody listens there"),
          now);
  }
}

void ZmqDealer::Break(std::string reason, absl::Time now) {
  if (state_ == State::kBreaking || state_ == State::kLost) return;
  state_ = State::kBreaking;
  reason_ = std::move(reason);
  deadline_ = now + kSettle;
}

void ZmqDealer::Tick(absl::Time now) {
  if (now < deadline_) return;
  if (state_ == State::kConnecting) {
    Fail(absl::StrCat(endpoint_, " did not answer in time"));
  } else if (state_ == State::kBreaking) {
    state_ = State::kLost;
  }
}

void ZmqDealer::Fail(std::string reason) {
  if (reason_.empty()) reason_ = std::move(reason);
  state_ = State::kLost;
}

void ZmqDealer::Shut(absl::Duration linger) {
  data_.StopMonitor();
  monitor_.Close();
  (void)data_.Set(ZMQ_LINGER,
                  static_cast<int>(absl::ToInt64Milliseconds(linger)));
  data_.Close();
}

}  // namespace parapet::net
