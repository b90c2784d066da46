#ifndef PARAPET_TESTS_SIM_ALTERING_TRANSPORT_H_
#define PARAPET_TESTS_SIM_ALTERING_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/wire.h"
#include "tests/sim/forwarding_transport.h"

namespace parapet::sim {

// What an error in a process would send: each of its messages may be altered
// on its way out.
class AlteringTransport final : public ForwardingTransport {
 public:
  using Alter = std::function<void(Body&)>;

  AlteringTransport(std::unique_ptr<net::Transport> inner, WireLimits limits,
                    Alter alter)
      : ForwardingTransport(std::move(inner)),
        limits_(limits),
        alter_(std::move(alter)) {}

  absl::Status Send(net::ConnectionId to, absl::string_view header,
                    Payload payload) override {
    absl::StatusOr<Message> message = Decode(header, payload, limits_);
    if (!message.ok()) return message.status();
    alter_(message->body);
    Payload altered;
    const absl::string_view encoded = encoder_.Encode(*message, &altered);
    return inner().Send(to, encoded, std::move(altered));
  }

 private:
  const WireLimits limits_;
  const Alter alter_;
  Encoder encoder_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_ALTERING_TRANSPORT_H_
