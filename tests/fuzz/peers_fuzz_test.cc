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
  const auto message =
      Decode(frames.header, Payload::FromString(frames.payload), WireLimits());
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
    ++babbled_;
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
          link,
          WeightsMessage{version, static_cast<uint64_t>(chunk), DType::kFloat32,
                         (version + 1) * 3, Chunk(FuzzJob::kChunk * 4)});
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
    // It goes on slowly, so that some versions become whole.
    const uint64_t version = babbled_ / 500 + mutator_.Below(2);
    const uint64_t chunk = mutator_.Below(FuzzJob::kChunks);
    switch (mutator_.Below(4)) {
      case 0:
        return WeightsMessage{version, chunk, DType::kFloat32, mutator_.Edge(),
                              Chunk(FuzzJob::kChunk * 4)};
      case 1:
        return NeedGradientsMessage{
            version, mutator_.Edge(), {true, mutator_.OneIn(2), true}};
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
  uint64_t babbled_ = 0;
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
    const uint64_t was = world.worker().pushed();
    world.GiveLease(kFar);
    world.GiveVersion(kFar);
    world.Run(absl::Milliseconds(100));
    EXPECT_EQ(world.worker().version(), kFar);
    EXPECT_EQ(world.worker().pushed(), was + 1);
    pushed += world.worker().pushed();
  }
  EXPECT_GT(pushed, 0u);
}

}  // namespace
}  // namespace parapet
