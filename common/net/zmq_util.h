#ifndef PARAPET_COMMON_NET_ZMQ_UTIL_H_
#define PARAPET_COMMON_NET_ZMQ_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <zmq.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/net/transport.h"
#include "common/payload.h"

// Owners for what libzmq hands out, over cppzmq's. Its exceptions end here:
// calls that are made once catch them, and those on the way of every message
// use the handles, which report by errno. Both become absl::Status or a result.
namespace parapet::net {

// The status of a libzmq or system call that failed with `error`: "WHAT: words
// of the error".
absl::Status ErrnoStatus(absl::string_view what, int error);

// One frame.
class ZmqMessage {
 public:
  ZmqMessage() = default;

  static ZmqMessage Copy(absl::string_view bytes);
  // Sends from where the payload lies: a copy of its owner lives until libzmq
  // lets go of the frame, and dies on a thread of libzmq's. Small payloads are
  // copied, which is cheaper.
  static ZmqMessage Share(const Payload& payload);

  const void* data() const { return msg_.data(); }
  size_t size() const { return msg_.size(); }
  bool more() const { return msg_.more(); }
  // The file descriptor it came in by, while that connection lives; -1:
  // unknown.
  int source_fd() { return zmq_msg_get(raw(), ZMQ_SRCFD); }
  absl::string_view view() const {
    return {static_cast<const char*>(data()), size()};
  }
  zmq_msg_t* raw() { return msg_.handle(); }

 private:
  explicit ZmqMessage(zmq::message_t msg) : msg_(std::move(msg)) {}
  zmq::message_t msg_;
};

// The bytes of a received frame, without a copy unless they are few.
Payload ToPayload(ZmqMessage message);

class ZmqContext {
 public:
  // Its destructor waits until every socket is closed and what lingers is sent
  // or given up. Without the threads it needs, no socket can be opened.
  explicit ZmqContext(int io_threads);
  bool ok() const { return context_ != nullptr; }

 private:
  friend class ZmqSocket;
  int descriptors_;  // that the first socket takes, with what it starts
  std::unique_ptr<zmq::context_t> context_;
};

class ZmqSocket {
 public:
  ZmqSocket() = default;

  // ResourceExhausted: too few descriptors are left for it.
  static absl::StatusOr<ZmqSocket> Open(const ZmqContext& context, int type);
  // Does nothing the second time.
  void Close();

  absl::Status Set(int option, int value);
  absl::Status Set64(int option, int64_t value);
  absl::Status Bind(const std::string& endpoint);
  absl::Status Connect(const std::string& endpoint);
  // Reports `events` on a new PAIR socket, in libzmq's frames.
  absl::StatusOr<ZmqSocket> Monitor(const ZmqContext& context,
                                    const std::string& name, int events);
  void StopMonitor();
  std::string LastEndpoint() const;
  // Readable when something has changed since the last send or receive, which
  // then must be tried.
  int fd() const;

  void* raw() const { return socket_.handle(); }
  // 0, or errno; never waits. EAGAIN: nothing there, or the peer takes nothing.
  int Receive(ZmqMessage* message);
  int Send(ZmqMessage message, bool more);

 private:
  explicit ZmqSocket(zmq::socket_t socket) : socket_(std::move(socket)) {}
  // cppzmq hands out no handle of a const socket.
  mutable zmq::socket_t socket_;
};

// A message as we frame it: a header and, maybe, a payload.
struct ZmqIncoming {
  std::string header;
  Payload payload;
  std::string violation;  // not empty: the peer broke the framing or the
                          // limits, and how
  int source_fd = -1;
};

// Reads all the frames of a message; false: there is none.
bool ReceiveMessage(ZmqSocket* socket, const Limits& limits, ZmqIncoming* out);

// 0 or errno. An error of the header leaves nothing sent; once the header is
// in, a payload can only get lost with its connection.
int SendMessage(ZmqSocket* socket, absl::string_view header,
                const Payload& payload);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_UTIL_H_
