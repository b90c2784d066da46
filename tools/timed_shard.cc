#include "tools/timed_shard.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/buffer_pool.h"

namespace parapet {
namespace {

constexpr double kFloat = sizeof(float);

double SizeOfAll(int64_t elements) { return static_cast<double>(elements); }

// Addresses that nobody may touch. Null: there are none left.
std::shared_ptr<std::byte> ReserveAddresses(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(at),
          [bytes](std::byte* begin) { munmap(begin, bytes); }};
}

}  // namespace

TimedShard::TimedShard(size_t scratch, double rate)
    : scratch_bytes_(scratch),
      rate_(rate),
      scratch_(MakeZeroedBuffer(scratch)) {}

absl::Duration TimedShard::TakeTime() const {
  return absl::Seconds(std::exchange(moved_, 0) / rate_);
}

// ---- Memory -----------------------------------------------------------------

absl::StatusOr<std::shared_ptr<std::byte>> TimedShard::Allocate(
    size_t bytes) const {
  std::shared_ptr<std::byte> buffer = AllocateHost(bytes);
  if (buffer == nullptr)
    return absl::ResourceExhaustedError("no addresses are left");
  return buffer;
}

// Each with an owner of its own: whether somebody shares a buffer is asked by
// its use count.
std::shared_ptr<std::byte> TimedShard::AllocateHost(size_t bytes) const {
  if (bytes > scratch_bytes_) return ReserveAddresses(bytes);
  return {scratch_.get(), [all = scratch_](std::byte*) {}};
}

absl::Status TimedShard::Upload(const void*, size_t, std::byte*) const {
  return absl::OkStatus();
}

absl::Status TimedShard::Download(const std::byte*, size_t, void*) const {
  return absl::OkStatus();
}

// ---- Operations -------------------------------------------------------------

// Rows that are mixed with no weight are not read.
void TimedShard::MoveRows(const ReduceSpec& spec, absl::Span<const Row> rows,
                          const float* previous, int64_t elements) const {
  const size_t columns = rows.size() + 2;
  for (size_t i = 0; i < rows.size(); ++i) {
    bool read = spec.mixed_rows == 0;
    for (int m = 0; m < spec.mixed_rows && !read; ++m)
      read = spec.mixing[static_cast<size_t>(m) * columns + i] != 0;
    if (read) Move(SizeOfAll(elements * SizeOf(rows[i].dtype)));
  }
  if (previous != nullptr) Move(2 * kFloat * SizeOfAll(elements));
}

// Weights and moments are read and written.
void TimedShard::MoveStep(int64_t elements, const StepTarget& target) const {
  const double moments =
      (target.moment1 != nullptr ? 1 : 0) + (target.moment2 != nullptr ? 1 : 0);
  Move(2 * kFloat * (1 + moments) * SizeOfAll(elements));
  // On a float32 wire a server in the host's memory sends the weights
  // themselves.
  if (target.publish != nullptr && target.publish_dtype != DType::kFloat32)
    Move(SizeOfAll(elements * SizeOf(target.publish_dtype)));
}

absl::StatusOr<ReduceReport> TimedShard::Reduce(
    const ReduceSpec& spec, absl::Span<const Row> rows, const KeptRows*,
    float* previous, int64_t elements, float*) const {
  MoveRows(spec, rows, previous, elements);
  Move(kFloat * SizeOfAll(elements));
  return ReduceReport();
}

absl::StatusOr<ReduceReport> TimedShard::ReduceStep(
    const ReduceSpec& spec, absl::Span<const Row> rows, const KeptRows*,
    float* previous, int64_t elements, const OptimizerConfig&, const StepFacts&,
    const StepTarget& target) const {
  MoveRows(spec, rows, previous, elements);
  MoveStep(elements, target);
  return ReduceReport();
}

absl::Status TimedShard::Step(const OptimizerConfig&, const StepFacts&,
                              const float*, int64_t elements,
                              const StepTarget& target) const {
  Move(kFloat * SizeOfAll(elements));
  MoveStep(elements, target);
  return absl::OkStatus();
}

absl::Status TimedShard::Distances(absl::Span<const Row> rows, const float*,
                                   int64_t elements, int64_t leaf, double* sums,
                                   uint8_t* finite,
                                   std::shared_ptr<const KeptRows>*) const {
  for (const Row& row : rows) Move(SizeOfAll(elements * SizeOf(row.dtype)));
  const int64_t leaves = (elements + leaf - 1) / leaf;
  const auto n = static_cast<int64_t>(rows.size());
  std::fill_n(sums, leaves * PairCount(static_cast<int>(n)), 1.0 / 3);
  std::fill_n(finite, leaves * n, uint8_t{1});
  return absl::OkStatus();
}

// In the same pass as the reduction before.
absl::Status TimedShard::LeafSquares(const float*, int64_t elements,
                                     int64_t leaf, double* sums) const {
  std::fill_n(sums, (elements + leaf - 1) / leaf, 1.0 / 3);
  return absl::OkStatus();
}

absl::Status TimedShard::Encode(const float*, int64_t, DType, void*) const {
  return absl::OkStatus();
}

// ---- The executor -----------------------------------------------------------

void TimedExecutor::Submit(std::function<void()> work,
                           std::function<void()> done) {
  work();
  free_ = std::max(free_, now_()) + shard_->TakeTime();
  pieces_.push_back({free_, std::move(done)});
}

int TimedExecutor::RunDone() {
  const absl::Time now = now_();
  std::vector<Piece> due;
  while (!pieces_.empty() && pieces_.front().at <= now) {
    due.push_back(std::move(pieces_.front()));
    pieces_.pop_front();
  }
  for (Piece& piece : due) piece.done();
  return static_cast<int>(due.size());
}

absl::Time TimedExecutor::NextTime() const {
  return pieces_.empty() ? absl::InfiniteFuture() : pieces_.front().at;
}

}  // namespace parapet
