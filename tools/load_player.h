#ifndef PARAPET_TOOLS_LOAD_PLAYER_H_
#define PARAPET_TOOLS_LOAD_PLAYER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/layout.h"
#include "common/log.h"
#include "common/net/transport.h"
#include "kernels/device.h"
#include "tools/load_attacks.h"
#include "tools/load_attendance.h"
#include "tools/load_checker.h"
#include "tools/load_flags.h"
#include "tools/load_means.h"
#include "tools/load_stats.h"
#include "tools/load_values.h"
#include "worker/client_core.h"

namespace parapet {

// When rounds are due at a rate: the first player that is warm starts the
// count. Thread-safe.
class LoadSchedule {
 public:
  // `rate`: rounds a second; 0: none is ever due.
  LoadSchedule(double rate, int64_t warmup) : rate_(rate), warmup_(warmup) {}
  // Nothing before the warm-up is over, or without a rate.
  std::optional<absl::Time> DueAt(uint64_t round, absl::Time now);

 private:
  const double rate_;
  const int64_t warmup_;
  std::atomic<int64_t> began_ = 0;  // ns; 0: not yet
};

// What the players of a process have in common.
struct LoadPlan {
  LoadFlags flags;
  Layout layout;
  ShardMap map;
  std::vector<double> ready;  // by chunk: at which part of --backward
  std::vector<std::string> servers;
  std::unique_ptr<Device> device;
  std::unique_ptr<LoadValues> values;
  std::unique_ptr<LoadAttacks> attacks;
  std::unique_ptr<LoadAttendance> attendance;
  std::unique_ptr<LoadMeans> means;
  std::unique_ptr<LoadChecker> checker;
  std::unique_ptr<LoadSchedule> schedule;
  absl::Time began;  // of the timeline
};

// Everything but the servers' addresses.
absl::StatusOr<std::unique_ptr<LoadPlan>> MakeLoadPlan(const LoadFlags& flags);

// One worker of a load test: joins, pushes what LoadValues says as soon as a
// version is whole (or the round is due), and checks and times what comes
// back. Without a thread of its own: whoever drives it hands it the events of
// its connections. One thread calls everything.
class LoadPlayer final : public ClientObserver {
 public:
  // All must outlive it. `stats` is written to within every call.
  LoadPlayer(LoadPlan* plan, int id, net::Transport* transport,
             LoadStats* stats, Logger* logger, absl::Time now);

  void Handle(net::Event event, absl::Time now);
  // What is due: ticks of the session, a round.
  void Tick(absl::Time now);
  absl::Time NextDeadline() const;
  // Asks the lead to stop the job.
  void AskToStop(absl::Time now);
  bool finished() const { return finished_; }

 private:
  void OnAdmitted(uint64_t version, const std::string& snapshot) override;
  void OnLease(const Lease& lease) override;
  void OnVersion(uint64_t version) override;
  void OnChunk(uint64_t version, int64_t chunk, Payload data) override;
  uint64_t HashOf(uint64_t version) override;
  void OnFinish(Code code, const std::string& words) override;
  void OnMessage(const Message& message) override;
  void OnLost(const Session::LinkKey& link, const std::string& reason) override;

  bool MayPush() const;
  absl::Time StartOf(uint64_t round);
  void Push(absl::Time now);
  // What is due of a round that has begun.
  void Go(absl::Time now);
  absl::Time NextChunkAt() const;
  void PushReady(absl::Time now);
  void PushChunk(int64_t chunk, absl::Time now);
  void PushOtherwise(absl::Time now);
  void NoteWhole();
  void NoteLatencies();
  absl::Duration StraggleOf(uint64_t round) const;
  bool Measured(uint64_t round) const {
    return !attacks_ && round >= static_cast<uint64_t>(plan_->flags.warmup);
  }

  LoadPlan* const plan_;
  const int id_;
  const bool straggles_, attacks_;
  LoadStats* const stats_;
  absl::Time now_;
  ClientCore core_;
  bool finished_ = false;

  std::vector<Lease> leases_;
  // The version that is coming, or is whole.
  uint64_t version_ = 0;
  bool whole_ = false, known_ = false;
  int64_t present_ = 0;
  uint64_t hash_ = 0;
  uint64_t taken_ = 0, weights_seen_ = 0;  // messages of weights
  absl::Time first_at_, whole_at_;

  // The round that was pushed last.
  std::optional<uint64_t> pushed_;
  absl::Time due_, push_began_;
  int64_t left_ = 0;                   // chunks of it that are not pushed yet
  std::vector<absl::Time> pushed_at_;  // by chunk
  absl::Time start_at_ = absl::InfiniteFuture();  // of the next
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_PLAYER_H_
