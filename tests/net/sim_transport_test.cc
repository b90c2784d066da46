#include "common/net/sim_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rng.h"

namespace parapet::net {
namespace {

using Kind = Event::Kind;

std::vector<Event> PollAll(Transport* node) {
  std::vector<Event> events;
  size_t before = 0;
  do {
    before = events.size();
    EXPECT_TRUE(node->Poll(absl::ZeroDuration(), &events).ok());
  } while (events.size() > before);
  return events;
}

std::string Show(const Event& e) {
  return absl::StrCat(static_cast<int>(e.kind), ":", e.connection, ":",
                      e.header);
}

// A connection between two nodes, which both have heard of.
class SimTransportTest : public testing::Test {
 protected:
  explicit SimTransportTest(const SimOptions& options = {})
      : network_(options) {}

  void SetUp() override {
    server_ = network_.MakeNode("server");
    client_ = network_.MakeNode("client");
    ASSERT_TRUE(server_->Listen("sim://server").ok());
    Join();
  }
  void Join() {
    client_end_ = *client_->Connect("sim://server");
    ASSERT_TRUE(client_->Send(client_end_, "hello", {}).ok());
    Pass(absl::Seconds(1));
    const std::vector<Event> heard = PollAll(server_.get());
    ASSERT_EQ(heard.size(), 1u);
    server_end_ = heard[0].connection;
    ASSERT_EQ(PollAll(client_.get()).size(), 1u);
  }
  void Pass(absl::Duration time) { network_.RunUntil(network_.Now() + time); }

  void SendNumbered(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(client_->Send(client_end_, std::to_string(i), {}).ok());
      ASSERT_TRUE(server_->Send(server_end_, std::to_string(i), {}).ok());
    }
  }
  // Numbers from 0 on, then perhaps a kDown; returns how many.
  static int CheckPrefix(const std::vector<Event>& events) {
    int count = 0;
    for (const Event& e : events) {
      if (e.kind == Kind::kDown) {
        EXPECT_EQ(&e, &events.back());
      } else {
        EXPECT_EQ(e.header, std::to_string(count++));
      }
    }
    return count;
  }

  SimNetwork network_;
  std::unique_ptr<Transport> server_, client_;
  ConnectionId client_end_ = 0, server_end_ = 0;
};

TEST_F(SimTransportTest, PollNeverWaitsAndTimePassesOnlyWhenAsked) {
  ASSERT_TRUE(client_->Send(client_end_, "x", {}).ok());
  EXPECT_TRUE(PollAll(server_.get()).empty());
  EXPECT_TRUE(network_.ReadyNodes().empty());
  const absl::Time due = network_.NextEventTime();
  EXPECT_GE(due, network_.Now() + absl::Microseconds(50));
  EXPECT_LE(due, network_.Now() + absl::Milliseconds(2));
  EXPECT_TRUE(network_.Step());
  EXPECT_EQ(network_.Now(), due);
  EXPECT_THAT(network_.ReadyNodes(), testing::ElementsAre("server"));
  EXPECT_EQ(PollAll(server_.get()).size(), 1u);
  EXPECT_TRUE(network_.ReadyNodes().empty());
}

TEST_F(SimTransportTest, WakeMakesReady) {
  client_->Wake();
  EXPECT_THAT(network_.ReadyNodes(), testing::ElementsAre("client"));
  PollAll(client_.get());
  EXPECT_TRUE(network_.ReadyNodes().empty());
}

TEST_F(SimTransportTest, ConnectionsOvertakeEachOther) {
  const ConnectionId second = *client_->Connect("sim://server");
  Pass(absl::Seconds(1));
  int overtaken = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client_->Send(client_end_, "first", {}).ok());
    ASSERT_TRUE(client_->Send(second, "second", {}).ok());
    Pass(absl::Seconds(1));
    overtaken += PollAll(server_.get())[0].header == "second";
  }
  EXPECT_GT(overtaken, 60);
  EXPECT_LT(overtaken, 140);
}

