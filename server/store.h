#ifndef PARAPET_SERVER_STORE_H_
#define PARAPET_SERVER_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/buffer_pool.h"
#include "common/checkpoint.h"
#include "common/job.h"
#include "common/layout.h"
#include "common/payload.h"
#include "kernels/device.h"
#include "kernels/shard_device.h"

namespace parapet {

// One shard's memory: weights, optimizer moments, and the published versions of
// the weights. Weights and moments are float32, in the memory of the shard's
// device. A published chunk is in the host's, immutable, and shared with
// whoever is being sent it; on a float32 wire, where the device's memory is the
// host's, it is the weights themselves, so that a step writes each weight once.
// The chunks of a version lie side by side (from line to line), so that whoever
// reads them in shared memory has whole layers in one piece; a version's memory
// is used again when nobody has any of it.
//
// The owner's thread calls everything; between TargetOf and Advance the memory
// of that chunk may be used by another thread.
class Store {
 public:
  // Makes host memory for what is published; null: it has none, and ordinary
  // memory will do.
  using HostMemory = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

  // `keeps_previous`: the rule needs its output of the round before. The
  // device, and what `memory` (may be empty) uses, must outlive it.
  Store(const ShardMap& map, int server, const OptimizerConfig& optimizer,
        DType wire, const ShardDevice& device, bool keeps_previous = false,
        HostMemory memory = nullptr);
  // In the host's memory.
  Store(const ShardMap& map, int server, const OptimizerConfig& optimizer,
        DType wire, const Device& device, bool keeps_previous = false);

  int64_t chunks() const { return static_cast<int64_t>(chunks_.size()); }
  Range RangeOf(int64_t local) const {
    return map_.ChunkRange(map_.ChunkOf(server_, local));
  }

  // Start: fresh weights, or those of a snapshot with their moments and the
  // previous aggregate (0 if the snapshot's rule kept none). Then `version` is
  // published. An error is of the snapshot, or of the device.
  absl::Status Initialize(const Layout& layout, uint64_t seed,
                          uint64_t version);
  absl::Status Load(Disk& disk, const Snapshot& snapshot, const Layout& layout);

  // Where a step from a version to the next reads and writes.
  StepTarget TargetOf(int64_t local);
  // The step of this chunk is done: its new weights are `version`.
  void Advance(int64_t local, uint64_t version);
  // Version `version` of this chunk is the one before.
  void Carry(int64_t local, uint64_t version);
  // Room for a chunk's aggregate while the lead works out its scale; freed by
  // DropAggregates. Null if the device has none left.
  float* AggregateOf(int64_t local);
  bool HasAggregate(int64_t local) const {
    return chunks_[local].aggregate != nullptr;
  }
  void DropAggregates();
  // The rule's output of the round before, which a reduction replaces; 0 at
  // first. Null if it is not kept.
  float* PreviousOf(int64_t local) { return Floats(chunks_[local].previous); }

  Payload Published(uint64_t version, int64_t local) const;
  void Drop(uint64_t version);
  // This shard's part of the hashes of the newest version: of the weights, and
  // as sent.
  absl::StatusOr<uint64_t> MasterHash() const;
  uint64_t WireHash(uint64_t version) const;

  // Everything a snapshot of this moment needs, in the host's memory and kept
  // from later steps: shares the weights if they are there, copies the rest.
  struct Frozen {
    std::vector<Section> sections;
    std::vector<std::shared_ptr<const void>> owners;
  };
  absl::StatusOr<Frozen> Freeze() const;

 private:
  struct Chunk {
    std::shared_ptr<std::byte> weights,
        next;  // next: while a step is under way
    std::shared_ptr<std::byte>
        wire_next;  // likewise, where it is not published as it is
    std::shared_ptr<std::byte> moments[2];
    std::shared_ptr<std::byte> aggregate;
    std::shared_ptr<std::byte> previous;
  };

  static float* Floats(const std::shared_ptr<std::byte>& buffer) {
    return reinterpret_cast<float*>(buffer.get());
  }

  Store(const ShardMap& map, int server, const OptimizerConfig& optimizer,
        DType wire, std::unique_ptr<ShardDevice> own, const ShardDevice* device,
        bool keeps_previous, HostMemory memory);

  // All memory that stays; moments and the previous aggregate are 0.
  absl::Status Reserve();
  absl::Status ReserveZeros(size_t bytes, std::shared_ptr<std::byte>* buffer);
  // Calls fill(range, values) for the host to fill, and puts them into `to`.
  template <class Fill>
  absl::Status Put(int64_t local, const Fill& fill,
                   const std::shared_ptr<std::byte>& to);
  absl::Status PublishFirst(uint64_t version);
  absl::Status FreezeCopy(const std::shared_ptr<std::byte>& values, Range range,
                          size_t section, Frozen* frozen) const;
  // A chunk's weights in the host's memory.
  absl::StatusOr<std::shared_ptr<std::byte>> HostWeights(int64_t local) const;
  std::shared_ptr<std::byte> MakeBlock(const HostMemory& memory);
  // Room for what is published of a chunk in the version that is being made.
  std::shared_ptr<std::byte> PublishBuffer(int64_t local);
  // A chunk of a version is there to be published.
  void Made(int64_t local, uint64_t version, Payload published);
  // Room for a chunk's next weights.
  std::shared_ptr<std::byte> WeightsBuffer(int64_t local) {
    return PublishesApart() ? pool_->Get() : PublishBuffer(local);
  }
  bool PublishesApart() const {
    return wire_ != DType::kFloat32 || !device_.is_host();
  }
  size_t FloatBytes(int64_t local) const {
    return static_cast<size_t>(RangeOf(local).size()) * sizeof(float);
  }
  size_t WireBytes(int64_t local) const {
    return static_cast<size_t>(RangeOf(local).size() * SizeOf(wire_));
  }

  const ShardMap map_;
  const int server_;
  const int moments_;
  const DType wire_;
  const bool keeps_previous_;
  const std::unique_ptr<ShardDevice> own_device_;  // if nobody else has it
  const ShardDevice& device_;
  // Of a chunk's float32 values: the device's, and the host's.
  std::shared_ptr<BufferPool> pool_, host_pool_;
  // Of all that is published of a version, `stride_` bytes a chunk.
  std::shared_ptr<BufferPool> blocks_;
  size_t stride_ = 0;
  std::shared_ptr<std::byte> block_;  // of the version in the making; or null
  std::vector<bool> in_block_;        // the chunks that have their part of it
  int64_t made_ = 0;                  // chunks of all versions
  bool lends_ = false;  // peers read what is published where it is
  std::vector<Chunk> chunks_;
  std::map<uint64_t, std::vector<Payload>> published_;
};

}  // namespace parapet

#endif  // PARAPET_SERVER_STORE_H_
