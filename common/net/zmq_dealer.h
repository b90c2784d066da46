#ifndef PARAPET_COMMON_NET_ZMQ_DEALER_H_
#define PARAPET_COMMON_NET_ZMQ_DEALER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/zmq_transport.h"
#include "common/net/zmq_util.h"

namespace parapet::net {

// The connecting end of one connection: a DEALER socket that lives as long as
// the connection, and the monitor that tells what becomes of it. Not
// thread-safe.
class ZmqDealer {
 public:
  enum class State {
    kConnecting,
    kUp,
    kBreaking,  // lost, but messages from before the loss may still be on their
                // way to us
    kLost,      // what Receive does not give now will never come
  };

  // `id` names the monitor's inproc endpoint: unique in the context.
  static absl::StatusOr<std::unique_ptr<ZmqDealer>> Open(
      const ZmqContext& context, const ZmqOptions& options, uint64_t id,
      const std::string& endpoint, absl::Time now);

  // Both descriptors live until Shut.
  int data_fd() const { return data_.fd(); }
  int monitor_fd() const { return monitor_.fd(); }

  State state() const { return state_; }
  const std::string& reason() const { return reason_; }
  // When Tick must be called next.
  absl::Time deadline() const { return deadline_; }

  // 0 or errno.
  int Send(absl::string_view header, const Payload& payload);
  bool Receive(ZmqIncoming* message);
  void ReadMonitor(absl::Time now);
  void Tick(absl::Time now);
  // The peer broke the protocol, or we gave up: lost at once.
  void Fail(std::string reason);
  // Closes the sockets. What libzmq holds is still sent if the network takes it
  // within `linger`.
  void Shut(absl::Duration linger);

 private:
  ZmqDealer() = default;
  absl::Status Setup(const ZmqContext& context, const ZmqOptions& options,
                     uint64_t id);
  void OnMonitor(int event, uint32_t value, absl::Time now);
  void Break(std::string reason, absl::Time now);

  ZmqSocket data_, monitor_;
  Limits limits_;
  std::string endpoint_;
  State state_ = State::kConnecting;
  std::string reason_;
  absl::Time deadline_ = absl::InfiniteFuture();
};

// Options that both kinds of socket need.
absl::Status SetCommonOptions(ZmqSocket* socket, const ZmqOptions& options,
                              const std::string& endpoint);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_DEALER_H_
