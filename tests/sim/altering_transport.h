#ifndef PARAPET_TESTS_SIM_ALTERING_TRANSPORT_H_
#define PARAPET_TESTS_SIM_ALTERING_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/net/transport.h"
#include "common/wire.h"

namespace parapet::sim {

// What an error in a process would send: each of its messages may be altered
// on its way out.
class AlteringTransport final : public net::Transport {
 public:
  using Alter = std::function<void(Body&)>;

  AlteringTransport(std::unique_ptr<net::Transport> inner, WireLimits limits,
                    Alter alter)
      : inner_(std::move(inner)), limits_(limits), alter_(std::move(alter)) {}

  absl::StatusOr<std::string> Listen(const std::string& address) override {
    return inner_->Listen(address);
  }
  absl::StatusOr<net::ConnectionId> Connect(
      const std::string& address) override {
    return inner_->Connect(address);
  }
  absl::Status Send(net::ConnectionId to, absl::string_view header,
                    Payload payload) override {
    absl::StatusOr<Message> message = Decode(header, payload, limits_);
    if (!message.ok()) return message.status();
    alter_(message->body);
    Payload altered;
    const absl::string_view encoded = encoder_.Encode(*message, &altered);
    return inner_->Send(to, encoded, std::move(altered));
  }
  void Close(net::ConnectionId connection) override {
    inner_->Close(connection);
  }
  absl::Status Poll(absl::Duration timeout,
                    std::vector<net::Event>* events) override {
    return inner_->Poll(timeout, events);
  }
  void Wake() override { inner_->Wake(); }

 private:
  const std::unique_ptr<net::Transport> inner_;
  const WireLimits limits_;
  const Alter alter_;
  Encoder encoder_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_ALTERING_TRANSPORT_H_
