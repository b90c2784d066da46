#ifndef PARAPET_WORKER_CLIENT_H_
#define PARAPET_WORKER_CLIENT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/buffer_pool.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/sampler.h"
#include "common/trace.h"
#include "kernels/device.h"
#include "worker/client_core.h"

namespace parapet {

struct ClientConfig {
  SessionConfig session;
  std::vector<std::string> servers;  // addresses, the lead's first
  uint64_t batch = 1;
  bool own_data = false;  // --data_split=own
};

// The library that a training loop uses: it joins a job, hands out versions of
// the weights and takes gradients, while a thread of its own does the protocol.
// A worker's loop:
//
//   while (true) {
//     PARAPET_ASSIGN_OR_RETURN(Client::Next next, client->WaitNext());
//     if (next.kind == Client::Next::Kind::kEnd) break;
//     float* gradient = client->BeginRound(next);
//     ... forward: client->Weights(range, replica) says where a range is ...
//     ... backward: client->Push(range) when a range of the gradient is final
//     ... client->EndRound(loss_sum, correct, phases);
//   }
//   return client->Leave();
//
// One thread calls everything but RequestStop. Waits end with an error when the
// job ends: the lead's words are in it.
class Client {
 public:
  struct Next {
    enum class Kind { kRound, kEvaluate, kEnd };
    Kind kind = Kind::kRound;
    uint64_t version =
        0;        // the weights to work with; also the number of the round
    Share share;  // kRound: this worker's samples; count 0: call Abstain
    uint64_t epoch = 0;
    // The round's samples, of which `share` is a part, and who shares them, by
    // ascending id.
    uint64_t position = 0, samples = 0;
    std::vector<uint32_t> members;
    bool snapshot = false;  // the lead wants this worker's state as of this
                            // version (kRound, kEnd)
  };

  // All pointers must outlive the client. Starts its thread; joining goes on in
  // the background.
  Client(ClientConfig config, const ShardMap& map,
         std::unique_ptr<net::Transport> transport, const Device* device,
         Clock* clock, Logger* logger, Trace* trace);
  // Ends the thread at once: call Leave first to part in peace.
  ~Client();

  // Waits to be admitted. Returns the folder of the snapshot that the job
  // starts from, if any.
  absl::StatusOr<std::string> Join();
  // Waits for the next thing to do.
  absl::StatusOr<Next> WaitNext();

  // Begins the round that WaitNext gave. Returns the gradient's memory: all
  // elements, for this round.
  float* BeginRound(const Next& next);
  // Waits for the weights of `range` and writes every chunk that holds some of
  // it, whole, to its place in `weights`. Aborted if this worker was left
  // behind: begin anew with WaitNext.
  absl::Status Fetch(Range range, float* weights);
  // Likewise, but only waits: nothing is copied.
  absl::Status Await(Range range);
  // Waits for the weights of `range`, which is not empty, and says where its
  // first is: where they were received, if they lie there one after the other
  // as float32 (in shared memory, or within one chunk), until the next
  // WaitNext; otherwise in `replica`, of the whole layout, to which Fetch has
  // copied them.
  absl::StatusOr<const float*> Weights(Range range, float* replica);
  // The gradient of `range` is final. Each element once a round. A chunk is
  // sent when it is complete.
  void Push(Range range);
  void EndRound(double loss_sum, uint64_t correct,
                const std::array<float, kPhases>& phases);
  // For attackers alone (attacker.h): sends a chunk of any round at once, past
  // all that the protocol says of order, credit and repetition. `values` are of
  // the whole layout and are copied.
  void PushAsIs(uint64_t round, int64_t chunk, const float* values);
  // Instead of BeginRound .. EndRound: nothing to contribute.
  void Abstain(const Next& next);

  void TellLead(Body body);
  void SetPhase(uint64_t round, Phase phase);
  // Asks the lead to stop the job; from any thread, also more than once.
  void RequestStop();
  // Waits for the lead's goodbye, after kEnd. OK if the job ended well.
  absl::Status Leave();
  // Leaves at once, saying why, while the job goes on without this worker.
  void Quit(const std::string& why);
  // How it ended, once it has.
  Code code() const;
  const ShardMap& map() const { return map_; }

 private:
  class Observer;
  struct VersionSlot {
    std::vector<Payload> chunks;
    int64_t present = 0;
  };

  void Loop();
  bool admitted() const;
  void Command(std::function<void(ClientCore&, absl::Time)> command);
  // What there is to do with the newest version; none: wait.
  std::optional<Next> TryNext() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the leases say of it; none: they do not know it, or not this worker.
  std::optional<Next> NextOfLeases() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: this worker has no part in it.
  bool TakePart(const Lease& lease, Next* next) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendChunk(int64_t chunk);
  void HandOver(int64_t chunk, Payload data);
  absl::Status WaitChunk(int64_t chunk, Payload* data);
  absl::StatusOr<const float*> InPlace(Range range);

  const ClientConfig config_;
  const ShardMap map_;
  const std::unique_ptr<net::Transport> transport_;
  const Device* const device_;
  Clock* const clock_;
  Logger* const logger_;
  Trace* const trace_;

  // The training loop's side.
  std::shared_ptr<BufferPool> gradients_, wires_;
  std::shared_ptr<std::byte> gradient_;
  uint64_t round_ = 0;
  uint32_t samples_ = 0;
  std::vector<bool> copied_;
  std::vector<int64_t>
      filled_;  // by chunk: elements of the gradient that are final
  // On a float16 wire a gradient is held back until it is known to fit: a
  // worker whose own gradient overflows abstains.
  std::vector<std::pair<int64_t, Payload>> held_back_;
  int64_t overflowed_ = 0;  // values of this round

  // Between the two.
  mutable Mutex mutex_;
  std::vector<std::function<void(ClientCore&, absl::Time)>> commands_
      ABSL_GUARDED_BY(mutex_);
  bool admitted_ ABSL_GUARDED_BY(mutex_) = false;
  std::string snapshot_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lease> leases_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, VersionSlot> slots_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> begun_
      ABSL_GUARDED_BY(mutex_);  // the last round that was given out
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // kEnd was given out
  std::optional<std::pair<Code, std::string>> finish_ ABSL_GUARDED_BY(mutex_);
  int64_t wanted_chunk_ ABSL_GUARDED_BY(mutex_) = -1;  // what Fetch waits for
  CondVar news_;

  std::atomic<bool> stop_{false}, quit_{false};
  std::unique_ptr<Observer> observer_;
  std::thread thread_;
};

}  // namespace parapet

#endif  // PARAPET_WORKER_CLIENT_H_
