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

  FuzzJob() {
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

class FuzzServer final : public FuzzPeer {
 public:
  FuzzServer(const FuzzJob& job, int index, Disk* disk,
             std::unique_ptr<net::Transport> transport, absl::Time now)
      : FuzzPeer(std::move(transport)), random_(9, index) {
    ServerNodeConfig config;
    config.index = index;
    config.listen = FuzzJob::Addresses()[static_cast<size_t>(index)];
    config.lead = FuzzJob::Addresses()[0];
    config.job = job.job;
    config.patience = job.patience;
    config.snapshot.dir = "snap";
    config.snapshot.every = 40;
    config.samples = FuzzJob::kSamples;
    config.nonce = 10 + static_cast<uint64_t>(index);
    config.credit_window = 2;
    ServerNodeParts parts{transport_.get(), reducer_.get(), writer_.get(),
                          device_.get(),    disk,           logger_.get(),
                          nullptr,          [this] { return random_.Next64(); }};
    node_ = std::make_unique<ServerNode>(config, job.layout, job.map, parts,
                                         ServerNodeHooks(), now);
    EXPECT_TRUE(node_->Start(now).ok());
  }
  ServerNode& node() { return *node_; }
  absl::Time NextDeadline() const override { return node_->NextDeadline(); }

 private:
  void Handle(net::Event event, absl::Time now) override {
    node_->Handle(std::move(event), now);
  }
  void Tick(absl::Time now) override { node_->Tick(now); }

  Random random_;
  const std::unique_ptr<Executor> reducer_ = MakeInlineExecutor();
  const std::unique_ptr<Executor> writer_ = MakeInlineExecutor();
  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  const std::shared_ptr<Logger> logger_ = MakeNullLogger();
  std::unique_ptr<ServerNode> node_;
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

// A worker that is admitted and then says whatever comes to its mind, on all of
// its connections and on some that were never admitted. In between it abstains
// from its rounds, so that it stays a member for a while.
class EvilWorker final : public FuzzPeer {
 public:
  EvilWorker(const FuzzJob& job, uint32_t id, uint64_t seed,
             std::unique_ptr<net::Transport> transport)
      : FuzzPeer(std::move(transport)),
        session_(job.SessionOf(id)),
        mutator_(seed) {}

  absl::Time NextDeadline() const override { return next_; }
  uint64_t sent() const { return sent_; }
  bool admitted() const { return token_ != 0; }

 private:
  struct Link {
    int server = 0;
    uint16_t link = 0;
    bool stranger = false;  // says no hello
  };

  void Handle(net::Event event, absl::Time) override {
    auto it = links_.find(event.connection);
    if (it == links_.end()) return;
    if (event.kind == net::Event::Kind::kDown) {
      links_.erase(it);
    } else if (event.kind == net::Event::Kind::kUp) {
      if (!it->second.stranger) SayHello(event.connection, it->second);
    } else {
      const auto message = Decode(event.header, event.payload, WireLimits());
      if (message.ok()) Learn(it->second, *message);
    }
  }

  void SayHello(net::ConnectionId id, const Link& link) {
    HelloMessage hello{kProtocolVersion,      session_.self,
                       link.link,             session_.nonce,
                       session_.layout_hash,  session_.samples,
                       session_.fingerprint,  session_.job};
    Send(id, FramesOf({term_, token_, std::move(hello)}));
  }

  void Learn(const Link& link, const Message& message) {
    if (std::holds_alternative<WelcomeMessage>(message.body)) {
      term_ = message.term;
      if (link.server == 0 && link.link == 0) token_ = message.session;
    } else if (auto* w = std::get_if<WeightsMessage>(&message.body)) {
      round_ = std::max(round_, w->version);
    } else if (auto* n = std::get_if<NeedGradientsMessage>(&message.body)) {
      round_ = std::max(round_, n->round);
    }
  }

  void Tick(absl::Time now) override {
    if (now < next_) return;
    next_ = now + absl::Microseconds(100 + mutator_.Below(1000));
    OpenSome();
    std::vector<net::ConnectionId> ids;
    for (const auto& [id, link] : links_) ids.push_back(id);
    for (uint64_t i = 0; i < 3 && !ids.empty(); ++i) {
      const net::ConnectionId id = ids[mutator_.Below(ids.size())];
      if (links_.contains(id)) Babble(id);
    }
    if (mutator_.OneIn(100)) {  // hangs up
      const net::ConnectionId id = ids.empty() ? 0 : ids[0];
      transport_->Close(id);
      links_.erase(id);
    }
  }

  void OpenSome() {
    if (links_.size() >= 8) return;
    Link link;
    if (token_ != 0) {
      link.server = static_cast<int>(mutator_.Below(FuzzJob::kServers));
      link.link = static_cast<uint16_t>(mutator_.Below(3));
      link.stranger = mutator_.OneIn(5);
    } else if (!links_.empty()) {
      return;
    }
    const auto id = transport_->Connect(
        FuzzJob::Addresses()[static_cast<size_t>(link.server)]);
    if (id.ok()) links_[*id] = link;
  }

  // What a worker says, with numbers that fit.
  Body Plausible() {
    static constexpr size_t kBytes = FuzzJob::kChunk * 4;
    const uint64_t round =
        std::max<uint64_t>(round_ + mutator_.Below(3), 1) - mutator_.Below(2);
    const uint64_t chunk = mutator_.Below(FuzzJob::kChunks);
    switch (mutator_.Below(8)) {
      case 0:
      case 1:
        return PushMessage{round,
                           chunk,
                           static_cast<uint32_t>(1 + mutator_.Below(5)),
                           DType::kFloat32,
                           1,
                           Chunk(kBytes)};
      case 2:
        return NeedWeightsMessage{round, {true, mutator_.OneIn(2), true}};
      case 3:
        return NeedWeightsMessage{round, {}};
      case 4:
        return PingMessage{1, round, Phase::kBackward};
      case 5:
        return VersionHashMessage{round, 0, mutator_.Edge()};
      case 6:
        return RoundDoneMessage{round, 1, 1, 4, {}};
      default:
        return AbstainMessage{round_};
    }
  }

  void Babble(net::ConnectionId id) {
    const uint64_t token = mutator_.OneIn(20) ? mutator_.Edge() : token_;
    const uint64_t term = mutator_.OneIn(20) ? mutator_.Edge() : term_;
    const Body body =
        mutator_.OneIn(3) ? mutator_.AnyBody() : Plausible();
    Frames frames = FramesOf({term, token, body});
    if (mutator_.OneIn(2)) frames = mutator_.Spoil(std::move(frames));
    Send(id, frames);
  }

  // Whoever is in the job may leave it or ask for it to stop: that is no
  // attack, but would end the test.
  static bool IsPolite(const Frames& frames) {
    const auto message = Decode(
        frames.header, Payload::FromString(frames.payload), WireLimits());
    return message.ok() &&
           (std::holds_alternative<LeaveMessage>(message->body) ||
            std::holds_alternative<StoppingMessage>(message->body));
  }

  void Send(net::ConnectionId id, const Frames& frames) {
    if (IsPolite(frames)) return;
    ++sent_;
    const absl::Status status = transport_->Send(
        id, frames.header, Payload::FromString(frames.payload));
    if (!status.ok()) links_.erase(id);
  }

  const SessionConfig session_;
  Mutator mutator_;
  absl::Time next_;
  std::map<net::ConnectionId, Link> links_;
  uint64_t term_ = 0, token_ = 0, round_ = 0, sent_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_FUZZ_PEERS_H_
