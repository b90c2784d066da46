#include <algorithm>
#include <cstring>

#include "common/buffer_pool.h"
#include "kernels/shard_device.h"

namespace parapet {
namespace {

class HostShardDevice : public ShardDevice {
 public:
  explicit HostShardDevice(const Device& device) : device_(device) {}

  std::string name() const override { return device_.name(); }
  bool is_host() const override { return true; }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(
      size_t bytes) const override {
    return MakeBuffer(bytes);
  }
  std::shared_ptr<std::byte> AllocateHost(size_t bytes) const override {
    return MakeBuffer(bytes);
  }
  absl::Status Upload(const void* host, size_t bytes,
                      std::byte* device) const override {
    std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(const std::byte* device, size_t bytes,
                        void* host) const override {
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<ReduceReport> Reduce(const ReduceSpec& spec,
                                      absl::Span<const Row> rows,
                                      const KeptRows* kept, float* previous,
                                      int64_t elements,
                                      float* aggregate) const override {
    ReduceReport report =
        device_.Reduce(spec, rows, previous, elements, aggregate);
    if (previous != nullptr) std::copy_n(aggregate, elements, previous);
    return report;
  }

  absl::StatusOr<ReduceReport> ReduceStep(
      const ReduceSpec& spec, absl::Span<const Row> rows, const KeptRows* kept,
      float* previous, int64_t elements, const OptimizerConfig& optimizer,
      const StepFacts& facts, const StepTarget& target) const override {
    return device_.ReduceStep(spec, rows, previous, elements, optimizer, facts,
                              target);
  }

  absl::Status Step(const OptimizerConfig& optimizer, const StepFacts& facts,
                    const float* gradient, int64_t elements,
                    const StepTarget& target) const override {
    device_.Step(optimizer, facts, gradient, elements, target);
    return absl::OkStatus();
  }

  absl::Status Distances(absl::Span<const Row> rows, const float* previous,
                         int64_t elements, int64_t leaf, double* sums,
                         uint8_t* finite,
                         std::shared_ptr<const KeptRows>* kept) const override {
    device_.Distances(rows, previous, elements, leaf, sums, finite);
    kept->reset();
    return absl::OkStatus();
  }

  absl::Status LeafSquares(const float* values, int64_t elements, int64_t leaf,
                           double* sums) const override {
    device_.LeafSquares(values, elements, leaf, sums);
    return absl::OkStatus();
  }

  absl::Status Encode(const float* values, int64_t elements, DType to,
                      void* out) const override {
    device_.Encode(values, elements, to, 1, out);
    return absl::OkStatus();
  }

 private:
  const Device& device_;
};

}  // namespace

std::unique_ptr<ShardDevice> MakeHostShardDevice(const Device& device) {
  return std::make_unique<HostShardDevice>(device);
}

}  // namespace parapet
