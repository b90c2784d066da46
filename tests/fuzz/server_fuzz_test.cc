// Servers with an evil worker among honest ones, on a simulated network: nobody
// crashes, nobody hangs, memory stays bounded, and who behaves goes on.

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/memory_disk.h"
#include "gtest/gtest.h"
#include "tests/fuzz/evil_worker.h"
#include "tests/fuzz/peers.h"

namespace parapet {
namespace {

// Bytes in use; 0 with a sanitizer, which has an allocator of its own.
size_t BytesInUse() { return mallinfo2().uordblks; }

// Everybody on one network.
class World {
 public:
  World(const std::string& rule, uint64_t seed)
      : job_(rule), net_(Options(seed)) {
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

class ServerFuzzTest : public testing::TestWithParam<const char*> {};

TEST_P(ServerFuzzTest, ServersAndHonestWorkersGoOnBesideAnEvilOne) {
  uint64_t refusals = 0;
  for (uint64_t seed = 1; seed <= 4 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(GetParam(), seed);
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
  EXPECT_GT(refusals, 700u);
}

// Without an exchange, and with one.
INSTANTIATE_TEST_SUITE_P(Rules, ServerFuzzTest,
                         testing::Values("mean", "median",
                                         "nnm + centered_clip(tau=0.1)"),
                         [](const auto& test) {
                           return absl::StrCat("Rule", test.index);
                         });

}  // namespace
}  // namespace parapet
