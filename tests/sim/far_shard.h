#ifndef PARAPET_TESTS_SIM_FAR_SHARD_H_
#define PARAPET_TESTS_SIM_FAR_SHARD_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/buffer_pool.h"
#include "kernels/shard_device.h"

namespace parapet {

// A device whose memory is not the process's, as a GPU's is not: an address in
// it is one that nothing can be at. It computes as the CPU does, keeps measured
// rows (which then really come from there), and fails once it has done so much.
class FarShard : public ShardDevice {
 public:
  explicit FarShard(const Device& cpu)
      : cpu_(cpu), host_(MakeHostShardDevice(cpu)) {}

  // The call after so many fails, and all that follow.
  void FailAfter(int64_t calls) { calls_left_ = calls; }
  int64_t rows_from_kept() const { return rows_from_kept_; }

  std::string name() const override { return "far"; }
  bool is_host() const override { return false; }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(
      size_t bytes) const override {
    if (!Lives()) return Gone();
    const std::shared_ptr<std::byte> real = MakeBuffer(bytes);
    std::memset(real.get(), 0xFF, bytes);  // NaN
    return std::shared_ptr<std::byte>(real, Far(real.get()));
  }
  std::shared_ptr<std::byte> AllocateHost(size_t bytes) const override {
    return MakeBuffer(bytes);
  }
  absl::Status Upload(const void* host, size_t bytes,
                      std::byte* device) const override {
    if (!Lives()) return Gone();
    std::memcpy(Near(device), host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(const std::byte* device, size_t bytes,
                        void* host) const override {
    if (!Lives()) return Gone();
    std::memcpy(host, Near(device), bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<ReduceReport> Reduce(const ReduceSpec& spec,
                                      absl::Span<const Row> rows,
                                      const KeptRows* kept, float* previous,
                                      int64_t elements,
                                      float* aggregate) const override {
    if (!Lives()) return Gone();
    return host_->Reduce(spec, FromKept(rows, kept), nullptr, Near(previous),
                         elements, Near(aggregate));
  }
  absl::StatusOr<ReduceReport> ReduceStep(
      const ReduceSpec& spec, absl::Span<const Row> rows, const KeptRows* kept,
      float* previous, int64_t elements, const OptimizerConfig& optimizer,
      const StepFacts& facts, const StepTarget& target) const override {
    if (!Lives()) return Gone();
    return host_->ReduceStep(spec, FromKept(rows, kept), nullptr,
                             Near(previous), elements, optimizer, facts,
                             Near(target));
  }
  absl::Status Step(const OptimizerConfig& optimizer, const StepFacts& facts,
                    const float* gradient, int64_t elements,
                    const StepTarget& target) const override {
    if (!Lives()) return Gone();
    return host_->Step(optimizer, facts, Near(gradient), elements,
                       Near(target));
  }
  absl::Status Distances(absl::Span<const Row> rows, const float* previous,
                         int64_t elements, int64_t leaf, double* sums,
                         uint8_t* finite,
                         std::shared_ptr<const KeptRows>* kept) const override {
    if (!Lives()) return Gone();
    cpu_.Distances(rows, Near(previous), elements, leaf, sums, finite);
    // Of every other chunk there is no room for the rows.
    if (chunks_measured_++ % 2 == 1) return kept->reset(), absl::OkStatus();
    auto keep = std::make_shared<Kept>();
    for (const Row& row : rows) {
      const auto bytes = static_cast<size_t>(elements * SizeOf(row.dtype));
      keep->sources.push_back(row.data);
      keep->copies.emplace_back(bytes);
      std::memcpy(keep->copies.back().data(), row.data, bytes);
    }
    *kept = std::move(keep);
    return absl::OkStatus();
  }
  absl::Status LeafSquares(const float* values, int64_t elements, int64_t leaf,
                           double* sums) const override {
    if (!Lives()) return Gone();
    return host_->LeafSquares(Near(values), elements, leaf, sums);
  }
  absl::Status Encode(const float* values, int64_t elements, DType to,
                      void* out) const override {
    if (!Lives()) return Gone();
    return host_->Encode(Near(values), elements, to, out);
  }

 private:
  // Past what a process can have.
  static constexpr uintptr_t kFar = uintptr_t{1} << 52;

  struct Kept : KeptRows {
    std::vector<const void*> sources;
    std::vector<std::vector<std::byte>> copies;
  };

  template <class T>
  static T* Moved(T* pointer, uintptr_t by) {
    if (pointer == nullptr) return nullptr;
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + by);
  }
  template <class T>
  static T* Far(T* pointer) {
    return Moved(pointer, kFar);
  }
  template <class T>
  static T* Near(T* pointer) {
    return Moved(pointer, uintptr_t{0} - kFar);
  }
  static StepTarget Near(const StepTarget& target) {
    StepTarget near = target;
    near.in = Near(target.in);
    near.out = Near(target.out);
    near.moment1 = Near(target.moment1);
    near.moment2 = Near(target.moment2);
    return near;
  }

  std::vector<Row> FromKept(absl::Span<const Row> rows,
                            const KeptRows* kept) const {
    std::vector<Row> found(rows.begin(), rows.end());
    if (kept == nullptr) return found;
    const auto* of = static_cast<const Kept*>(kept);
    for (Row& row : found) {
      for (size_t i = 0; i < of->sources.size(); ++i) {
        if (of->sources[i] != row.data) continue;
        row.data = of->copies[i].data();
        ++rows_from_kept_;
        break;
      }
    }
    return found;
  }

  bool Lives() const { return calls_left_-- > 0; }
  static absl::Status Gone() {
    return absl::InternalError("the device is gone");
  }

  const Device& cpu_;
  const std::unique_ptr<ShardDevice> host_;
  mutable std::atomic<int64_t> calls_left_ =
      std::numeric_limits<int64_t>::max();
  mutable std::atomic<int64_t> chunks_measured_ = 0, rows_from_kept_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_SIM_FAR_SHARD_H_
