// Servers and workers among hostile peers, on a simulated network: nobody
// crashes, nobody hangs, memory stays bounded, and who behaves goes on.

#include <malloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fuzz/peers.h"

namespace parapet {
namespace {

// Bytes in use; 0 with a sanitizer, which has an allocator of its own.
size_t BytesInUse() { return mallinfo2().uordblks; }

// Everybody on one network.
class World {
 public:
  explicit World(uint64_t seed) : net_(Options(seed)) {
    EXPECT_TRUE(disk_.MakeDir("snap").ok());
    for (int s = 0; s < FuzzJob::kServers; ++s) {
      servers_.push_back(std::make_unique<FuzzServer>(
          job_, s, &disk_, net_.MakeNode(FuzzJob::NameOf(s)), net_.Now()));
    }
    for (uint32_t w = 0; w < 2; ++w) {
      workers_.push_back(std::make_unique<HonestWorker>(
          job_, w, net_.MakeNode(absl::StrCat("worker", w)), net_.Now()));
    }
    evil_ = std::make_unique<EvilWorker>(job_, 2, seed, net_.MakeNode("evil"));
  }

  void Run(absl::Duration duration) {
    const absl::Time until = net_.Now() + duration;
    while (net_.Now() < until) {
      for (FuzzPeer* peer : Peers()) peer->Drive(net_.Now());
      absl::Time next = std::min(until, net_.NextEventTime());
      for (FuzzPeer* peer : Peers()) {
        next = std::min(next, peer->NextDeadline());
      }
      net_.RunUntil(std::max(next, net_.Now() + absl::Microseconds(50)));
    }
  }
  void EndEvil() { evil_.reset(); }

  HonestWorker& worker(size_t w) { return *workers_[w]; }
  ServerNode& server(size_t s) { return servers_[s]->node(); }
  EvilWorker& evil() { return *evil_; }
  absl::Time now() const { return net_.Now(); }

 private:
  static net::SimOptions Options(uint64_t seed) {
    net::SimOptions options;
    options.seed = seed;
    return options;
  }
  std::vector<FuzzPeer*> Peers() {
    std::vector<FuzzPeer*> peers;
    for (auto& server : servers_) {
      if (!server->node().outcome()) peers.push_back(server.get());
    }
    for (auto& worker : workers_) peers.push_back(worker.get());
    if (evil_ != nullptr) peers.push_back(evil_.get());
    return peers;
  }

  const FuzzJob job_;
  MemoryDisk disk_;
  net::SimNetwork net_;
  std::vector<std::unique_ptr<FuzzServer>> servers_;
  std::vector<std::unique_ptr<HonestWorker>> workers_;
  std::unique_ptr<EvilWorker> evil_;
};

TEST(PeersFuzzTest, ServersAndHonestWorkersGoOnBesideAnEvilOne) {
  uint64_t refusals = 0;
  for (uint64_t seed = 1; seed <= 6 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed);
    world.Run(absl::Milliseconds(500));
    EXPECT_TRUE(world.evil().admitted());
    const size_t before = BytesInUse();
    uint64_t version = world.worker(0).version();
    for (int i = 0; i < 3; ++i) {
      world.Run(absl::Seconds(1));
      // A round in which the evil one keeps silent takes 50 ms and some.
      for (size_t w : {0, 1}) {
        EXPECT_GT(world.worker(w).version(), version + 10);
        EXPECT_FALSE(world.worker(w).finished()) << world.worker(w).words();
      }
      version = world.worker(0).version();
    }
    for (size_t s : {0, 1}) {
      ASSERT_FALSE(world.server(s).outcome())
          << world.server(s).outcome()->words;
      for (const auto& [code, count] : world.server(s).refusals()) {
        refusals += count;
      }
    }
    EXPECT_GT(world.evil().sent(), 3000u);
    EXPECT_LT(BytesInUse(), before + (8u << 20));

    // And in the end all is well.
    world.EndEvil();
    world.Run(absl::Seconds(3));
    world.server(0).RequestStop("the test", world.now());
    world.Run(absl::Seconds(5));
    for (size_t s : {0, 1}) {
      ASSERT_TRUE(world.server(s).outcome());
      EXPECT_EQ(world.server(s).outcome()->code, Code::kOk)
          << world.server(s).outcome()->words;
    }
    for (size_t w : {0, 1}) {
      EXPECT_TRUE(world.worker(w).finished());
      EXPECT_EQ(world.worker(w).code(), Code::kOk) << world.worker(w).words();
    }
  }
  EXPECT_GT(refusals, 1000u);
}

// ---- A hostile server -------------------------------------------------------

// Listens and answers hellos; otherwise a test says what it says.
class EvilServer {
 public:
  EvilServer(const std::string& name, net::SimNetwork* net)
      : transport_(net->MakeNode(name)) {
    EXPECT_TRUE(transport_->Listen("sim://" + name).ok());
  }
  void Drive() {
    std::vector<net::Event> events;
    if (!transport_->Poll(absl::ZeroDuration(), &events).ok()) return;
    for (const net::Event& event : events) {
      if (event.kind == net::Event::Kind::kDown) {
        std::erase_if(links_, [&](const auto& link) {
          return link.second == event.connection;
        });
      }
      if (event.kind != net::Event::Kind::kMessage) continue;
      const auto message = Decode(event.header, event.payload, WireLimits());
      if (!message.ok()) continue;
      if (auto* hello = std::get_if<HelloMessage>(&message->body)) {
        links_[hello->link] = event.connection;
        Say(hello->link, WelcomeMessage{0, ""});
        if (hello->link == 0) continue;
        Say(hello->link, NeedGradientsMessage{0, 3, {true, true, true}});
      }
    }
  }
  void Say(uint16_t link, Body body) {
    SayFrames(link, FramesOf({kTerm, kToken, std::move(body)}));
  }
  void SayFrames(uint16_t link, const Frames& frames) {
    auto it = links_.find(link);
    if (it == links_.end()) return;
    (void)transport_->Send(it->second, frames.header,
                           Payload::FromString(frames.payload));
  }
  static constexpr uint64_t kTerm = 4, kToken = 44;