TEST_F(SimTransportTest, BreakLosesARandomTail) {
  std::map<int, int> delivered;
  bool told = false, untold = false;
  for (int run = 0; run < 100; ++run) {
    SendNumbered(10);
    EXPECT_EQ(network_.BreakConnections("client", "server"), 1);
    EXPECT_EQ(network_.BreakConnections("client", "server"), 0);
    Pass(absl::Seconds(2));
    const std::vector<Event> at_client = PollAll(client_.get()),
                             at_server = PollAll(server_.get());
    ++delivered[CheckPrefix(at_client)];
    CheckPrefix(at_server);
    EXPECT_EQ(at_client.back().kind,
              Kind::kDown);  // the connecting side always learns
    const bool knows =
        !at_server.empty() && at_server.back().kind == Kind::kDown;
    (knows ? told : untold) = true;
    // The accepting side learns by its sends, at the latest.
    if (!knows) {
      (void)server_->Send(server_end_, "a", {});
      Pass(absl::Seconds(2));
      EXPECT_EQ(PollAll(server_.get()).back().kind, Kind::kDown);
    }
    EXPECT_TRUE(absl::IsNotFound(server_->Send(server_end_, "b", {})));
    EXPECT_TRUE(absl::IsNotFound(client_->Send(client_end_, "b", {})));
    Join();
  }
  EXPECT_TRUE(told && untold);
  EXPECT_GT(delivered.size(), 5u);
}

TEST_F(SimTransportTest, PartitionHoldsEverythingInOrder) {
  SendNumbered(5);
  network_.Partition("server", "client", SimNetwork::Cut::kHold);
  Pass(absl::Seconds(3));
  EXPECT_TRUE(PollAll(server_.get()).empty());
  EXPECT_TRUE(PollAll(client_.get()).empty());
  network_.Heal("client", "server");
  ASSERT_TRUE(client_->Send(client_end_, "5", {}).ok());
  Pass(absl::Seconds(1));
  EXPECT_EQ(CheckPrefix(PollAll(server_.get())), 6);
  EXPECT_EQ(CheckPrefix(PollAll(client_.get())), 5);
}

TEST_F(SimTransportTest, ConnectThroughAPartitionGoesOnAfterHealOrTimesOut) {
  network_.Partition("server", "client", SimNetwork::Cut::kHold);
  const ConnectionId healed = *client_->Connect("sim://server");
  ASSERT_TRUE(client_->Send(healed, "0", {}).ok());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(PollAll(client_.get()).empty());
  network_.HealAll();
  Pass(absl::Seconds(1));
  EXPECT_EQ(CheckPrefix(PollAll(server_.get())), 1);
  EXPECT_EQ(PollAll(client_.get()).at(0).kind, Kind::kUp);

  network_.Partition("server", "client", SimNetwork::Cut::kHold);
  const ConnectionId late = *client_->Connect("sim://server");
  Pass(absl::Seconds(10));
  const std::vector<Event> events = PollAll(client_.get());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kDown);
  EXPECT_EQ(events[0].connection, late);
  network_.HealAll();
  Pass(absl::Seconds(1));
  EXPECT_TRUE(PollAll(server_.get()).empty());
}

TEST_F(SimTransportTest,
       BreakingPartitionIsDownForTheConnectingSideWhileItLasts) {
  SendNumbered(3);
  network_.Partition("server", "client", SimNetwork::Cut::kBreak);
  Pass(absl::Seconds(2));
  const std::vector<Event> events = PollAll(client_.get());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kDown);
  network_.HealAll();
  PollAll(server_.get());
  Join();
}

class SimLoudCrashTest : public SimTransportTest {
 protected:
  SimLoudCrashTest()
      : SimTransportTest([] {
          SimOptions options;
          options.silent_crash = 0;
          return options;
        }()) {}
};
class SimSilentCrashTest : public SimTransportTest {
 protected:
  SimSilentCrashTest()
      : SimTransportTest([] {
          SimOptions options;
          options.silent_crash = 1;
          return options;
        }()) {}
};

