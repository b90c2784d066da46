#ifndef PARAPET_WORKER_TRAINER_H_
#define PARAPET_WORKER_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint.h"
#include "common/clock.h"
#include "common/disk.h"
#include "common/job.h"
#include "common/log.h"
#include "kernels/device.h"
#include "worker/attacker.h"
#include "worker/client.h"
#include "worker/dataset.h"
#include "worker/model.h"

namespace parapet {

struct TrainerConfig {
  uint32_t id = 0;
  JobConfig job;
  std::string snapshot_dir;
  AttackPlan attack;  // what this worker does if it is one of those who attack
};

// What a trainer uses; all must outlive it.
struct TrainerParts {
  Client* client = nullptr;
  Model* model = nullptr;
  uint64_t samples = 0;  // of the data that are used: its first
  const Dataset* data =
      nullptr;  // the training set of a worker, the test set of an evaluator
  const Device* device = nullptr;
  Disk* disk = nullptr;
  Clock* clock = nullptr;
  Logger* logger = nullptr;
  Trace* trace = nullptr;  // may be null
};

// A worker's training loop: for each round it takes its share of the epoch's
// permutation, goes forward as the weights arrive and backward while the
// gradient leaves. One thread.
class Trainer {
 public:
  Trainer(TrainerConfig config, TrainerParts parts);

  // Trains until the job is over. OK when it ended well, or this worker was
  // stopped with it; otherwise the reason in words.
  absl::Status Run();

 private:
  // Seconds of a pass. It is forward until the first gradient is ready; what it
  // waits and pushes counts as that.
  struct PassTimes {
    double whole = 0, forward = 0, waited = 0, pushed = 0;
  };

  absl::Status RunRound(const Client::Next& next);
  absl::Status Work(const Client::Next& next);
  PassHooks MakeHooks(uint64_t version, float* gradient, PassTimes* times);
  void Account(const PassTimes& times);
  absl::Status Restore(const std::string& folder);
  void Snapshot(uint64_t version);
  absl::StatusOr<FileEntry> WriteMomentum(uint64_t version);
  Batch Gather(uint64_t epoch, const Share& share);
  bool attacks() const { return config_.attack.Attacks(config_.id); }
  void Push(Range range, float* gradient);

  const TrainerConfig config_;
  const TrainerParts parts_;
  std::vector<float> weights_, momentum_;
  std::vector<float> inputs_;
  std::vector<int32_t> labels_;
  std::vector<uint32_t> permutation_;
  uint64_t epoch_ = ~uint64_t{0};  // that permutation_ is of
  std::array<double, kPhases> seconds_{};
  std::unique_ptr<Attacker> attacker_;  // null: what is pushed is honest work
};

// An evaluator's loop: measures each version that it is sent on the whole data
// set. One thread.
absl::Status RunEvaluator(const TrainerParts& parts);

}  // namespace parapet

#endif  // PARAPET_WORKER_TRAINER_H_