 private:
  const std::unique_ptr<net::Transport> transport_;
  std::map<uint16_t, net::ConnectionId> links_;
};

constexpr uint64_t kFar = 1000000;

// Goodbyes end a worker, and versions beyond all others leave it with nothing
// to wait for: a server may say that. Everything else must pass.
bool EndsIt(const Frames& frames) {
  const auto message = Decode(
      frames.header, Payload::FromString(frames.payload), WireLimits());
  if (!message.ok()) return false;
  const auto* weights = std::get_if<WeightsMessage>(&message->body);
  return std::holds_alternative<ByeMessage>(message->body) ||
         std::holds_alternative<RefuseMessage>(message->body) ||
         (weights != nullptr && weights->version >= kFar);
}

class ClientWorld {
 public:
  explicit ClientWorld(uint64_t seed)
      : net_(net::SimOptions()),
        mutator_(seed),
        servers_{{FuzzJob::NameOf(0), &net_}, {FuzzJob::NameOf(1), &net_}},
        worker_(job_, 0, net_.MakeNode("worker0"), net_.Now()) {}

  void Run(absl::Duration duration) {
    const absl::Time until = net_.Now() + duration;
    while (net_.Now() < until) {
      for (EvilServer& server : servers_) server.Drive();
      worker_.Drive(net_.Now());
      net_.RunUntil(net_.Now() + absl::Milliseconds(1));
    }
  }
  void Babble() {
    EvilServer& server = servers_[mutator_.Below(2)];
    const Body body = mutator_.OneIn(2) ? mutator_.AnyBody() : Plausible();
    Frames frames = FramesOf({EvilServer::kTerm, EvilServer::kToken, body});
    if (mutator_.OneIn(2)) frames = mutator_.Spoil(std::move(frames));
    if (!EndsIt(frames)) {
      server.SayFrames(static_cast<uint16_t>(mutator_.Below(3)), frames);
    }
  }
  void GiveVersion(uint64_t version) {
    for (int64_t chunk = 0; chunk < FuzzJob::kChunks; ++chunk) {
      const auto link = static_cast<uint16_t>(1 + chunk % 2);
      servers_[static_cast<size_t>(chunk % 2)].Say(
          link, WeightsMessage{version, static_cast<uint64_t>(chunk),
                               DType::kFloat32, (version + 1) * 3,
                               Chunk(FuzzJob::kChunk * 4)});
    }
  }
  void GiveLease(uint64_t round) {
    Lease lease{EvilServer::kTerm, round, round + 1, {{0, 44}}, {}, {}, {}};
    lease.facts.resize(1);
    servers_[0].Say(0, LeaseMessage{std::move(lease)});
  }
  HonestWorker& worker() { return worker_; }

 private:
  Body Plausible() {
    const uint64_t version = mutator_.Below(40);
    const uint64_t chunk = mutator_.Below(FuzzJob::kChunks);
    switch (mutator_.Below(4)) {
      case 0:
        return WeightsMessage{version, chunk, DType::kFloat32, mutator_.Edge(),
                              Chunk(FuzzJob::kChunk * 4)};
      case 1:
        return NeedGradientsMessage{version, mutator_.Edge(),
                                    {true, mutator_.OneIn(2), true}};
      case 2:
        return AckMessage{version, chunk, AckStatus::kLate, mutator_.Edge()};
      default: {
        LeaseMessage lease{SomeLease()};
        lease.lease.members = {{0, EvilServer::kToken}};
        lease.lease.from = version;
        lease.lease.until = version + 2;
        for (Mark& mark : lease.lease.marks) mark.version = version + 1;
        return lease;
      }
    }
  }

  const FuzzJob job_;
  net::SimNetwork net_;
  Mutator mutator_;
  EvilServer servers_[2];
  HonestWorker worker_;
};

TEST(PeersFuzzTest, AWorkerSurvivesWhatServersSay) {
  uint64_t pushed = 0;
  for (uint64_t seed = 1; seed <= 8 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ClientWorld world(seed);
    world.Run(absl::Milliseconds(100));
    for (int i = 0; i < 300; ++i) {
      for (int j = 0; j < 5; ++j) world.Babble();
      world.Run(absl::Milliseconds(2));
    }
    const size_t before = BytesInUse();
    for (int i = 0; i < 700; ++i) {
      for (int j = 0; j < 5; ++j) world.Babble();
      world.Run(absl::Milliseconds(2));
    }
    EXPECT_LT(BytesInUse(), before + (4u << 20));
    ASSERT_FALSE(world.worker().finished()) << world.worker().words();
    // It still takes a version, and works with it.
    pushed += world.worker().pushed();
    const uint64_t was = world.worker().pushed();
    world.GiveLease(kFar);
    world.GiveVersion(kFar);
    world.Run(absl::Milliseconds(100));
    EXPECT_EQ(world.worker().version(), kFar);
    EXPECT_EQ(world.worker().pushed(), was + 1);
  }
  EXPECT_GT(pushed, 0u);
}

}  // namespace
}  // namespace parapet
