// What common/net/transport.h promises of connections that live, checked on
// every backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/contract/contract_fixture.h"

namespace parapet::net {
namespace {

using Kind = Event::Kind;

INSTANTIATE_TEST_SUITE_P(Backends, TransportContract,
                         testing::ValuesIn(AllBackends()),
                         [](const auto& test) { return test.param.name; });

TEST_P(TransportContract, UpComesFirstAndOnlyToTheConnectingSide) {
  Peer server = Make(), client = Make();
  const auto address = server.transport->Listen(backend_->ListenAddress());
  ASSERT_TRUE(address.ok()) << address.status();
  const auto id = client.transport->Connect(*address);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return !client.events.empty(); }));
  EXPECT_EQ(client.events[0].kind, Kind::kUp);
  EXPECT_EQ(client.events[0].connection, *id);
  Settle({&server, &client});
  EXPECT_EQ(client.events.size(), 1u);
  EXPECT_TRUE(server.events.empty());
}

TEST_P(TransportContract, ListensOnce) {
  Peer server = Make();
  ASSERT_TRUE(server.transport->Listen(backend_->ListenAddress()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      server.transport->Listen(backend_->ListenAddress()).status()));
}

TEST_P(TransportContract, TakenAddressIsAlreadyExists) {
  Peer first = Make(), second = Make();
  const auto address = first.transport->Listen(backend_->ListenAddress());
  ASSERT_TRUE(address.ok());
  EXPECT_TRUE(
      absl::IsAlreadyExists(second.transport->Listen(*address).status()));
}

TEST_P(TransportContract, BadAddressIsInvalidArgument) {
  Peer peer = Make();
  for (const std::string& bad :
       {backend_->BadAddress(), std::string(), std::string("http://a:1")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(peer.transport->Connect(bad).status()))
        << bad;
    EXPECT_TRUE(absl::IsInvalidArgument(peer.transport->Listen(bad).status()))
        << bad;
  }
}

TEST_P(TransportContract, MessagesBothWaysWholeAndInOrder) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  constexpr int kCount = 2000;
  for (int i = 0; i < kCount; ++i) {
    const std::string header = absl::StrCat("m", i);
    ASSERT_TRUE(
        client.transport->Send(client_end_, header, Pattern(i % 5000, i)).ok());
    ASSERT_TRUE(
        server.transport->Send(server_end_, header, Pattern(i % 3000, i)).ok());
  }
  ASSERT_TRUE(Await({&server, &client}, [&] {
    return server.Messages() >= kCount && client.Messages() >= kCount;
  }));
  Settle({&server, &client});
  ASSERT_EQ(server.events.size(), size_t{kCount});
  ASSERT_EQ(client.events.size(), size_t{kCount});
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(server.events[i].header, absl::StrCat("m", i));
    EXPECT_EQ(server.events[i].connection, server_end_);
    EXPECT_EQ(server.events[i].payload.ToString(),
              Pattern(i % 5000, i).ToString());
    EXPECT_EQ(client.events[i].header, absl::StrCat("m", i));
    EXPECT_EQ(client.events[i].payload.ToString(),
              Pattern(i % 3000, i).ToString());
  }
}

TEST_P(TransportContract, SentBeforeUpArrives) {
  Peer server = Make(), client = Make();
  const auto address = server.transport->Listen(backend_->ListenAddress());
  ASSERT_TRUE(address.ok());
  const auto id = client.transport->Connect(*address);
  ASSERT_TRUE(id.ok());
  constexpr int kCount = 500;  // more than any backend's high-water mark
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(client.transport->Send(*id, std::to_string(i), {}).ok());
  }
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return server.Messages() >= kCount; }));
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(server.events[i].header, std::to_string(i));
}

TEST_P(TransportContract, EmptyAndLargePayloads) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  const Payload large = Pattern(8 << 20, 3);
  ASSERT_TRUE(client.transport->Send(client_end_, "", {}).ok());
  ASSERT_TRUE(client.transport->Send(client_end_, "large", large).ok());
  ASSERT_TRUE(
      client.transport->Send(client_end_, "end", Payload::FromString("")).ok());
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return server.Messages() == 3; }));
  EXPECT_EQ(server.events[0].header, "");
  EXPECT_TRUE(server.events[0].payload.empty());
  ASSERT_EQ(server.events[1].payload.size(), large.size());
  EXPECT_EQ(
      std::memcmp(server.events[1].payload.data(), large.data(), large.size()),
      0);
  EXPECT_TRUE(server.events[2].payload.empty());
}

