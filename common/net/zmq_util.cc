#include "common/net/zmq_util.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

// Below this a copy costs less than a reference: libzmq allocates either way.
constexpr size_t kCopyBelow = 1024;
// libzmq's default of 1023 sockets allows 341 connections, at three sockets
// each.
constexpr int kMaxSockets = 65535;

// Descriptors of libzmq's: each thread has a mailbox and an epoll set, and each
// socket a mailbox and its connection, with one to spare for the monitor.
constexpr int kPerThread = 2;
constexpr int kPerSocket = 3;

void FreeShared(void*, void* hint) {
  delete static_cast<std::shared_ptr<const void>*>(hint);
}

std::string Violation(const ZmqIncoming& in, size_t payload, int frames,
                      const Limits& limits) {
  if (frames > 2)
    return absl::StrCat("a message of ", frames, " frames (at most 2)");
  if (in.header.size() > limits.max_header) {
    return absl::StrCat("a header of ", in.header.size(), " bytes (at most ",
                        limits.max_header, ")");
  }
  if (payload <= limits.max_payload) return "";
  return absl::StrCat("a payload of ", payload, " bytes (at most ",
                      limits.max_payload, ")");
}

}  // namespace

absl::Status ErrnoStatus(absl::string_view what, int error) {
  const std::string words = absl::StrCat(what, ": ", zmq_strerror(error));
  switch (error) {
    case EINVAL:
    case EPROTONOSUPPORT:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(words);
    case EADDRINUSE:
      return absl::AlreadyExistsError(words);
    case EADDRNOTAVAIL:
    case ENODEV:
    case ENOENT:
      return absl::NotFoundError(words);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(words);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(words);
    default:
      return absl::UnavailableError(words);
  }
}

// Messages fail to be made for want of memory only, which ends us, as with
// `new`.
ZmqMessage ZmqMessage::Copy(absl::string_view bytes) {
  return ZmqMessage(zmq::message_t(bytes.data(), bytes.size()));
}

ZmqMessage ZmqMessage::Share(const Payload& payload) {
  if (payload.size() < kCopyBelow) {
    return Copy(
        {reinterpret_cast<const char*>(payload.data()), payload.size()});
  }
  auto* owner = new std::shared_ptr<const void>(payload.owner());
  return ZmqMessage(zmq::message_t(const_cast<std::byte*>(payload.data()),
                                   payload.size(), FreeShared, owner));
}

Payload ToPayload(ZmqMessage message) {
  if (message.size() == 0) return Payload();
  if (message.size() < kCopyBelow) {
    // libzmq's frame would keep the whole 8 KiB buffer alive in which it was
    // received.
    return Payload::FromString(std::string(message.view()));
  }
  auto owner = std::make_shared<const ZmqMessage>(std::move(message));
  return Payload(owner, owner->data(), owner->size());
}

namespace {

// ResourceExhausted unless `count` more descriptors can be opened. libzmq ends
// the process when one of its threads finds none for its epoll set.
absl::Status ProbeDescriptors(int count) {
  std::vector<int> opened;
  int error = 0;
  while (error == 0 && opened.size() < static_cast<size_t>(count)) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0) error = errno;
    if (fd >= 0) opened.push_back(fd);
  }
  for (const int fd : opened) close(fd);
  return error == 0
             ? absl::OkStatus()
             : ErrnoStatus("no descriptors left for a zmq socket", error);
}

}  // namespace

ZmqContext::ZmqContext(int io_threads)
    : descriptors_(kPerSocket + kPerThread * (io_threads + 1)) {
  try {
    context_ = std::make_unique<zmq::context_t>(io_threads, kMaxSockets);
  } catch (const zmq::error_t&) {
    // Shows in the first Open.
  }
}

