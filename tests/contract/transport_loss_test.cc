// What common/net/transport.h promises of the end of connections, and of
// limits, checked on every backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "tests/contract/contract_fixture.h"

namespace parapet::net {
namespace {

using Kind = Event::Kind;

class TransportLoss : public TransportContract {};

INSTANTIATE_TEST_SUITE_P(Backends, TransportLoss,
                         testing::ValuesIn(AllBackends()),
                         [](const auto& test) { return test.param.name; });

TEST_P(TransportLoss, NobodyThereIsDownWithAReason) {
  Peer client = Make();
  const auto id = client.transport->Connect(backend_->DeadAddress());
  ASSERT_TRUE(id.ok()) << id.status();
  (void)client.transport->Send(*id, "into the void", {});
  ASSERT_TRUE(Await({&client}, [&] { return client.Downs() == 1; }));
  EXPECT_EQ(client.events.size(), 1u);
  EXPECT_EQ(client.events[0].connection, *id);
  EXPECT_NE(client.events[0].reason, "");
  EXPECT_TRUE(absl::IsNotFound(client.transport->Send(*id, "x", {})));
}

TEST_P(TransportLoss, OwnerIsReleasedWhenTheConnectionDies) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  auto owner = std::make_shared<std::string>(1 << 20, 'x');
  const std::weak_ptr<std::string> watch = owner;
  for (int i = 0; i < 300; ++i) {  // more than a socket takes
    ASSERT_TRUE(
        client.transport
            ->Send(client_end_, "p", Payload(owner, owner->data(), 1 << 20))
            .ok());
  }
  owner.reset();
  client.transport->Close(client_end_);
  // A receiver may get some of them, and then holds them.
  EXPECT_TRUE(Await({&server, &client}, [&] {
    server.events.clear();
    return watch.expired();
  }));
}

TEST_P(TransportLoss, CloseByTheConnectingSide) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  client.transport->Close(client_end_);
  EXPECT_TRUE(absl::IsNotFound(client.transport->Send(client_end_, "x", {})));
  // The other side learns it when a send fails, at the latest.
  ASSERT_TRUE(Await({&server, &client}, [&] {
    (void)server.transport->Send(server_end_, "are you there", {});
    return server.Downs() == 1;
  }));
  EXPECT_EQ(server.Last(Kind::kDown)->connection, server_end_);
  EXPECT_TRUE(absl::IsNotFound(server.transport->Send(server_end_, "x", {})));
  Settle({&server, &client});
  EXPECT_EQ(server.Downs(), 1);
  EXPECT_TRUE(client.events.empty());
}

TEST_P(TransportLoss, CloseByTheAcceptingSide) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  server.transport->Close(server_end_);
  EXPECT_TRUE(absl::IsNotFound(server.transport->Send(server_end_, "x", {})));
  ASSERT_TRUE(Await({&server, &client}, [&] {
    (void)client.transport->Send(client_end_, "still here", {});
    return client.Downs() == 1;
  }));
  Settle({&server, &client});
  EXPECT_TRUE(server.events.empty());
  EXPECT_EQ(client.Downs(), 1);
}

TEST_P(TransportLoss, CloseOfUnknownIdsIsIgnored) {
  Peer peer = Make();
  peer.transport->Close(0);
  peer.transport->Close(123456);
  const auto id = peer.transport->Connect(backend_->DeadAddress());
  ASSERT_TRUE(id.ok());
  peer.transport->Close(*id);
  peer.transport->Close(*id);
  Settle({&peer});
  EXPECT_TRUE(peer.events.empty());
}

TEST_P(TransportLoss, SendToUnknownIdIsNotFound) {
  Peer peer = Make();
  EXPECT_TRUE(absl::IsNotFound(peer.transport->Send(77, "x", {})));
}

TEST_P(TransportLoss, EndOfTheServerIsDownAndConnectWorksAnew) {
  auto server = std::make_unique<Peer>(Make());
  Peer client = Make();
  Join(server.get(), &client);
  const ConnectionId old = client_end_;
  server.reset();
  ASSERT_TRUE(Await({&client}, [&] { return client.Downs() == 1; }));
  EXPECT_EQ(client.events.back().connection, old);
  EXPECT_NE(client.events.back().reason, "");

  Peer again = Make();
  const auto address = again.transport->Listen(address_);
  ASSERT_TRUE(address.ok()) << address.status();
  const auto id = client.transport->Connect(*address);
  ASSERT_TRUE(id.ok());
  EXPECT_NE(*id, old);
  ASSERT_TRUE(client.transport->Send(*id, "new", {}).ok());
  ASSERT_TRUE(Await({&again, &client}, [&] { return again.Messages() == 1; }));
  EXPECT_EQ(client.Downs(), 1);
  EXPECT_THAT(again.Headers(), testing::ElementsAre("new"));
}