TEST_P(TransportContract, PayloadsFromAnyAddress) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  const auto bytes =
      std::make_shared<std::string>(Pattern(100000, 1).ToString());
  for (int shift = 0; shift < 9; ++shift) {
    const Payload part(bytes, bytes->data() + shift, 5000 + shift);
    ASSERT_TRUE(client.transport->Send(client_end_, "part", part).ok());
  }
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return server.Messages() == 9; }));
  for (int shift = 0; shift < 9; ++shift) {
    EXPECT_EQ(server.events[shift].payload.ToString(),
              bytes->substr(shift, 5000 + shift));
  }
}

TEST_P(TransportContract, OwnerIsReleasedAfterTheSend) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  for (const size_t size : {10, 5000, 2000000}) {
    auto owner = std::make_shared<std::string>(size, 'x');
    const std::weak_ptr<std::string> watch = owner;
    ASSERT_TRUE(
        client.transport
            ->Send(client_end_, "p", Payload(owner, owner->data(), size))
            .ok());
    owner.reset();
    EXPECT_TRUE(Await({&server, &client}, [&] {
      server.events.clear();
      return watch.expired();
    })) << size;
  }
}

// What lies in a transport's own memory may be lent instead of copied: it is
// kept until the other side has let go of it, also when the connection ends.
TEST_P(TransportContract, PayloadsFromTheTransportsMemory) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  constexpr size_t kSize = 300000;
  for (int round = 0; round < 50; ++round) {
    std::shared_ptr<std::byte> buffer = client.transport->Allocate(kSize);
    if (buffer == nullptr) GTEST_SKIP() << "it has none";
    const std::string bytes = Pattern(kSize, round).ToString();
    std::memcpy(buffer.get(), bytes.data(), kSize);
    const Payload part(buffer, buffer.get() + round, kSize - 100);
    buffer.reset();
    ASSERT_TRUE(client.transport->Send(client_end_, "lent", part).ok());
    ASSERT_TRUE(
        Await({&server, &client}, [&] { return server.Messages() == 1; }));
    EXPECT_EQ(server.events[0].payload.ToString(), part.ToString());
    server.events.clear();
  }
  auto owner = std::make_shared<const std::shared_ptr<std::byte>>(
      client.transport->Allocate(kSize));
  std::byte* const bytes = owner->get();
  std::memset(bytes, 7, kSize);
  const std::weak_ptr<const void> watch = owner;
  const Payload last(std::move(owner), bytes, kSize);
  ASSERT_TRUE(client.transport->Send(client_end_, "l", last).ok());
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return server.Messages() == 1; }));
  client.transport->Close(client_end_);
  Settle({&server, &client});
  EXPECT_EQ(server.events[0].payload.ToString(), last.ToString());
  EXPECT_GT(watch.use_count(), 1);  // the server has it
  server.events.clear();
  EXPECT_TRUE(
      Await({&server, &client}, [&] { return watch.use_count() == 1; }));
}

TEST_P(TransportContract, ReceivedPayloadOutlivesConnectionAndTransport) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  const Payload sent = Pattern(100000, 5);
  ASSERT_TRUE(client.transport->Send(client_end_, "p", sent).ok());
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return server.Messages() == 1; }));
  server.transport->Close(server_end_);
  server.transport.reset();
  EXPECT_EQ(server.events[0].payload.ToString(), sent.ToString());
}

TEST_P(TransportContract, FloodWithASlowReaderNeverBlocksAndLosesNothing) {
  Limits limits;
  limits.max_queued_messages = 50;
  Peer server = Make(limits), client = Make(limits);
  Join(&server, &client);
  const Payload chunk = Pattern(1 << 18, 1);
  int to_server = 0, to_client = 0;
  absl::Status full;
  while (full.ok() && to_server < 100000) {
    full =
        client.transport->Send(client_end_, std::to_string(to_server), chunk);
    to_server += full.ok();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(full))
      << full << " after " << to_server;
  full = absl::OkStatus();
  while (full.ok() && to_client < 100000) {
    full =
        server.transport->Send(server_end_, std::to_string(to_client), chunk);
    to_client += full.ok();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(full))
      << full << " after " << to_client;
  EXPECT_GE(to_server, 50);
  ASSERT_TRUE(Await({&server, &client}, [&] {
    return server.Messages() >= to_server && client.Messages() >= to_client;
  }));
  for (int i = 0; i < to_server; ++i)
    ASSERT_EQ(server.events[i].header, std::to_string(i));
  for (int i = 0; i < to_client; ++i)
    ASSERT_EQ(client.events[i].header, std::to_string(i));
  // There is room again.
  EXPECT_TRUE(client.transport->Send(client_end_, "more", {}).ok());
  ASSERT_TRUE(Await({&server, &client},
                    [&] { return server.Messages() == to_server + 1; }));
}