absl::StatusOr<ZmqSocket> ZmqSocket::Open(const ZmqContext& context, int type) {
  if (context.context_ == nullptr) {
    return absl::ResourceExhaustedError("cannot start libzmq");
  }
  PARAPET_RETURN_IF_ERROR(ProbeDescriptors(context.descriptors_));
  try {
    return ZmqSocket(zmq::socket_t(*context.context_, type));
  } catch (const zmq::error_t& error) {
    return ErrnoStatus("cannot open a zmq socket", error.num());
  }
}

void ZmqSocket::Close() { socket_.close(); }

absl::Status ZmqSocket::Set(int option, int value) {
  if (zmq_setsockopt(raw(), option, &value, sizeof(value)) == 0)
    return absl::OkStatus();
  return ErrnoStatus(absl::StrCat("zmq socket option ", option, " = ", value),
                     errno);
}

absl::Status ZmqSocket::Set64(int option, int64_t value) {
  if (zmq_setsockopt(raw(), option, &value, sizeof(value)) == 0)
    return absl::OkStatus();
  return ErrnoStatus(absl::StrCat("zmq socket option ", option, " = ", value),
                     errno);
}

absl::Status ZmqSocket::Bind(const std::string& endpoint) {
  if (zmq_bind(raw(), endpoint.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(absl::StrCat("cannot listen at ", endpoint), errno);
}

absl::Status ZmqSocket::Connect(const std::string& endpoint) {
  if (zmq_connect(raw(), endpoint.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(absl::StrCat("cannot connect to ", endpoint), errno);
}

absl::StatusOr<ZmqSocket> ZmqSocket::Monitor(const ZmqContext& context,
                                             const std::string& name,
                                             int events) {
  const std::string endpoint = absl::StrCat("inproc://", name);
  if (zmq_socket_monitor(raw(), endpoint.c_str(), events) != 0) {
    return ErrnoStatus("cannot watch a zmq socket", errno);
  }
  absl::StatusOr<ZmqSocket> pair = Open(context, ZMQ_PAIR);
  if (!pair.ok()) return pair;
  PARAPET_RETURN_IF_ERROR(pair->Set(ZMQ_LINGER, 0));
  PARAPET_RETURN_IF_ERROR(pair->Connect(endpoint));
  return pair;
}

void ZmqSocket::StopMonitor() {
  if (raw() != nullptr) zmq_socket_monitor(raw(), nullptr, 0);
}

std::string ZmqSocket::LastEndpoint() const {
  char buffer[1024];
  size_t size = sizeof(buffer);
  if (zmq_getsockopt(raw(), ZMQ_LAST_ENDPOINT, buffer, &size) != 0) return "";
  return buffer;
}

int ZmqSocket::fd() const {
  int fd = -1;
  size_t size = sizeof(fd);
  zmq_getsockopt(raw(), ZMQ_FD, &fd, &size);
  return fd;
}

int ZmqSocket::Receive(ZmqMessage* message) {
  while (zmq_msg_recv(message->raw(), raw(), ZMQ_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int ZmqSocket::Send(ZmqMessage message, bool more) {
  while (zmq_msg_send(message.raw(), raw(),
                      ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

bool ReceiveMessage(ZmqSocket* socket, const Limits& limits, ZmqIncoming* out) {
  ZmqMessage header, payload, extra;
  if (socket->Receive(&header) != 0) return false;
  out->source_fd = header.source_fd();
  out->header.assign(header.view().data(), header.size());
  int frames = 1;
  // libzmq shows a message only when it has all of it, so the frames that
  // follow are there.
  for (bool more = header.more(); more; ++frames) {
    ZmqMessage* frame = frames == 1 ? &payload : &extra;
    if (socket->Receive(frame) != 0) break;
    more = frame->more();
  }
  out->violation = Violation(*out, payload.size(), frames, limits);
  out->payload = ToPayload(std::move(payload));
  return true;
}

int SendMessage(ZmqSocket* socket, absl::string_view header,
                const Payload& payload) {
  const bool more = !payload.empty();
  const int error = socket->Send(ZmqMessage::Copy(header), more);
  if (error == 0 && more) socket->Send(ZmqMessage::Share(payload), false);
  return error;
}

}  // namespace parapet::net
