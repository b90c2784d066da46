#ifndef PARAPET_TESTS_SERVER_LEAD_FIXTURE_H_
#define PARAPET_TESTS_SERVER_LEAD_FIXTURE_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/lead.h"

namespace parapet {

using LeadEffects = std::vector<Lead::Effect>;

inline Peer WorkerPeer(uint32_t id) { return {Role::kWorker, id}; }
inline Peer ServerPeer(uint32_t id) { return {Role::kServer, id}; }
inline Peer EvaluatorPeer(uint32_t id) { return {Role::kEvaluator, id}; }

// Those effects that are a T, in order.
template <typename T>
std::vector<T> AllOf(const LeadEffects& effects) {
  std::vector<T> all;
  for (const auto& effect : effects) {
    if (auto* e = std::get_if<T>(&effect)) all.push_back(*e);
  }
  return all;
}

// The one T among them; a test failure, and an empty one, if there is not
// exactly one.
template <typename T>
T TheOne(const LeadEffects& effects) {
  const std::vector<T> all = AllOf<T>(effects);
  EXPECT_EQ(all.size(), 1u);
  return all.size() == 1 ? all[0] : T();
}

// Messages of a kind that go to all, or to the servers.
template <typename M>
std::vector<M> Told(const LeadEffects& effects) {
  std::vector<M> told;
  for (const auto& effect : effects) {
    const Body* body = nullptr;
    if (auto* all = std::get_if<Lead::TellAll>(&effect)) body = &all->body;
    if (auto* s = std::get_if<Lead::TellServers>(&effect)) body = &s->body;
    if (body == nullptr) continue;
    if (auto* m = std::get_if<M>(body)) told.push_back(*m);
  }
  return told;
}

inline std::vector<Lease> Leases(const LeadEffects& effects) {
  std::vector<Lease> leases;
  for (auto& m : Told<LeaseMessage>(effects)) leases.push_back(m.lease);
  return leases;
}

// Everything that was logged as a warning, a line each.
inline std::string Warnings(const LeadEffects& effects) {
  std::string words;
  for (const auto& log : AllOf<Lead::Log>(effects)) {
    if (log.warning) absl::StrAppend(&words, log.words, "\n");
  }
  return words;
}

inline IdSet Ids(const std::vector<uint32_t>& ids) {
  IdSet set;
  for (uint32_t id : ids) set.Insert(id);
  return set;
}

inline LeadConfig JobOf(int servers, int workers, int64_t rounds) {
  LeadConfig config;
  config.job.servers = servers;
  config.job.workers = workers;
  config.job.batch = 4;
  config.job.rounds = rounds;
  config.job.hash_every = 0;
  config.layout_hash = 77;
  config.samples = 1000;
  config.term = 5;
  config.shard_chunks.assign(static_cast<size_t>(servers), 2);
  config.describe = [](int64_t element) {
    return absl::StrCat("tensor[", element, "]");
  };
  return config;
}

// Drives a Lead as servers and workers would.
class LeadTesting {
 public:
  explicit LeadTesting(const LeadConfig& config)
      : config_(config),
        lead_(
            config, [this] { return ++token_; }, now_) {}

  LeadEffects Do(Lead::Event event) {
    return lead_.Handle(std::move(event), now_);
  }

  HelloMessage HelloOf(const Peer& peer) const {
    HelloMessage hello;
    hello.protocol = kProtocolVersion;
    hello.peer = peer;
    hello.nonce = 1000 + peer.id;
    hello.layout_hash = config_.layout_hash;
    hello.samples = config_.samples;
    hello.fingerprint = "cpu";
    hello.job = config_.job.ToText();
    return hello;
  }
  LeadEffects Hello(const Peer& peer) {
    return Do(Lead::HelloIn{1, HelloOf(peer)});
  }
  LeadEffects Loaded(int server) {
    return Do(Lead::LoadedIn{server, {true, ""}});
  }

