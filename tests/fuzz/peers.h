#ifndef PARAPET_TESTS_FUZZ_PEERS_H_
#define PARAPET_TESTS_FUZZ_PEERS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/executor.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/memory_disk.h"
#include "common/net/sim_transport.h"
#include "common/rng.h"
#include "gtest/gtest.h"
#include "server/node.h"
#include "tests/fuzz/mutate.h"
#include "worker/client_core.h"

namespace parapet {

// A job of three workers, two servers and 48 parameters in chunks of eight.
struct FuzzJob {
  static constexpr int kServers = 2, kWorkers = 3;
  static constexpr int64_t kChunk = 8, kChunks = 6;

  explicit FuzzJob(const std::string& rule = "mean") {
    job.rule = rule;
    job.max_bad_rounds = 1 << 30;  // who abstains can make many bad
    job.servers = kServers;
    job.workers = kWorkers;
    job.batch = 4;
    job.rounds = 1000000;
    job.connections = 2;
    job.hash_every = 5;
    patience.round_deadline = absl::Milliseconds(50);
    patience.dead_after = absl::Seconds(2);
    patience.ping_every = absl::Milliseconds(200);
    patience.grace = absl::Seconds(20);
  }
  SessionConfig SessionOf(uint32_t worker) const {
    SessionConfig config;
    config.self = {Role::kWorker, worker};
    config.connections = job.connections;
    config.nonce = 50 + worker;
    config.layout_hash = layout.hash();
    config.samples = kSamples;
    config.fingerprint = "cpu";
    config.job = job.ToText();
    config.patience = patience;
    return config;
  }
  static std::string NameOf(int server) {
    return absl::StrCat("server", server);
  }
  static std::vector<std::string> Addresses() {
    std::vector<std::string> addresses;
    for (int s = 0; s < kServers; ++s) {
      addresses.push_back("sim://" + NameOf(s));
    }
    return addresses;
  }

  static constexpr uint64_t kSamples = 1000;
  JobConfig job;
  PatienceConfig patience;
  const Layout layout = *Layout::Create(
      {{"w", {kChunk * kChunks}, {Initializer::Kind::kUniform, 1}}});
  const ShardMap map =
      *ShardMap::Create(kChunk * kChunks, kServers, kChunk, kChunk);
};

// Somebody on the simulated network.
class FuzzPeer {
 public:
  explicit FuzzPeer(std::unique_ptr<net::Transport> transport)
      : transport_(std::move(transport)) {}
  virtual ~FuzzPeer() = default;

  void Drive(absl::Time now) {
    std::vector<net::Event> events;
    if (!transport_->Poll(absl::ZeroDuration(), &events).ok()) return;
    for (net::Event& event : events) Handle(std::move(event), now);
    Tick(now);
  }
  virtual absl::Time NextDeadline() const = 0;

 protected:
  virtual void Handle(net::Event event, absl::Time now) = 0;
  virtual void Tick(absl::Time now) = 0;

  const std::unique_ptr<net::Transport> transport_;
};

// A worker that trains as it should.
class HonestWorker final : public FuzzPeer, ClientObserver {
 public:
  HonestWorker(const FuzzJob& job, uint32_t id,
               std::unique_ptr<net::Transport> transport, absl::Time now)
      : FuzzPeer(std::move(transport)),
        map_(job.map),
        self_(id),
        core_(job.SessionOf(id), job.map, FuzzJob::Addresses(),
              transport_.get(), this, logger_.get(), now) {}

  absl::Time NextDeadline() const override { return core_.NextDeadline(); }
  bool finished() const { return core_.finished(); }
  Code code() const { return code_; }
  const std::string& words() const { return words_; }
  // The last version that it has whole.
  uint64_t version() const { return whole_; }
  uint64_t pushed() const { return pushed_; }

 private:
  void Handle(net::Event event, absl::Time now) override {
    core_.Handle(std::move(event), now);
    Work(now);
  }
  void Tick(absl::Time now) override {
    core_.Tick(now);
    Work(now);
  }

  void OnAdmitted(uint64_t, const std::string&) override {}
  void OnLease(const Lease& lease) override {
    leases_.push_back(lease);
    if (leases_.size() > 20) leases_.erase(leases_.begin());
  }
  void OnVersion(uint64_t version) override {
    version_ = version;
    chunks_.assign(FuzzJob::kChunks, Payload());
    present_ = 0;
  }
  void OnChunk(uint64_t, int64_t chunk, Payload data) override {
    chunks_[static_cast<size_t>(chunk)] = std::move(data);
    if (++present_ == FuzzJob::kChunks) whole_ = version_;
  }
  uint64_t HashOf(uint64_t) override {
    uint64_t sum = 0;
    for (int64_t i = 0; i < FuzzJob::kChunks; ++i) {
      sum += HashLeaves(chunks_[static_cast<size_t>(i)].bytes(),
                        map_.ChunkRange(i).begin, 4, map_.leaf_elements());
    }
    return sum;
  }
  void OnFinish(Code code, const std::string& words) override {
    code_ = code;
    words_ = words;
  }

  bool InRound(uint64_t round) const {
    for (const Lease& lease : leases_) {
      if (round < lease.from || round >= lease.until) continue;
      for (const Member& m : lease.members) {
        if (m.id == self_) return true;
      }
    }
    return false;
  }
  void Work(absl::Time now) {
    if (core_.finished() || present_ < FuzzJob::kChunks) return;
    if (done_ == version_ || !InRound(version_)) return;
    done_ = version_;
    ++pushed_;
    const std::vector<float> gradient(FuzzJob::kChunk, 0.01f);
    const std::string bytes(reinterpret_cast<const char*>(gradient.data()),
                            gradient.size() * 4);
    for (int64_t chunk = FuzzJob::kChunks - 1; chunk >= 0; --chunk) {
      core_.ChunkReady(version_, chunk, 4, Payload::FromString(bytes), now);
    }
    core_.TellLead(RoundDoneMessage{version_, 1, 1, 4, {}}, now);
  }

  const ShardMap map_;
  const uint32_t self_;
  const std::shared_ptr<Logger> logger_ = MakeNullLogger();
  std::vector<Lease> leases_;
  uint64_t version_ = 0, whole_ = 0, pushed_ = 0;
  std::optional<uint64_t> done_;
  std::vector<Payload> chunks_;
  int64_t present_ = 0;
  Code code_ = Code::kOk;
  std::string words_;
  ClientCore core_;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_FUZZ_PEERS_H_