TEST_F(SimLoudCrashTest, PeersLearnAndTheNameIsFree) {
  network_.CrashNode("server");
  std::vector<Event> events;
  EXPECT_TRUE(absl::IsAborted(server_->Poll(absl::ZeroDuration(), &events)));
  EXPECT_TRUE(absl::IsAborted(server_->Send(server_end_, "x", {})));
  EXPECT_TRUE(absl::IsAborted(server_->Connect("sim://x").status()));
  Pass(absl::Seconds(2));
  EXPECT_EQ(PollAll(client_.get()).at(0).kind, Kind::kDown);
  auto old = std::move(server_);
  server_ = network_.MakeNode("server");
  ASSERT_TRUE(server_->Listen("sim://server").ok());
  old.reset();  // leaves its successor alone
  Join();
}

TEST_F(SimSilentCrashTest, PeersAreNeverToldAndTheirQueueFills) {
  network_.CrashNode("server");
  Pass(absl::Hours(1));
  EXPECT_TRUE(PollAll(client_.get()).empty());
  absl::Status s;
  int64_t sent = 0;
  for (; s.ok(); ++sent) s = client_->Send(client_end_, "x", {});
  EXPECT_TRUE(absl::IsResourceExhausted(s));
  EXPECT_EQ(sent - 1, static_cast<int64_t>(Limits().max_queued_messages));
  client_->Close(client_end_);
  EXPECT_TRUE(PollAll(client_.get()).empty());
}

TEST_F(SimTransportTest, ClientThatLeavesUnheardTakesNoRoom) {
  auto narrow = network_.MakeNode("narrow", [] {
    Limits limits;
    limits.max_connections = 1;
    return limits;
  }());
  ASSERT_TRUE(narrow->Listen("sim://narrow").ok());
  for (int i = 0; i < 20; ++i) {
    const ConnectionId id = *client_->Connect("sim://narrow");
    Pass(absl::Seconds(1));
    EXPECT_EQ(PollAll(client_.get()).at(0).kind, Kind::kUp) << i;
    client_->Close(id);
    Pass(absl::Seconds(1));
  }
  EXPECT_TRUE(PollAll(narrow.get()).empty());
}

// Many nodes that connect, send, close, crash and start again under faults.
// Checks the contract from outside, and gives a trace to compare.
class Soak {
 public:
  explicit Soak(uint64_t seed, const SimRates& rates = {})
      : random_(seed), network_(OptionsFor(seed)) {
    for (int i = 0; i < kNodes; ++i) network_.SetRates(Name(i), rates);
    for (int i = 0; i < kNodes; ++i) Start(i);
  }

  std::string Run(int actions) {
    for (int i = 0; i < actions; ++i) {
      Act();
      network_.RunUntil(network_.Now() +
                        absl::Microseconds(random_.Below(500)));
      for (const std::string& name : network_.ReadyNodes()) Read(name);
    }
    network_.HealAll();
    network_.RunUntil(network_.Now() + absl::Hours(1));
    for (const std::string& name : network_.ReadyNodes()) Read(name);
    return trace_;
  }
  int messages() const { return messages_; }
  int downs() const { return downs_; }

 private:
  static constexpr int kNodes = 25;
  struct Node {
    std::unique_ptr<Transport> transport;
    std::vector<ConnectionId> open;
    std::map<ConnectionId, uint64_t>
        next;  // number expected on each connection
    std::map<ConnectionId, std::string> sender;
    std::map<ConnectionId, uint64_t> sent;
  };

  static SimOptions OptionsFor(uint64_t seed) {
    SimOptions options;
    options.seed = seed;
    return options;
  }
  static std::string Name(int i) { return absl::StrCat("n", i); }

  void Start(int i) {
    Node& node = nodes_[Name(i)];
    node = Node();
    node.transport = network_.MakeNode(Name(i));
    ASSERT_TRUE(node.transport->Listen("sim://" + Name(i)).ok());
  }

