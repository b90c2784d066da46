#ifndef PARAPET_COMMON_JOB_H_
#define PARAPET_COMMON_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/dtype.h"

namespace parapet {

enum class OptimizerKind : uint8_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdam,
  kAdamW
};

// As --optimizer says it, e.g. "adamw".
absl::string_view NameOf(OptimizerKind kind);

// The optimizers of PyTorch, with its formulas and defaults (torch.optim.SGD
// with dampening 0, Adam, AdamW):
// http://docs.pytorch.org/docs/stable/optim.html. weight_decay is added to the
// gradient (L2), except with kAdamW, where weights shrink by lr * weight_decay.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kMomentum;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;

  // How many float32 moments a parameter has: 0, 1 or 2.
  int moments() const {
    if (kind == OptimizerKind::kSgd) return 0;
    return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW ? 2
                                                                         : 1;
  }
};

enum class ScheduleKind : uint8_t { kConstant, kCosine, kStep };

// As --schedule says it, e.g. "cosine".
absl::string_view NameOf(ScheduleKind kind);

// The learning rate over the run, in optimizer steps: a linear warm-up over
// `warmup` steps, then constant, a half cosine from lr to 0 at the last step,
// or lr * step_gamma^k after k * step_epochs.
struct ScheduleConfig {
  double lr = 0.05;
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup = 0;
  double step_gamma = 0.1;
  int64_t step_epochs = 2;
  bool scale_lr = false;  // multiply lr by the number of workers
};

// What to train and how: the same for every process of a job, and compared when
// one joins.
struct JobConfig {
  std::string job_id = "parapet";
  int servers = 1;
  int workers = 1;
  int evaluators = 0;  // processes that measure versions, beside the workers
  std::string model = "mlp:256,128";
  std::string data = "fashion-mnist";
  std::string data_split = "shared";  // "shared": one permutation for all;
                                      // "own": each has its own data
  int64_t train_samples = 0;          // 0: what the data says
  int64_t batch = 32;                 // per worker
  int64_t epochs = 0;                 // one of epochs and rounds is above 0
  int64_t rounds = 0;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  double clip_norm = 0;        // 0: none
  double worker_momentum = 0;  // 0: none
  uint64_t seed = 1;
  DType wire = DType::kFloat32;
  double wire_scale = 1024;  // gradients are multiplied by it on a float16 wire
  int64_t chunk = 0;         // elements; 0 chooses
  int64_t leaf = 16 * 1024;  // elements; not a flag: tests make it smaller
  int connections = 1;       // data connections for each (worker, server)
  std::string rule = "mean";
  int byzantine = 0;
  int64_t hash_every = 100;  // rounds; 0: only at the end
  int max_bad_rounds = 10;

  // Every job-level fact but `servers`' addresses, a "flag=value" a line, in a
  // fixed order: what a joining process sends, so that a difference can be
  // named.
  std::string ToText() const;
};

// How long to wait for what, and what to do then. Per process; those of the
// lead decide.
struct PatienceConfig {
  absl::Duration patience =
      absl::Seconds(10);  // a longer wait is reported by name
  absl::Duration start_timeout = absl::Minutes(5);  // for everybody to be there
  absl::Duration dead_after =
      absl::Seconds(10);  // without a ping a peer is lost
  absl::Duration ping_every = absl::Seconds(1);
  absl::Duration round_deadline =
      absl::ZeroDuration();  // 0: max(10 s, 10 median rounds)
  absl::Duration quorum_deadline = absl::Milliseconds(500);
  absl::Duration insufficient_for = absl::Seconds(60);
  absl::Duration grace =
      absl::Seconds(30);  // from a stop being asked for to leaving
  int quorum = 0;         // 0: all
};

// Snapshots: where, how often, how many are kept.
struct SnapshotConfig {
  std::string dir;    // empty: none
  int64_t every = 0;  // rounds; 0: only at the end
  int keep = 3;
  std::string resume;  // "", "latest" (also: start afresh if there is none) or
                       // a folder's name
};

}  // namespace parapet

#endif  // PARAPET_COMMON_JOB_H_
