#ifndef PARAPET_TOOLS_LOAD_CREW_H_
#define PARAPET_TOOLS_LOAD_CREW_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/net/transport.h"
#include "tools/load_lent.h"
#include "tools/load_player.h"

namespace parapet {

// Some of the players, on one thread with one transport. Members may be called
// from any thread.
class LoadCrew {
 public:
  // Plays `ids` at once. `pause`: between one read of the network and the next,
  // of slow readers. `plan` and `logger` must outlive it.
  LoadCrew(LoadPlan* plan, std::vector<int> ids, absl::Duration pause,
           Logger* logger);
  // Gives up those that have not finished.
  ~LoadCrew();

  // Everybody has finished.
  bool done() const { return done_; }
  LoadStats Stats() const;
  // One of them asks the lead to stop the job.
  void AskToStop() { stop_ = true; }

 private:
  class Line;

  void Loop();
  void Turn(std::vector<net::Event>* events);
  void TickAll();
  std::unique_ptr<LoadPlayer> MakePlayer(int index);

  LoadPlan* const plan_;
  const std::vector<int> ids_;
  const absl::Duration pause_;
  Logger* const logger_;
  std::atomic<bool> quit_ = false, stop_ = false, done_ = false;

  // Of the thread.
  SteadyClock clock_;
  std::unique_ptr<net::Transport> transport_;
  LoadLent lent_;                                          // of the transport
  absl::flat_hash_map<net::ConnectionId, size_t> owners_;  // player's index
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<std::unique_ptr<LoadPlayer>> players_;
  absl::Time next_;
  bool stop_told_ = false;

  mutable Mutex mutex_;
  LoadStats stats_;  // of the thread while it holds the mutex
  std::thread thread_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_CREW_H_
