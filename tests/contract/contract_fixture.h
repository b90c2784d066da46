#ifndef PARAPET_TESTS_CONTRACT_CONTRACT_FIXTURE_H_
#define PARAPET_TESTS_CONTRACT_CONTRACT_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/net/transport.h"
#include "tests/contract/backend.h"

namespace parapet::net {

// Bytes that depend on their places.
inline Payload Pattern(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>((i * 131 + seed * 7 + i / 251));
  return Payload::FromString(std::move(bytes));
}

class TransportContract : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override { backend_ = GetParam().make(); }

  Peer Make(const Limits& limits = {}) { return {backend_->Make(limits), {}}; }

  // Polls `peers` until `done`; false after `patience` of real time.
  bool Await(std::vector<Peer*> peers, const std::function<bool()>& done,
             absl::Duration patience = absl::Seconds(20)) {
    const absl::Time end = absl::Now() + patience;
    while (!done()) {
      if (absl::Now() > end) return false;
      backend_->Advance();
      for (Peer* p : peers) PollOnce(p);
    }
    return true;
  }

  void PollOnce(Peer* peer) {
    ASSERT_TRUE(
        peer->transport->Poll(absl::Milliseconds(1), &peer->events).ok());
  }

  // Polls for a while, to see that something does not happen.
  void Settle(std::vector<Peer*> peers) {
    for (int i = 0; i < 100; ++i) {
      backend_->Advance();
      for (Peer* p : peers) PollOnce(p);
    }
  }

  // A server that has heard from a client; both ends of the connection.
  void Join(Peer* server, Peer* client) {
    if (address_.empty()) {
      const auto address = server->transport->Listen(backend_->ListenAddress());
      ASSERT_TRUE(address.ok()) << address.status();
      address_ = *address;
    }
    const auto id = client->transport->Connect(address_);
    ASSERT_TRUE(id.ok()) << id.status();
    client_end_ = *id;
    ASSERT_TRUE(client->transport->Send(client_end_, "hello", {}).ok());
    const int before = server->Messages();
    ASSERT_TRUE(Await({server, client}, [&] {
      return server->Messages() > before && client->Count(Event::Kind::kUp) > 0;
    }));
    server_end_ = server->events.back().connection;
    server->events.clear();
    client->events.clear();
  }

  std::unique_ptr<Backend> backend_;
  std::string address_;
  ConnectionId client_end_ = 0, server_end_ = 0;
};

}  // namespace parapet::net

#endif  // PARAPET_TESTS_CONTRACT_CONTRACT_FIXTURE_H_
