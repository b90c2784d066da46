#ifndef PARAPET_WORKER_CLIENT_CORE_H_
#define PARAPET_WORKER_CLIENT_CORE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "common/net/transport.h"
#include "common/wire.h"
#include "worker/session.h"

namespace parapet {

// Who wants to know what a session brings. Called on the thread that drives the
// ClientCore.
class ClientObserver {
 public:
  virtual ~ClientObserver() = default;
  virtual void OnAdmitted(uint64_t version, const std::string& snapshot) = 0;
  virtual void OnLease(const Lease& lease) = 0;
  // Chunks that follow are of this version. What was received of the one before
  // may be thrown away if it was not whole.
  virtual void OnVersion(uint64_t version) = 0;
  virtual void OnChunk(uint64_t version, int64_t chunk, Payload data) = 0;
  // The version is whole and the lead wants its hash (over the bytes of its
  // chunks, in leaves).
  virtual uint64_t HashOf(uint64_t version) = 0;
  virtual void OnFinish(Code code, const std::string& words) = 0;
  // For whoever counts what goes over the wire: every message, before the
  // session takes it, and every connection that was lost or never made.
  virtual void OnMessage(const Message&) {}
  virtual void OnLost(const Session::LinkKey&, const std::string& /*reason*/) {}
};

// A session with its transport, without threads: turns transport events into
// the session's events and carries out its effects. The client's thread and the
// simulator both drive it.
class ClientCore {
 public:
  // `servers`: one address each, the lead's first. All pointers must outlive
  // this.
  ClientCore(const SessionConfig& config, const ShardMap& map,
             std::vector<std::string> servers, net::Transport* transport,
             ClientObserver* observer, Logger* logger, absl::Time now);

  void Handle(net::Event event, absl::Time now);
  void Tick(absl::Time now);
  absl::Time NextDeadline() const { return session_.NextDeadline(); }

  // From the owner's thread.
  void ChunkReady(uint64_t round, int64_t chunk, uint32_t samples, Payload data,
                  absl::Time now);
  void Abstain(uint64_t round, absl::Time now);
  void PushAsIs(PushMessage push, absl::Time now);
  void TellLead(Body body, absl::Time now);
  void SetPhase(uint64_t round, Phase phase, absl::Time now);

  bool finished() const { return session_.finished(); }
  const Session& session() const { return session_; }

 private:
  void Run(Session::Event event, absl::Time now);
  void Apply(Session::Connect& effect);
  void Apply(Session::Close& effect);
  void Apply(Session::Send& effect);
  void Apply(Session::Admitted& effect);
  void Apply(Session::NewLease& effect);
  void Apply(Session::NewVersion& effect);
  void Apply(Session::NewChunk& effect);
  void Apply(Session::HashVersion& effect);
  void Apply(Session::Log& effect);
  void Apply(Session::Finish& effect);

  const std::vector<std::string> servers_;
  net::Transport* const transport_;
  ClientObserver* const observer_;
  Logger* const logger_;
  WireLimits limits_;
  Encoder encoder_;
  Session session_;
  absl::Time now_;
  std::map<Session::LinkKey, net::ConnectionId> connections_;
  absl::flat_hash_map<net::ConnectionId, Session::LinkKey> keys_;
  std::vector<Session::Event> later_;  // what effects led to
};

}  // namespace parapet

#endif  // PARAPET_WORKER_CLIENT_CORE_H_