TEST_P(TransportLoss, LostConnectionStaysLost) {
  auto server = std::make_unique<Peer>(Make());
  Peer client = Make();
  Join(server.get(), &client);
  server.reset();
  Peer again = Make();
  const auto address = again.transport->Listen(address_);
  ASSERT_TRUE(address.ok()) << address.status();
  ASSERT_TRUE(Await({&again, &client}, [&] {
    (void)client.transport->Send(client_end_, "old", {});
    return client.Downs() == 1;
  }));
  Settle({&again, &client});
  EXPECT_TRUE(again.events.empty());
}

TEST_P(TransportLoss, WhatArrivedBeforeTheLossComesBeforeDown) {
  // Few enough to be received in full, and more than that.
  for (const int count : {40, 200}) {
    auto server = std::make_unique<Peer>(Make());
    Peer client = Make();
    address_.clear();
    Join(server.get(), &client);
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(server->transport
                      ->Send(server_end_, std::to_string(i), Pattern(2000, i))
                      .ok());
    }
    // They arrive; the client reads none yet.
    for (int i = 0; i < 20; ++i) {
      backend_->Advance();
      PollOnce(server.get());
    }
    server.reset();
    if (backend_->real()) absl::SleepFor(absl::Milliseconds(50));
    ASSERT_TRUE(Await({&client}, [&] { return client.Downs() == 1; }));
    EXPECT_EQ(client.events.back().kind, Kind::kDown);
    const std::vector<std::string> headers = client.Headers();
    // 64 is a high-water mark of zmq; the simulated network loses what is under
    // way, but nothing from the middle.
    if (backend_->real()) {
      EXPECT_GE(headers.size(), std::min<size_t>(count, 60));
    }
    for (size_t i = 0; i < headers.size(); ++i)
      EXPECT_EQ(headers[i], std::to_string(i));
  }
}

TEST_P(TransportLoss, MessageOverTheOwnLimitsIsRefused) {
  Limits limits;
  limits.max_header = 100;
  limits.max_payload = 1000;
  Peer server = Make(limits), client = Make(limits);
  Join(&server, &client);
  const std::string header(101, 'h');
  EXPECT_TRUE(
      absl::IsInvalidArgument(client.transport->Send(client_end_, header, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      client.transport->Send(client_end_, "h", Pattern(1001, 1))));
  ASSERT_TRUE(
      client.transport->Send(client_end_, header.substr(1), Pattern(1000, 1))
          .ok());
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return server.Messages() == 1; }));
  EXPECT_EQ(server.events[0].header.size(), 100u);
}

// A peer with wider limits than ours sends more than we take.
class TransportViolation : public TransportContract {
 protected:
  void ExpectClosed(const std::string& header, size_t payload, bool by_client) {
    Limits narrow;
    narrow.max_header = 100;
    narrow.max_payload = 1000;
    Peer server = Make(by_client ? narrow : Limits()),
         client = Make(by_client ? Limits() : narrow);
    Join(&server, &client);
    Peer* bad = by_client ? &client : &server;
    Peer* good = by_client ? &server : &client;
    const ConnectionId bad_end = by_client ? client_end_ : server_end_;
    ASSERT_TRUE(
        bad->transport->Send(bad_end, header, Pattern(payload, 1)).ok());
    (void)bad->transport->Send(bad_end, "after", {});
    ASSERT_TRUE(Await({bad, good}, [&] {
      (void)server.transport->Send(server_end_, "ping",
                                   {});  // a server learns it by sending
      (void)client.transport->Send(client_end_, "ping", {});
      return good->Downs() == 1 && bad->Downs() == 1;
    }));
    for (const std::string& h : good->Headers()) EXPECT_EQ(h, "ping");
    EXPECT_NE(good->Last(Kind::kDown)->reason, "");
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, TransportViolation,
                         testing::ValuesIn(AllBackends()),
                         [](const auto& test) { return test.param.name; });

TEST_P(TransportViolation, LongHeaderFromTheConnectingSide) {
  ExpectClosed(std::string(101, 'h'), 10, true);
}
TEST_P(TransportViolation, LongHeaderFromTheAcceptingSide) {
  ExpectClosed(std::string(101, 'h'), 10, false);
}
TEST_P(TransportViolation, LargePayloadFromTheConnectingSide) {
  ExpectClosed("h", 1001, true);
}
TEST_P(TransportViolation, LargePayloadFromTheAcceptingSide) {
  ExpectClosed("h", 1001, false);
}

TEST_P(TransportLoss, FurtherConnectionsThanTheLimitAreRefused) {
  Limits limits;
  limits.max_connections = 2;
  Peer server = Make(limits);
  std::vector<Peer> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Make());
  Join(&server, &clients[0]);
  Join(&server, &clients[1]);
  const auto id = clients[2].transport->Connect(address_);
  ASSERT_TRUE(id.ok());
  (void)clients[2].transport->Send(*id, "hello", {});
  ASSERT_TRUE(
      Await({&server, &clients[2]}, [&] { return clients[2].Downs() == 1; }));
  EXPECT_TRUE(server.events.empty());
  EXPECT_TRUE(clients[1].transport->Send(client_end_, "fine", {}).ok());
  EXPECT_TRUE(
      Await({&server, &clients[1]}, [&] { return server.Messages() == 1; }));
}

}  // namespace
}  // namespace parapet::net
