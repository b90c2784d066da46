#ifndef PARAPET_KERNELS_SHARD_DEVICE_H_
#define PARAPET_KERNELS_SHARD_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device.h"

namespace parapet {

// Rows that a device has kept since it measured them. Freed by letting go.
class KeptRows {
 public:
  virtual ~KeptRows() = default;
};

// Where a server's shard lives, and its operations there: the arithmetic of
// Device, bit for bit, on memory that need not be the process's own.
//
// Two kinds of memory. What stays on the device (weights, moments, the previous
// aggregate, an aggregate): an address in it is only for this device's
// operations. And the host's: rows as they were received, at any address, and
// what is published.
//
// Thread-safe: calls on different chunks may run at once. A call returns when
// it is done. Errors are those of the hardware, in words; what a failed call
// was to write then holds anything.
class ShardDevice {
 public:
  virtual ~ShardDevice() = default;
  // E.g. "cpu (AVX2)": part of a process's fingerprint.
  virtual std::string name() const = 0;
  // Whether what stays on the device is the host's memory: what was computed
  // there can be published where it is.
  virtual bool is_host() const = 0;

  // `bytes` bytes of device memory with any content, for any type. Exhausted
  // memory is ResourceExhausted.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(
      size_t bytes) const = 0;
  // Host memory that this device writes fastest; with any content.
  virtual std::shared_ptr<std::byte> AllocateHost(size_t bytes) const = 0;
  virtual absl::Status Upload(const void* host, size_t bytes,
                              std::byte* device) const = 0;
  virtual absl::Status Download(const std::byte* device, size_t bytes,
                                void* host) const = 0;

  // See Device::Reduce. `rows` are in host memory; those that `kept` (may be
  // null) holds, by their address, are not read there again. `previous`, if not
  // null, and `aggregate` are in device memory; `previous` becomes the
  // aggregate.
  virtual absl::StatusOr<ReduceReport> Reduce(const ReduceSpec& spec,
                                              absl::Span<const Row> rows,
                                              const KeptRows* kept,
                                              float* previous, int64_t elements,
                                              float* aggregate) const = 0;

  // The same, then Step.
  virtual absl::StatusOr<ReduceReport> ReduceStep(
      const ReduceSpec& spec, absl::Span<const Row> rows, const KeptRows* kept,
      float* previous, int64_t elements, const OptimizerConfig& optimizer,
      const StepFacts& facts, const StepTarget& target) const = 0;

  // See Device::Step. `gradient` and the target are in device memory, but for
  // target.publish, which is in the host's.
  virtual absl::Status Step(const OptimizerConfig& optimizer,
                            const StepFacts& facts, const float* gradient,
                            int64_t elements,
                            const StepTarget& target) const = 0;

  // See Device::Distances. `rows`, `sums` and `finite` are in host memory. Sets
  // *kept to the rows if the device has room for them, else to null.
  virtual absl::Status Distances(
      absl::Span<const Row> rows, const float* previous, int64_t elements,
      int64_t leaf, double* sums, uint8_t* finite,
      std::shared_ptr<const KeptRows>* kept) const = 0;

  // See Device::LeafSquares. `sums` is in host memory.
  virtual absl::Status LeafSquares(const float* values, int64_t elements,
                                   int64_t leaf, double* sums) const = 0;

  // Values in device memory as `to` in host memory, rounded to nearest even.
  virtual absl::Status Encode(const float* values, int64_t elements, DType to,
                              void* out) const = 0;
};

// The host's own memory, and the kernels of a Device, which must outlive it.
std::unique_ptr<ShardDevice> MakeHostShardDevice(const Device& device);

}  // namespace parapet

#endif  // PARAPET_KERNELS_SHARD_DEVICE_H_