TEST_P(TransportContract, PollIsBoundedAndFair) {
  Peer server = Make(), busy = Make(), quiet = Make();
  Join(&server, &busy);
  const ConnectionId busy_end = client_end_;
  Join(&server, &quiet);
  for (int i = 0; i < 3000; ++i)
    ASSERT_TRUE(busy.transport->Send(busy_end, "b", {}).ok());
  ASSERT_TRUE(quiet.transport->Send(client_end_, "q", {}).ok());
  const auto quiet_came = [&] {
    return server.Messages() > 0 &&
           testing::Matches(testing::Contains("q"))(server.Headers());
  };
  size_t largest = 0;
  ASSERT_TRUE(Await({&server, &busy, &quiet}, [&] {
    Peer once{std::move(server.transport), {}};
    PollOnce(&once);
    server.transport = std::move(once.transport);
    largest = std::max(largest, once.events.size());
    server.events.insert(server.events.end(), once.events.begin(),
                         once.events.end());
    return quiet_came() && server.Messages() == 3001;
  }));
  EXPECT_LE(largest, 1024u);
}

TEST_P(TransportContract, ConnectionsOfOneClientAreSeparate) {
  Peer server = Make(), client = Make();
  Join(&server, &client);
  const ConnectionId first = client_end_, first_end = server_end_;
  Join(&server, &client);
  ASSERT_NE(first, client_end_);
  ASSERT_NE(first_end, server_end_);
  client.transport->Close(first);
  ASSERT_TRUE(server.transport->Send(server_end_, "second lives", {}).ok());
  ASSERT_TRUE(
      Await({&server, &client}, [&] { return client.Messages() == 1; }));
  EXPECT_EQ(client.events[0].connection, client_end_);
}

TEST_P(TransportContract, WakeEndsAPoll) {
  if (!backend_->real()) GTEST_SKIP() << "no threads in a simulation";
  Peer peer = Make();
  const absl::Time start = absl::Now();
  std::thread waker([&] {
    absl::SleepFor(absl::Milliseconds(30));
    peer.transport->Wake();
  });
  EXPECT_TRUE(peer.transport->Poll(absl::Seconds(20), &peer.events).ok());
  waker.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  // Before the Poll it counts as well; and once.
  peer.transport->Wake();
  EXPECT_TRUE(peer.transport->Poll(absl::Seconds(20), &peer.events).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  const absl::Time again = absl::Now();
  EXPECT_TRUE(peer.transport->Poll(absl::Milliseconds(20), &peer.events).ok());
  EXPECT_GE(absl::Now() - again, absl::Milliseconds(19));
  EXPECT_TRUE(peer.events.empty());
}

TEST_P(TransportContract, ServerAndClientOnTheirOwnThreads) {
  if (!backend_->real()) GTEST_SKIP() << "no threads in a simulation";
  Peer server = Make(), client = Make();
  Join(&server, &client);
  constexpr int kCount = 3000;
  std::thread echo([&] {
    std::vector<Event> events;
    for (int seen = 0; seen < kCount;) {
      events.clear();
      ASSERT_TRUE(server.transport->Poll(absl::Seconds(20), &events).ok());
      ASSERT_FALSE(events.empty());
      for (Event& e : events) {
        ASSERT_TRUE(
            server.transport->Send(e.connection, e.header, std::move(e.payload))
                .ok());
        ++seen;
      }
    }
    absl::Time end =
        absl::Now() + absl::Milliseconds(300);  // send what is queued
    while (absl::Now() < end) PollOnce(&server);
  });
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(client.transport
                    ->Send(client_end_, std::to_string(i), Pattern(i * 3, i))
                    .ok());
  }
  EXPECT_TRUE(Await({&client}, [&] { return client.Messages() == kCount; }));
  echo.join();
  ASSERT_EQ(client.events.size(), size_t{kCount});
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(client.events[i].header, std::to_string(i));
}

}  // namespace
}  // namespace parapet::net
