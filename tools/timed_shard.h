#ifndef PARAPET_TOOLS_TIMED_SHARD_H_
#define PARAPET_TOOLS_TIMED_SHARD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/executor.h"
#include "kernels/shard_device.h"

namespace parapet {

// A shard that is not there. Its memory is the same `scratch` bytes for every
// buffer, in which nothing is ever computed; a larger buffer has addresses and
// no memory behind them. It only says how long the memory of a server would be
// busy: what an operation reads and writes, once, at a rate. Distances are
// those of rows that nobody would suspect.
//
// One thread calls everything.
class TimedShard final : public ShardDevice {
 public:
  // `scratch`: what a server fills itself, a chunk of floats; `rate` in bytes a
  // second.
  TimedShard(size_t scratch, double rate);

  // How long all operations since the last call take.
  absl::Duration TakeTime() const;

  std::string name() const override { return "timed"; }
  bool is_host() const override { return false; }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(
      size_t bytes) const override;
  std::shared_ptr<std::byte> AllocateHost(size_t bytes) const override;
  absl::Status Upload(const void* host, size_t bytes,
                      std::byte* device) const override;
  absl::Status Download(const std::byte* device, size_t bytes,
                        void* host) const override;
  absl::StatusOr<ReduceReport> Reduce(const ReduceSpec& spec,
                                      absl::Span<const Row> rows,
                                      const KeptRows* kept, float* previous,
                                      int64_t elements,
                                      float* aggregate) const override;
  absl::StatusOr<ReduceReport> ReduceStep(
      const ReduceSpec& spec, absl::Span<const Row> rows, const KeptRows* kept,
      float* previous, int64_t elements, const OptimizerConfig& optimizer,
      const StepFacts& facts, const StepTarget& target) const override;
  absl::Status Step(const OptimizerConfig& optimizer, const StepFacts& facts,
                    const float* gradient, int64_t elements,
                    const StepTarget& target) const override;
  absl::Status Distances(absl::Span<const Row> rows, const float* previous,
                         int64_t elements, int64_t leaf, double* sums,
                         uint8_t* finite,
                         std::shared_ptr<const KeptRows>* kept) const override;
  absl::Status LeafSquares(const float* values, int64_t elements, int64_t leaf,
                           double* sums) const override;
  absl::Status Encode(const float* values, int64_t elements, DType to,
                      void* out) const override;

 private:
  void Move(double bytes) const { moved_ += bytes; }
  void MoveRows(const ReduceSpec& spec, absl::Span<const Row> rows,
                const float* previous, int64_t elements) const;
  void MoveStep(int64_t elements, const StepTarget& target) const;

  const size_t scratch_bytes_;
  const double rate_;
  const std::shared_ptr<std::byte> scratch_;
  mutable double moved_ = 0;  // bytes since the last TakeTime
};

// Runs work at once, one piece after the other in the time that a TimedShard
// says it takes.
class TimedExecutor final : public Executor {
 public:
  // `shard` must outlive it.
  TimedExecutor(const TimedShard* shard, std::function<absl::Time()> now)
      : shard_(shard), now_(std::move(now)) {}

  void Submit(std::function<void()> work, std::function<void()> done) override;
  int RunDone() override;
  void Abandon() override { pieces_.clear(); }
  // When RunDone has something to do.
  absl::Time NextTime() const;

 private:
  struct Piece {
    absl::Time at;
    std::function<void()> done;
  };

  const TimedShard* const shard_;
  const std::function<absl::Time()> now_;
  absl::Time free_ = absl::InfinitePast();
  std::deque<Piece> pieces_;  // in the order of time
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_TIMED_SHARD_H_
