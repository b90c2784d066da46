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

absl::Status SendChunk(void* socket, const Payload& payload) {
  ZmqMessage head = ZmqMessage::Copy(std::string(kHeaderBytes, 'h')),
             body = ZmqMessage::Share(payload);
  PARAPET_RETURN_IF_ERROR(Send(socket, &head, ZMQ_SNDMORE));
  return Send(socket, &body, 0);
}

absl::Status ReceiveChunk(void* socket, ZmqMessage* body) {
  ZmqMessage head;
  PARAPET_RETURN_IF_ERROR(Receive(socket, &head));
  return Receive(socket, body);
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
    const ZmqEchoRounds& echo) {
  const ZmqContext context(1);
  std::vector<ZmqSocket> sockets;
  for (const std::string& address : echo.addresses) {
    PARAPET_ASSIGN_OR_RETURN(ZmqSocket socket, OpenSocket(context, ZMQ_DEALER));
    PARAPET_RETURN_IF_ERROR(socket.Connect(address));
    sockets.push_back(std::move(socket));
  }
  const auto chunks = static_cast<size_t>(echo.chunks);
  const auto owner = std::make_shared<std::vector<char>>(
      echo.hot ? echo.chunk_bytes : chunks * echo.chunk_bytes, 'x');
  std::vector<ZmqMessage> kept;
  SteadyClock clock;
  std::vector<absl::Duration> times;
  for (int round = 0; round < echo.rounds; ++round) {
    const absl::Time began = clock.Now();
    for (size_t c = 0; c < chunks; ++c) {
      const char* const from =
          owner->data() + (echo.hot ? 0 : c * echo.chunk_bytes);
      PARAPET_RETURN_IF_ERROR(
          SendChunk(sockets[c % sockets.size()].raw(),
                    Payload(owner, from, echo.chunk_bytes)));
    }
    std::vector<ZmqMessage> received(echo.hot ? 1 : chunks);
    for (size_t c = 0; c < chunks; ++c) {
      PARAPET_RETURN_IF_ERROR(ReceiveChunk(sockets[c % sockets.size()].raw(),
                                           &received[echo.hot ? 0 : c]));
    }
    kept = std::move(received);
    times.push_back(clock.Now() - began);
  }
  return times;
}

}  // namespace parapet::net
