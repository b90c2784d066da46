#ifndef PARAPET_TESTS_SIM_FORWARDING_TRANSPORT_H_
#define PARAPET_TESTS_SIM_FORWARDING_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/net/transport.h"

namespace parapet::sim {

// All but what a subclass says is that of another transport.
class ForwardingTransport : public net::Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<net::Transport> inner)
      : inner_(std::move(inner)) {}

  absl::StatusOr<std::string> Listen(const std::string& address) final {
    return inner_->Listen(address);
  }
  absl::StatusOr<net::ConnectionId> Connect(const std::string& address) final {
    return inner_->Connect(address);
  }
  void Close(net::ConnectionId connection) final { inner_->Close(connection); }
  absl::Status Poll(absl::Duration timeout,
                    std::vector<net::Event>* events) override {
    return inner_->Poll(timeout, events);
  }
  void Wake() final { inner_->Wake(); }

 protected:
  net::Transport& inner() { return *inner_; }

 private:
  const std::unique_ptr<net::Transport> inner_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_FORWARDING_TRANSPORT_H_