  // Everybody joins; returns what the last one leads to.
  LeadEffects Gather() {
    LeadEffects last;
    for (int s = 0; s < config_.job.servers; ++s) {
      if (s > 0) Hello(ServerPeer(static_cast<uint32_t>(s)));
      last = Loaded(s);
    }
    for (int e = 0; e < config_.evaluators; ++e) {
      last = Hello(EvaluatorPeer(static_cast<uint32_t>(e)));
    }
    for (int w = 0; w < config_.job.workers; ++w) {
      last = Hello(WorkerPeer(static_cast<uint32_t>(w)));
    }
    return last;
  }

  LeadEffects ShardDone(int server, uint64_t round,
                        std::vector<uint32_t> participants) {
    ShardDoneMessage done;
    done.round = round;
    done.participants = std::move(participants);
    return Do(Lead::ShardDoneIn{server, std::move(done)});
  }
  // A round that ends well, on every shard, after `took`.
  LeadEffects FinishRound(uint64_t round,
                          const std::vector<uint32_t>& participants,
                          absl::Duration took = absl::Milliseconds(10)) {
    LeadEffects all = PassTime(took);
    for (int s = 0; s < config_.job.servers; ++s) {
      Append(&all, ShardDone(s, round, participants));
    }
    return all;
  }
  LeadEffects Complete(int server, uint64_t round,
                       const std::vector<uint32_t>& workers) {
    return Do(Lead::CompleteIn{server, {round, Ids(workers)}});
  }
  LeadEffects CompleteEverywhere(uint64_t round,
                                 const std::vector<uint32_t>& workers) {
    LeadEffects all;
    for (int s = 0; s < config_.job.servers; ++s) {
      Append(&all, Complete(s, round, workers));
    }
    return all;
  }
  LeadEffects Hash(const Peer& peer, uint64_t version, uint64_t master,
                   uint64_t wire) {
    return Do(Lead::HashIn{peer, {version, master, wire}});
  }
  // Every server, and these workers, hold the same weights.
  LeadEffects Hashes(uint64_t version, const std::vector<uint32_t>& workers) {
    LeadEffects all;
    const auto servers = static_cast<uint32_t>(config_.job.servers);
    for (uint32_t s = 0; s < servers; ++s) {
      Append(&all, Hash(ServerPeer(s), version, 10 + s, 1));
    }
    for (uint32_t w : workers) {
      Append(&all, Hash(WorkerPeer(w), version, 0, servers));
    }
    return all;
  }
  LeadEffects SnapshotDone(const Peer& peer, uint64_t version, bool ok = true) {
    SnapshotDoneMessage done{version, ok, {NameOf(peer), 100, 7}, "disk full"};
    return Do(Lead::SnapshotDoneIn{peer, std::move(done)});
  }
  LeadEffects Report(uint64_t version, uint64_t correct = 5) {
    return Do(Lead::EvalReportIn{0, {version, 20, correct, 10, 0.1}});
  }

  // Time passes while all but the silent ones ping.
  LeadEffects PassTime(absl::Duration duration) {
    LeadEffects all;
    const absl::Time until = now_ + duration;
    while (now_ < until) {
      now_ = std::min(until, now_ + absl::Milliseconds(50));
      PingAll();
      Append(&all, Do(Lead::TickIn{}));
    }
    return all;
  }
  void Silence(const Peer& peer) { silent_.insert(peer); }

  static void Append(LeadEffects* all, LeadEffects some) {
    for (auto& effect : some) all->push_back(std::move(effect));
  }
  Lead& lead() { return lead_; }
  absl::Time now() const { return now_; }

 private:
  void PingAll() {
    std::vector<Peer> peers;
    for (int i = 1; i < config_.job.servers; ++i) {
      peers.push_back(ServerPeer(static_cast<uint32_t>(i)));
    }
    for (int i = 0; i < config_.job.workers; ++i) {
      peers.push_back(WorkerPeer(static_cast<uint32_t>(i)));
    }
    for (int i = 0; i < config_.evaluators; ++i) {
      peers.push_back(EvaluatorPeer(static_cast<uint32_t>(i)));
    }
    for (const Peer& peer : peers) {
      if (silent_.contains(peer)) continue;
      Do(Lead::PingIn{peer, {0, lead_.version(), Phase::kBackward}});
    }
  }

  const LeadConfig config_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t token_ = 0x100;
  std::set<Peer> silent_;
  Lead lead_;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_SERVER_LEAD_FIXTURE_H_
