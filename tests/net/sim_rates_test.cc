// The simulated network's link rates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/net/sim_transport.h"
#include "common/rng.h"

namespace parapet::net {
namespace {

using Kind = Event::Kind;
using ::testing::ElementsAre;

constexpr absl::Duration kDelay = absl::Milliseconds(100);

SimOptions FixedDelay(absl::Duration delay) {
  SimOptions options;
  options.min_delay = options.max_delay = delay;
  return options;
}

// A message without a header.
Payload Bytes(size_t size) {
  return Payload::FromString(std::string(size, 'x'));
}

// What came, when: in milliseconds after the watch began.
struct Arrival {
  int64_t at = 0;
  std::string node;
  ConnectionId connection = 0;
  Event event;
};

// Nodes with names of one letter; "s" listens.
class SimRatesTest : public testing::Test {
 protected:
  SimRatesTest() : network_(FixedDelay(kDelay)) { Start("s"); }

  void Start(const std::string& name) {
    nodes_[name] = network_.MakeNode(name);
    ASSERT_TRUE(nodes_[name]->Listen("sim://" + name).ok());
  }
  // Opens a connection that both ends know of; returns the ids of both.
  std::pair<ConnectionId, ConnectionId> Join(const std::string& name) {
    if (!nodes_.contains(name)) Start(name);
    const ConnectionId mine = *nodes_[name]->Connect("sim://s");
    EXPECT_TRUE(nodes_[name]->Send(mine, "", {}).ok());
    const std::vector<Arrival> heard = Watch();
    for (const Arrival& a : heard) {
      if (a.node == "s") return {mine, a.connection};
    }
    ADD_FAILURE() << name << " was not heard";
    return {};
  }
  // Until nothing is under way.
  std::vector<Arrival> Watch() {
    std::vector<Arrival> arrivals;
    const absl::Time began = network_.Now();
    while (network_.Step()) {
      for (const std::string& name : network_.ReadyNodes()) {
        std::vector<Event> events;
        EXPECT_TRUE(nodes_[name]->Poll(absl::ZeroDuration(), &events).ok());
        for (Event& e : events)
          arrivals.push_back({absl::ToInt64Milliseconds(network_.Now() - began),
                              name, e.connection, std::move(e)});
      }
    }
    return arrivals;
  }
  std::vector<int64_t> Times(const std::vector<Arrival>& arrivals,
                             const std::string& node) {
    std::vector<int64_t> times;
    for (const Arrival& a : arrivals) {
      if (a.node == node) times.push_back(a.at);
    }
    return times;
  }
  void Send(const std::string& from, ConnectionId to, size_t bytes) {
    ASSERT_TRUE(nodes_[from]->Send(to, "", Bytes(bytes)).ok());
  }

  SimNetwork network_;
  std::map<std::string, std::unique_ptr<Transport>> nodes_;
};

TEST_F(SimRatesTest, AMessageTakesItsBytesTwiceAndItsDelay) {
  const auto [to, back] = Join("a");
  Send("a", to, 1000);
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(100));
  network_.SetRates("a", {.out = 1000});
  Send("a", to, 1000);
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(1100));
  network_.SetRates("s", {.in = 2000});
  Send("a", to, 1000);
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(1600));
  // Headers count.
  ASSERT_TRUE(nodes_["a"]->Send(to, std::string(500, 'h'), Bytes(500)).ok());
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(1600));
  // The way back was never slowed down.
  Send("s", back, 1000);
  EXPECT_THAT(Times(Watch(), "a"), ElementsAre(100));
}

TEST_F(SimRatesTest, MessagesFollowEachOtherThroughBothLinks) {
  const auto [to, back] = Join("a");
  network_.SetRates("a", {.out = 1000});
  network_.SetRates("s", {.in = 500});
  // The slower link bounds: 1 s for the first, then 2 s each.
  for (int i = 0; i < 3; ++i) Send("a", to, 1000);
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(3100, 5100, 7100));
  // Bytes that come while the link is at rest wait for nobody.
  network_.SetRates("s", {.in = 4000});
  for (int i = 0; i < 3; ++i) Send("a", to, 1000);
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(1350, 2350, 3350));
}

