#ifndef PARAPET_TESTS_SIM_CHANGING_TRANSPORT_H_
#define PARAPET_TESTS_SIM_CHANGING_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/wire.h"
#include "tests/sim/forwarding_transport.h"

namespace parapet::sim {

// A server's transport on which what was pushed lies in memory of its senders,
// who all write something else to it as soon as the server has told the lead
// how far from each other it is.
class ChangingTransport final : public ForwardingTransport {
 public:
  ChangingTransport(std::unique_ptr<net::Transport> inner, WireLimits limits)
      : ForwardingTransport(std::move(inner)), limits_(limits) {}

  absl::Status Send(net::ConnectionId to, absl::string_view header,
                    Payload payload) override {
    const absl::StatusOr<Message> message = Decode(header, payload, limits_);
    if (message.ok() &&
        std::holds_alternative<ShardReportMessage>(message->body))
      ChangeAll();
    return inner().Send(to, header, std::move(payload));
  }

  absl::Status Poll(absl::Duration timeout,
                    std::vector<net::Event>* events) override {
    const size_t before = events->size();
    const absl::Status status = ForwardingTransport::Poll(timeout, events);
    for (size_t i = before; i < events->size(); ++i) {
      net::Event& event = (*events)[i];
      const auto message = Decode(event.header, event.payload, limits_);
      if (!message.ok() || !std::holds_alternative<PushMessage>(message->body))
        continue;
      auto bytes = std::make_shared<std::string>(event.payload.ToString());
      pushed_.push_back(bytes);
      event.payload =
          Payload::ThatMayChange(bytes, bytes->data(), bytes->size());
    }
    return status;
  }

 private:
  void ChangeAll() {
    for (const std::shared_ptr<std::string>& bytes : pushed_)
      bytes->assign(bytes->size(), '\x5a');  // in place; as numbers 1e16
    pushed_.clear();
  }

  const WireLimits limits_;
  std::vector<std::shared_ptr<std::string>> pushed_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_CHANGING_TRANSPORT_H_
