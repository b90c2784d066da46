#ifndef PARAPET_TESTS_FUZZ_EVIL_WORKER_H_
#define PARAPET_TESTS_FUZZ_EVIL_WORKER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/disk.h"
#include "common/executor.h"
#include "common/log.h"
#include "common/net/sim_transport.h"
#include "common/rng.h"
#include "gtest/gtest.h"
#include "server/node.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/peers.h"

namespace parapet {

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
    ServerNodeParts parts{transport_.get(),
                          reducer_.get(),
                          writer_.get(),
                          device_.get(),
                          disk,
                          logger_.get(),
                          nullptr,
                          [this] { return random_.Next64(); }};
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
    bool ready = false;     // has said hello, or never will
  };

  void Handle(net::Event event, absl::Time) override {
    auto it = links_.find(event.connection);
    if (it == links_.end()) return;
    if (event.kind == net::Event::Kind::kDown) {
      links_.erase(it);
    } else if (event.kind == net::Event::Kind::kUp) {
      it->second.ready = true;
      if (!it->second.stranger) SayHello(event.connection, it->second);
    } else {
      const auto message = Decode(event.header, event.payload, WireLimits());
      if (message.ok()) Learn(it->second, *message);
    }
  }

  void SayHello(net::ConnectionId id, const Link& link) {
    HelloMessage hello{
        kProtocolVersion,     session_.self,        link.link,
        session_.nonce,       session_.layout_hash, session_.samples,
        session_.fingerprint, session_.job};
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
    if (token_ == 0) return;  // first it must be let in
    std::vector<net::ConnectionId> ids;
    for (const auto& [id, link] : links_) {
      if (link.ready) ids.push_back(id);
    }
    for (uint64_t i = 0; i < 3 && !ids.empty(); ++i) {
      const net::ConnectionId id = ids[mutator_.Below(ids.size())];
      if (links_.contains(id)) Babble(id);
    }
    if (!ids.empty() && mutator_.OneIn(100)) {  // hangs up
      transport_->Close(ids[0]);
      links_.erase(ids[0]);
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
    const Body body = mutator_.OneIn(3) ? mutator_.AnyBody() : Plausible();
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

#endif  // PARAPET_TESTS_FUZZ_EVIL_WORKER_H_
