#include "server/store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/hash.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr const char* kMoments[2] = {"moment1", "moment2"};
constexpr char kPrevious[] = "previous";

}  // namespace

Store::Store(const ShardMap& map, int server, const OptimizerConfig& optimizer,
             DType wire, const Device& device, bool keeps_previous)
    : map_(map),
      server_(server),
      moments_(optimizer.moments()),
      wire_(wire),
      device_(device) {
  chunks_.resize(map_.ChunksOf(server));
  const auto largest =
      static_cast<size_t>(std::min(map_.chunk_elements(), map_.elements()));
  // Two versions in turn, and one more for whoever is behind.
  pool_ = BufferPool::Create(largest * sizeof(float), 3 * chunks_.size());
  for (int64_t local = 0; local < chunks(); ++local) {
    chunks_[local].weights = pool_->Get();
    for (int m = 0; m < moments_; ++m) {
      chunks_[local].moments[m] =
          MakeZeroedBuffer(RangeOf(local).size() * sizeof(float));
    }
    if (keeps_previous) {
      chunks_[local].previous =
          MakeZeroedBuffer(RangeOf(local).size() * sizeof(float));
    }
  }
}

void Store::Initialize(const Layout& layout, uint64_t seed, uint64_t version) {
  for (int64_t local = 0; local < chunks(); ++local) {
    parapet::Initialize(layout, seed, RangeOf(local),
                        Floats(chunks_[local].weights));
  }
  PublishFirst(version);
}

absl::Status Store::Load(Disk& disk, const Snapshot& snapshot,
                         const Layout& layout) {
  PARAPET_ASSIGN_OR_RETURN(
      const SectionReader reader,
      SectionReader::Create(disk, snapshot, layout, "server-"));
  for (int64_t local = 0; local < chunks(); ++local) {
    const Range range = RangeOf(local);
    PARAPET_RETURN_IF_ERROR(
        reader.Read("weights", range, Floats(chunks_[local].weights)));
    for (int m = 0; m < moments_; ++m) {
      PARAPET_RETURN_IF_ERROR(
          reader.Read(kMoments[m], range, Floats(chunks_[local].moments[m])));
    }
    float* previous = PreviousOf(local);
    if (previous != nullptr && reader.Has(kPrevious))
      PARAPET_RETURN_IF_ERROR(reader.Read(kPrevious, range, previous));
  }
  PublishFirst(snapshot.manifest.version);
  return absl::OkStatus();
}

void Store::PublishFirst(uint64_t version) {
  for (int64_t local = 0; local < chunks(); ++local) {
    Chunk& chunk = chunks_[local];
    chunk.next = chunk.weights;
    if (wire_ != DType::kFloat32) {
      chunk.wire_next = pool_->Get();
      device_.Encode(Floats(chunk.weights), RangeOf(local).size(), wire_, 1,
                     chunk.wire_next.get());
    }
    Advance(local, version);
  }
}

StepTarget Store::TargetOf(int64_t local) {
  Chunk& chunk = chunks_[local];
  // Weights that are shared (published, or in a snapshot being written) must
  // not change.
  const bool shared = wire_ == DType::kFloat32 || chunk.weights.use_count() > 1;
  chunk.next = shared ? pool_->Get() : chunk.weights;
  StepTarget target;
  target.in = Floats(chunk.weights);
  target.out = Floats(chunk.next);
  target.moment1 = moments_ > 0 ? Floats(chunk.moments[0]) : nullptr;
  target.moment2 = moments_ > 1 ? Floats(chunk.moments[1]) : nullptr;
  if (wire_ != DType::kFloat32) {
    chunk.wire_next = pool_->Get();
    target.publish = chunk.wire_next.get();
    target.publish_dtype = wire_;
  }
  return target;
}

void Store::Advance(int64_t local, uint64_t version) {
  Chunk& chunk = chunks_[local];
  chunk.weights = std::move(chunk.next);
  const std::shared_ptr<std::byte> wire =
      wire_ == DType::kFloat32 ? chunk.weights : std::move(chunk.wire_next);
  std::vector<Payload>& all = published_[version];
  all.resize(chunks_.size());
  all[local] = Payload(wire, wire.get(), WireBytes(local));
}

void Store::Carry(int64_t local, uint64_t version) {
  const Payload same = Published(version - 1, local);
  std::vector<Payload>& all = published_[version];
  all.resize(chunks_.size());
  all[local] = same;
}

float* Store::AggregateOf(int64_t local) {
  Chunk& chunk = chunks_[local];
  if (chunk.aggregate == nullptr) chunk.aggregate = pool_->Get();
  return Floats(chunk.aggregate);
}

void Store::DropAggregates() {
  for (Chunk& chunk : chunks_) chunk.aggregate.reset();
}

Payload Store::Published(uint64_t version, int64_t local) const {
  auto it = published_.find(version);
  return it == published_.end() ? Payload() : it->second[local];
}

void Store::Drop(uint64_t version) { published_.erase(version); }

uint64_t Store::MasterHash() const {
  uint64_t sum = 0;
  for (int64_t local = 0; local < chunks(); ++local) {
    const Range range = RangeOf(local);
    const absl::Span<const std::byte> bytes(chunks_[local].weights.get(),
                                            range.size() * sizeof(float));
    sum += HashLeaves(bytes, range.begin, sizeof(float), map_.leaf_elements());
  }
  return sum;
}

uint64_t Store::WireHash(uint64_t version) const {
  uint64_t sum = 0;
  for (int64_t local = 0; local < chunks(); ++local) {
    sum += HashLeaves(Published(version, local).bytes(), RangeOf(local).begin,
                      SizeOf(wire_), map_.leaf_elements());
  }
  return sum;
}

// Adds a copy of a chunk's values to a section.
void Store::FreezeCopy(const std::shared_ptr<std::byte>& values, Range range,
                       size_t section, Frozen* frozen) const {
  const std::shared_ptr<std::byte> copy = pool_->Get();
  std::memcpy(copy.get(), values.get(), range.size() * sizeof(float));
  frozen->sections[section].ranges.push_back(range);
  frozen->sections[section].values.push_back(Floats(copy));
  frozen->owners.push_back(copy);
}

Store::Frozen Store::Freeze() const {
  Frozen frozen;
  frozen.sections.push_back({"weights", {}, {}});
  for (int m = 0; m < moments_; ++m)
    frozen.sections.push_back({kMoments[m], {}, {}});
  const bool previous = !chunks_.empty() && chunks_[0].previous != nullptr;
  if (previous) frozen.sections.push_back({kPrevious, {}, {}});
  for (int64_t local = 0; local < chunks(); ++local) {
    const Chunk& chunk = chunks_[local];
    const Range range = RangeOf(local);
    frozen.sections[0].ranges.push_back(range);
    frozen.sections[0].values.push_back(Floats(chunk.weights));
    frozen.owners.push_back(chunk.weights);
    for (int m = 0; m < moments_; ++m)
      FreezeCopy(chunk.moments[m], range, 1 + m, &frozen);
    if (previous) FreezeCopy(chunk.previous, range, 1 + moments_, &frozen);
  }
  return frozen;
}

}  // namespace parapet
