#ifndef PARAPET_COMMON_NET_ZMQ_UTIL_H_
#define PARAPET_COMMON_NET_ZMQ_UTIL_H_

#include <zmq.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/net/transport.h"
#include "common/payload.h"

// Owners for what libzmq hands out. They sit on its C interface, which reports
// by errno: here it becomes absl::Status or a result, so no exception comes
// from libzmq at all.
namespace parapet::net {

// The status of a libzmq or system call that failed with `error`: "WHAT: words
// of the error".
absl::Status ErrnoStatus(absl::string_view what, int error);

// One frame.
class ZmqMessage {
 public:
  ZmqMessage() { zmq_msg_init(&msg_); }
  ~ZmqMessage() { zmq_msg_close(&msg_); }
  ZmqMessage(ZmqMessage&& other) noexcept : ZmqMessage() {
    zmq_msg_move(&msg_, &other.msg_);
  }
  ZmqMessage& operator=(ZmqMessage&& other) noexcept {
    zmq_msg_move(&msg_, &other.msg_);
    return *this;
  }

  static ZmqMessage Copy(absl::string_view bytes);
  // Sends from where the payload lies: a copy of its owner lives until libzmq
  // lets go of the frame, and dies on a thread of libzmq's. Small payloads are
  // copied, which is cheaper.
  static ZmqMessage Share(const Payload& payload);

  const void* data() const {
    return zmq_msg_data(const_cast<zmq_msg_t*>(&msg_));
  }
  size_t size() const { return zmq_msg_size(&msg_); }
  bool more() const { return zmq_msg_more(&msg_) != 0; }
  // The file descriptor it came in by, while that connection lives; -1:
  // unknown.
  int source_fd() const { return zmq_msg_get(&msg_, ZMQ_SRCFD); }
  absl::string_view view() const {
    return {static_cast<const char*>(data()), size()};
  }
  zmq_msg_t* raw() { return &msg_; }

 private:
  zmq_msg_t msg_;
};

// The bytes of a received frame, without a copy unless they are few.
Payload ToPayload(ZmqMessage message);

class ZmqContext {
 public:
  explicit ZmqContext(int io_threads);
  // Waits until every socket is closed and what lingers is sent or given up.
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  void* raw() const { return context_; }

 private:
  void* context_;
};

class ZmqSocket {
 public:
  ZmqSocket() = default;
  ~ZmqSocket() { Close(); }
  ZmqSocket(ZmqSocket&& other) noexcept
      : socket_(std::exchange(other.socket_, nullptr)) {}
  ZmqSocket& operator=(ZmqSocket&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }

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

  void* raw() const { return socket_; }
  // 0, or errno; never waits. EAGAIN: nothing there, or the peer takes nothing.
  int Receive(ZmqMessage* message);
  int Send(ZmqMessage message, bool more);

 private:
  explicit ZmqSocket(void* socket) : socket_(socket) {}
  void* socket_ = nullptr;
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