TEST_F(SimRatesTest, ManySendersShareTheReceiversLink) {
  network_.SetRates("s", {.in = 1000});
  std::vector<ConnectionId> to;
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  for (const std::string& name : names) {
    network_.SetRates(name, {.out = 1000});
    to.push_back(Join(name).first);
  }
  for (int i = 0; i < 2; ++i) {
    for (size_t k = 0; k < names.size(); ++k) Send(names[k], to[k], 1000);
  }
  // All reach it at once: 1 s out, the delay, and then one after the other.
  const std::vector<Arrival> arrivals = Watch();
  EXPECT_THAT(Times(arrivals, "s"),
              ElementsAre(2100, 3100, 4100, 5100, 6100, 7100, 8100, 9100));
  // Nobody is served twice before everybody was once.
  std::map<ConnectionId, int> first;
  for (int i = 0; i < 4; ++i) ++first[arrivals[i].connection];
  EXPECT_EQ(first.size(), names.size());
}

TEST_F(SimRatesTest, ASenderSharesItsLinkAmongReceivers) {
  const auto [one, at_a] = Join("a");
  const auto [two, at_b] = Join("b");
  network_.SetRates("s", {.out = 1000});
  Send("s", at_a, 1000);
  Send("s", at_b, 1000);
  Send("s", at_a, 1000);
  const std::vector<Arrival> arrivals = Watch();
  EXPECT_THAT(Times(arrivals, "a"), ElementsAre(1100, 3100));
  EXPECT_THAT(Times(arrivals, "b"), ElementsAre(2100));
}

TEST_F(SimRatesTest, DirectionsDoNotDisturbEachOther) {
  const SimRates slow{.out = 1000, .in = 1000};
  network_.SetRates("a", slow);
  network_.SetRates("s", slow);
  const auto [to, back] = Join("a");
  for (int i = 0; i < 3; ++i) {
    Send("a", to, 1000);
    Send("s", back, 1000);
  }
  const std::vector<Arrival> arrivals = Watch();
  EXPECT_THAT(Times(arrivals, "s"), ElementsAre(2100, 3100, 4100));
  EXPECT_THAT(Times(arrivals, "a"), ElementsAre(2100, 3100, 4100));
}

TEST_F(SimRatesTest, RatesOfANameHoldForItsNextLife) {
  network_.SetRates("a", {.out = 1000});
  Join("a");
  network_.CrashNode("a");
  Watch();
  auto old = std::move(nodes_["a"]);
  nodes_.erase("a");
  const auto [to, back] = Join("a");
  Send("a", to, 1000);
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(1100));
}

// A partition lets nothing onto the links; what is on them already comes
// through.
TEST_F(SimRatesTest, APartitionHoldsWhatIsNotThereYet) {
  network_.SetRates("s", {.in = 1000});
  const auto [to, back] = Join("a");
  Send("a", to, 1000);
  network_.RunUntil(network_.Now() + absl::Milliseconds(600));
  Send("a", to, 1000);
  network_.Partition("a", "s", SimNetwork::Cut::kHold);
  network_.RunUntil(network_.Now() + absl::Seconds(10));
  std::vector<Event> events;
  ASSERT_TRUE(nodes_["s"]->Poll(absl::ZeroDuration(), &events).ok());
  EXPECT_EQ(events.size(), 1u);
  network_.Heal("a", "s");
  EXPECT_THAT(Times(Watch(), "s"), ElementsAre(1100));
}

// Of messages that a slow link takes in one by one, a prefix comes, then the
// word of the loss.
TEST_F(SimRatesTest, WhatIsKeptOfALostConnectionComesBeforeItsLoss) {
  network_.SetRates("s", {.in = 1000});
  std::map<int, int> kept;
  for (int run = 0; run < 50; ++run) {
    const auto [to, back] = Join("a");
    for (int i = 0; i < 5; ++i)
      ASSERT_TRUE(nodes_["a"]->Send(to, std::to_string(i), Bytes(999)).ok());
    network_.RunUntil(network_.Now() + absl::Milliseconds(150));
    ASSERT_EQ(network_.BreakConnections("a", "s"), 1);
    int count = 0;
    bool down = false;
    for (const Arrival& a : Watch()) {
      if (a.node != "s") continue;
      EXPECT_FALSE(down);
      down = a.event.kind == Kind::kDown;
      if (!down) {
        EXPECT_EQ(a.event.header, std::to_string(count++));
      }
    }
    ++kept[count];
    if (!down) nodes_["s"]->Close(back);
  }
  EXPECT_GT(kept.size(), 3u);
}

}  // namespace
}  // namespace parapet::net
