#ifndef PARAPET_TESTS_SIM_SIM_EXECUTOR_H_
#define PARAPET_TESTS_SIM_SIM_EXECUTOR_H_

#include <functional>
#include <map>

#include "absl/time/time.h"
#include "common/executor.h"
#include "common/rng.h"

namespace parapet::sim {

// An executor in virtual time. Work takes none, or a random time: then pieces
// overtake one another, and what they read and write is touched as late as a
// pool of threads may touch it.
class SimExecutor final : public Executor {
 public:
  SimExecutor(uint64_t seed, absl::Duration longest,
              std::function<absl::Time()> now)
      : random_(seed), longest_(longest), now_(std::move(now)) {}

  void Submit(std::function<void()> work, std::function<void()> done) override;
  int RunDone() override;
  void Abandon() override { pieces_.clear(); }
  // When RunDone has something to do.
  absl::Time NextTime() const;

 private:
  struct Piece {
    std::function<void()> work, done;
  };

  Random random_;
  const absl::Duration longest_;
  const std::function<absl::Time()> now_;
  std::multimap<absl::Time, Piece> pieces_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_SIM_EXECUTOR_H_
