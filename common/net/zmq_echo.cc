#include "common/net/zmq_echo.h"

#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/net/zmq_util.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

constexpr size_t kHeaderBytes = 64;
constexpr int kTimeoutMs = 60'000;

absl::StatusOr<ZmqSocket> OpenSocket(const ZmqContext& context, int type) {
  PARAPET_ASSIGN_OR_RETURN(ZmqSocket socket, ZmqSocket::Open(context, type));
  for (int option : {ZMQ_SNDHWM, ZMQ_RCVHWM})
    PARAPET_RETURN_IF_ERROR(socket.Set(option, 0));
  for (int option : {ZMQ_SNDTIMEO, ZMQ_RCVTIMEO})
    PARAPET_RETURN_IF_ERROR(socket.Set(option, kTimeoutMs));
  PARAPET_RETURN_IF_ERROR(socket.Set(ZMQ_LINGER, 1000));
  return socket;
}

absl::Status Receive(void* socket, ZmqMessage* message) {
  if (zmq_msg_recv(message->raw(), socket, 0) >= 0) return absl::OkStatus();
  return ErrnoStatus("echo: receive", errno);
}

absl::Status Send(void* socket, ZmqMessage* message, int flags) {
  if (zmq_msg_send(message->raw(), socket, flags) >= 0) return absl::OkStatus();
  return ErrnoStatus("echo: send", errno);
}

}  // namespace

absl::Status RunZmqEcho(const std::string& address, int64_t messages) {
  const ZmqContext context(1);
  PARAPET_ASSIGN_OR_RETURN(ZmqSocket socket, OpenSocket(context, ZMQ_ROUTER));
  PARAPET_RETURN_IF_ERROR(socket.Bind(address));
  for (int64_t i = 0; i < messages; ++i) {
    ZmqMessage id, header, payload;
    for (ZmqMessage* frame : {&id, &header, &payload})
      PARAPET_RETURN_IF_ERROR(Receive(socket.raw(), frame));
    PARAPET_RETURN_IF_ERROR(Send(socket.raw(), &id, ZMQ_SNDMORE));
    PARAPET_RETURN_IF_ERROR(Send(socket.raw(), &header, ZMQ_SNDMORE));
    PARAPET_RETURN_IF_ERROR(Send(socket.raw(), &payload, 0));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::Duration>> RunZmqEchoClient(
    const std::vector<std::string>& addresses, int64_t chunks,
    size_t chunk_bytes, int rounds) {
  const ZmqContext context(1);
  std::vector<ZmqSocket> sockets;
  for (const std::string& address : addresses) {
    PARAPET_ASSIGN_OR_RETURN(ZmqSocket socket, OpenSocket(context, ZMQ_DEALER));
    PARAPET_RETURN_IF_ERROR(socket.Connect(address));
    sockets.push_back(std::move(socket));
  }
  auto owner = std::make_shared<std::vector<char>>(chunk_bytes, 'x');
  const Payload payload(owner, owner->data(), chunk_bytes);
  const std::string header(kHeaderBytes, 'h');
  SteadyClock clock;
  std::vector<absl::Duration> times;
  for (int round = 0; round < rounds; ++round) {
    const absl::Time began = clock.Now();
    for (int64_t c = 0; c < chunks; ++c) {
      void* socket = sockets[c % sockets.size()].raw();
      ZmqMessage head = ZmqMessage::Copy(header),
                 body = ZmqMessage::Share(payload);
      PARAPET_RETURN_IF_ERROR(Send(socket, &head, ZMQ_SNDMORE));
      PARAPET_RETURN_IF_ERROR(Send(socket, &body, 0));
    }
    for (int64_t c = 0; c < chunks; ++c) {
      ZmqMessage head, body;
      PARAPET_RETURN_IF_ERROR(
          Receive(sockets[c % sockets.size()].raw(), &head));
      PARAPET_RETURN_IF_ERROR(
          Receive(sockets[c % sockets.size()].raw(), &body));
    }
    times.push_back(clock.Now() - began);
  }
  return times;
}

}  // namespace parapet::net
