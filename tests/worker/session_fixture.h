#ifndef PARAPET_TESTS_WORKER_SESSION_FIXTURE_H_
#define PARAPET_TESTS_WORKER_SESSION_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/session.h"

namespace parapet {

using SessionEffects = std::vector<Session::Effect>;
using LinkKey = Session::LinkKey;

template <typename T>
std::vector<T> EffectsOf(const SessionEffects& effects) {
  std::vector<T> only;
  for (const auto& effect : effects) {
    if (auto* e = std::get_if<T>(&effect)) only.push_back(*e);
  }
  return only;
}

// The messages of a kind that are sent on a link; on any link if it is null.
template <typename M>
std::vector<M> SentOn(const LinkKey* link, const SessionEffects& effects) {
  std::vector<M> sent;
  for (const auto& send : EffectsOf<Session::Send>(effects)) {
    if (link != nullptr && !(send.link == *link)) continue;
    if (auto* m = std::get_if<M>(&send.message.body)) sent.push_back(*m);
  }
  return sent;
}
template <typename M>
std::vector<M> SentOn(const LinkKey& link, const SessionEffects& effects) {
  return SentOn<M>(&link, effects);
}
template <typename M>
std::vector<M> Sent(const SessionEffects& effects) {
  return SentOn<M>(nullptr, effects);
}

// The chunks that are pushed, in order.
inline std::vector<uint64_t> Pushed(const SessionEffects& effects) {
  std::vector<uint64_t> chunks;
  for (const auto& push : Sent<PushMessage>(effects)) {
    chunks.push_back(push.chunk);
  }
  return chunks;
}

// Drives a Session as a transport and servers would. Six chunks of eight
// elements on two servers: 0, 2 and 4 on server 0, 1, 3 and 5 on server 1.
class SessionTesting {
 public:
  static constexpr uint64_t kTerm = 9, kToken = 555;
  static constexpr int64_t kChunk = 8, kChunks = 6;

  explicit SessionTesting(int connections = 1, Role role = Role::kWorker)
      : map_(*ShardMap::Create(kChunk * kChunks, 2, kChunk, kChunk)),
        config_(MakeConfig(connections, role)),
        session_(config_, map_, now_) {}

  SessionEffects Do(Session::Event event) {
    return session_.Handle(std::move(event), now_);
  }
  SessionEffects Hear(const LinkKey& link, Body body) {
    return Do(Session::MessageIn{link, {kTerm, kToken, std::move(body)}});
  }
  SessionEffects Up(const LinkKey& link) { return Do(Session::UpIn{link}); }
  SessionEffects Down(const LinkKey& link) {
    return Do(Session::DownIn{link, "cable"});
  }
  SessionEffects Welcome(const LinkKey& link, uint64_t version = 0) {
    return Hear(link, WelcomeMessage{version, ""});
  }
  // What a server lacks of a round, on a link.
  SessionEffects Need(const LinkKey& link, uint64_t round, uint64_t credit,
                      std::vector<bool> locals) {
    return Hear(link, NeedGradientsMessage{round, credit, std::move(locals)});
  }
  SessionEffects Tick() { return Do(Session::TickIn{}); }
  // While the servers answer pings, unless they are silent.
  SessionEffects PassTime(absl::Duration duration, bool answers = true) {
    SessionEffects all;
    const absl::Time until = now_ + duration;
    while (now_ < until) {
      now_ = std::min(until, now_ + absl::Milliseconds(10));
      SessionEffects some = Tick();
      for (const auto& send : EffectsOf<Session::Send>(some)) {
        const bool ping =
            std::holds_alternative<PingMessage>(send.message.body);
        if (ping && answers) Hear(send.link, PongMessage{0, 0});
      }
      for (auto& effect : some) all.push_back(std::move(effect));
    }
    return all;
  }

  // Opens a link as far as its welcome.
  SessionEffects Open(const LinkKey& link, uint64_t version = 0) {
    Up(link);
    return Welcome(link, version);
  }
  // Admitted, with every link open; the servers lack everything of round
  // `version`, and give a credit of that round.
  void Join(uint64_t version = 0) {
    Tick();
    Open({0, 0}, version);
    for (int server : {0, 1}) {
      if (server > 0) Open({server, 0});
      for (int k = 1; k <= config_.connections; ++k) {
        const LinkKey link{server, static_cast<uint16_t>(k)};
        Open(link);
        if (config_.self.role == Role::kEvaluator) continue;
        Need(link, version, (version + 1) * 3, {true, true, true});
      }
    }
  }

  Payload Bytes(uint64_t version, int64_t chunk) const {
    const char c =
        static_cast<char>(version * 16 + static_cast<uint64_t>(chunk));
    return Payload::FromString(std::string(kChunk * 4, c));
  }
  SessionEffects Weights(uint64_t version, int64_t chunk, uint64_t credit = 0) {
    const int server = map_.OwnerOf(chunk);
    const LinkKey link{server, LinkOf(chunk)};
    return Hear(link,
                WeightsMessage{version, static_cast<uint64_t>(chunk),
                               DType::kFloat32, credit, Bytes(version, chunk)});
  }
  SessionEffects AllWeights(uint64_t version) {
    SessionEffects all;
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      for (auto& e : Weights(version, chunk)) all.push_back(std::move(e));
    }
    return all;
  }
  SessionEffects Ready(uint64_t round, int64_t chunk) {
    return Do(Session::ChunkReadyIn{round, chunk, 4, Bytes(round, chunk)});
  }
  SessionEffects Lease(uint64_t from, uint64_t until,
                       std::vector<Mark> marks = {}) {
    struct Lease lease {
      kTerm, from, until, {{3, kToken}}, {}, {}, std::move(marks)
    };
    lease.facts.resize(until - from);
    return Hear({0, 0}, LeaseMessage{std::move(lease)});
  }

  uint16_t LinkOf(int64_t chunk) const {
    return static_cast<uint16_t>(1 + chunk % config_.connections);
  }
  const SessionConfig& config() const { return config_; }
  Session& session() { return session_; }

 private:
  static SessionConfig MakeConfig(int connections, Role role) {
    SessionConfig config;
    config.self = {role, 3};
    config.connections = connections;
    config.nonce = 77;
    config.layout_hash = 88;
    config.samples = 99;
    config.fingerprint = "cpu";
    config.job = "batch=4\n";
    config.wire_scale = 2;
    return config;
  }

  absl::Time now_ = absl::UnixEpoch();
  const ShardMap map_;
  const SessionConfig config_;
  Session session_;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_WORKER_SESSION_FIXTURE_H_