  void Act() {
    const int i = static_cast<int>(random_.Below(kNodes)),
              j = static_cast<int>(random_.Below(kNodes));
    Node& node = nodes_[Name(i)];
    const uint64_t dice = random_.Below(1000);
    if (dice < 100) {
      node.open.push_back(*node.transport->Connect("sim://" + Name(j)));
    } else if (dice < 950) {
      SendOne(&node, i);
    } else if (dice < 965 && !node.open.empty()) {
      const size_t k = random_.Below(node.open.size());
      node.transport->Close(node.open[k]);
      closed_.insert({Name(i), node.open[k]});
      node.open.erase(node.open.begin() + static_cast<int64_t>(k));
    } else if (dice < 975) {
      network_.BreakRandomConnection();
    } else if (dice < 980) {
      network_.Partition(
          Name(i), Name(j),
          dice % 2 ? SimNetwork::Cut::kHold : SimNetwork::Cut::kBreak);
    } else if (dice < 990) {
      network_.HealAll();
    } else if (dice < 994) {
      network_.CrashNode(Name(i));
      Start(i);
    }
  }

  void SendOne(Node* node, int i) {
    if (node->open.empty()) return;
    const ConnectionId id = node->open[random_.Below(node->open.size())];
    uint64_t& number = node->sent[id];
    const std::string header = absl::StrCat(i, "/", id, "/", number);
    const absl::Status s =
        node->transport->Send(id, header, Payload::FromString(header));
    EXPECT_TRUE(s.ok() || absl::IsNotFound(s)) << s;
    if (s.ok()) ++number;
  }

  void Read(const std::string& name) {
    Node& node = nodes_[name];
    for (const Event& e : PollAll(node.transport.get())) {
      absl::StrAppend(&trace_, name, " ", Show(e), "\n");
      EXPECT_FALSE(closed_.contains({name, e.connection})) << Show(e);
      if (e.kind == Kind::kDown) {
        ++downs_;
        std::erase(node.open, e.connection);
        closed_.insert({name, e.connection});
      } else if (e.kind == Kind::kMessage) {
        Check(name, &node, e);
      }
    }
  }

  void Check(const std::string& name, Node* node, const Event& e) {
    ++messages_;
    EXPECT_EQ(e.payload.ToString(), e.header);
    const size_t slash = e.header.rfind('/');
    const std::string sender = e.header.substr(0, slash);
    uint64_t number = 0;
    ASSERT_TRUE(absl::SimpleAtoi(e.header.substr(slash + 1), &number));
    const auto [known, first] = node->sender.emplace(e.connection, sender);
    EXPECT_EQ(known->second, sender);
    EXPECT_EQ(number, node->next[e.connection]++) << name << " " << Show(e);
    if (first && std::find(node->open.begin(), node->open.end(),
                           e.connection) == node->open.end()) {
      node->open.push_back(e.connection);  // accepted
    }
  }

  Random random_;
  SimNetwork network_;
  std::map<std::string, Node> nodes_;
  std::set<std::pair<std::string, ConnectionId>> closed_;
  std::string trace_;
  int messages_ = 0, downs_ = 0;
};

TEST(SimSoakTest, KeepsTheContractUnderFaults) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Soak soak(seed);
    soak.Run(5000);
    EXPECT_GT(soak.messages(), 1000);
    EXPECT_GT(soak.downs(), 100);
  }
}

// A message takes about 2 ms on each link, and a node sends one every 7 ms.
TEST(SimSoakTest, KeepsTheContractOnSlowLinks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Soak soak(seed, {.out = 1e4, .in = 1e4});
    soak.Run(5000);
    EXPECT_GT(soak.messages(), 1000);
    EXPECT_GT(soak.downs(), 100);
  }
  EXPECT_EQ(Soak(7, {.out = 1e4, .in = 2e4}).Run(3000),
            Soak(7, {.out = 1e4, .in = 2e4}).Run(3000));
}

TEST(SimSoakTest, SameSeedSameTrace) {
  const std::string first = Soak(7).Run(3000);
  EXPECT_EQ(first, Soak(7).Run(3000));
  EXPECT_NE(first, Soak(8).Run(3000));
}

}  // namespace
}  // namespace parapet::net
