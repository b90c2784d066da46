#include "server/store.h"

#include <algorithm>
#include <utility>

#include "common/hash.h"
#include "common/rounding.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr const char* kMoments[2] = {"moment1", "moment2"};
constexpr char kPrevious[] = "previous";
constexpr size_t kLine = 64;

}  // namespace

Store::Store(const ShardMap& map, int server, const OptimizerConfig& optimizer,
             DType wire, const ShardDevice& device, bool keeps_previous,
             HostMemory memory)
    : Store(map, server, optimizer, wire, nullptr, &device, keeps_previous,
            std::move(memory)) {}

Store::Store(const ShardMap& map, int server, const OptimizerConfig& optimizer,
             DType wire, const Device& device, bool keeps_previous)
    : Store(map, server, optimizer, wire, MakeHostShardDevice(device), nullptr,
            keeps_previous, nullptr) {}

Store::Store(const ShardMap& map, int server, const OptimizerConfig& optimizer,
             DType wire, std::unique_ptr<ShardDevice> own,
             const ShardDevice* device, bool keeps_previous, HostMemory memory)
    : map_(map),
      server_(server),
      moments_(optimizer.moments()),
      wire_(wire),
      keeps_previous_(keeps_previous),
      own_device_(std::move(own)),
      device_(device == nullptr ? *own_device_ : *device) {
  chunks_.resize(map_.ChunksOf(server));
  in_block_.resize(chunks_.size());
  const auto elements =
      static_cast<size_t>(std::min(map_.chunk_elements(), map_.elements()));
  const size_t bytes = elements * sizeof(float);
  // Two versions in turn, and one more for whoever is behind.
  constexpr size_t kVersions = 3;
  const size_t idle = kVersions * chunks_.size();
  const ShardDevice* from = &device_;
  pool_ = BufferPool::CreateFrom(
      [from, bytes] {
        auto buffer = from->Allocate(bytes);
        return buffer.ok() ? *std::move(buffer) : nullptr;
      },
      idle);
  host_pool_ =
      device_.is_host()
          ? pool_
          : BufferPool::CreateFrom(
                [from, bytes] { return from->AllocateHost(bytes); }, idle);
  stride_ = RoundedUp(elements * SizeOf(wire_), kLine);
  blocks_ = BufferPool::CreateFrom(
      [this, memory = std::move(memory)] { return MakeBlock(memory); },
      kVersions);
}

std::shared_ptr<std::byte> Store::MakeBlock(const HostMemory& memory) {
  const size_t bytes = stride_ * chunks_.size();
  std::shared_ptr<std::byte> lent;
  if (device_.is_host() && memory) lent = memory(bytes);
  lends_ = lent != nullptr;
  return lends_ ? lent : device_.AllocateHost(bytes);
}

std::shared_ptr<std::byte> Store::PublishBuffer(int64_t local) {
  if (block_ == nullptr || in_block_[local]) {
    block_ = blocks_->Get();
    std::fill(in_block_.begin(), in_block_.end(), false);
  }
  in_block_[local] = true;
  return {block_, block_.get() + static_cast<size_t>(local) * stride_};
}

absl::Status Store::ReserveZeros(size_t bytes,
                                 std::shared_ptr<std::byte>* buffer) {
  PARAPET_ASSIGN_OR_RETURN(*buffer, device_.Allocate(bytes));
  const std::shared_ptr<std::byte> zeros = MakeZeroedBuffer(bytes);
  return device_.Upload(zeros.get(), bytes, buffer->get());
}

absl::Status Store::Reserve() {
  for (int64_t local = 0; local < chunks(); ++local) {
    Chunk& chunk = chunks_[local];
    const size_t bytes = FloatBytes(local);
    if (device_.is_host()) {
      chunk.weights = WeightsBuffer(local);
    } else {
      PARAPET_ASSIGN_OR_RETURN(chunk.weights, device_.Allocate(bytes));
    }
    for (int m = 0; m < moments_; ++m)
      PARAPET_RETURN_IF_ERROR(ReserveZeros(bytes, &chunk.moments[m]));
    if (keeps_previous_)
      PARAPET_RETURN_IF_ERROR(ReserveZeros(bytes, &chunk.previous));
  }
  return absl::OkStatus();
}

template <class Fill>
absl::Status Store::Put(int64_t local, const Fill& fill,
                        const std::shared_ptr<std::byte>& to) {
  const std::shared_ptr<std::byte> values =
      device_.is_host() ? to : host_pool_->Get();
  PARAPET_RETURN_IF_ERROR(fill(RangeOf(local), Floats(values)));
  if (device_.is_host()) return absl::OkStatus();
  return device_.Upload(values.get(), FloatBytes(local), to.get());
}

absl::Status Store::Initialize(const Layout& layout, uint64_t seed,
                               uint64_t version) {
  PARAPET_RETURN_IF_ERROR(Reserve());
  const auto fill = [&](Range range, float* values) {
    parapet::Initialize(layout, seed, range, values);
    return absl::OkStatus();
  };
  for (int64_t local = 0; local < chunks(); ++local)
    PARAPET_RETURN_IF_ERROR(Put(local, fill, chunks_[local].weights));
  return PublishFirst(version);
}

absl::Status Store::Load(Disk& disk, const Snapshot& snapshot,
                         const Layout& layout) {
  PARAPET_ASSIGN_OR_RETURN(
      const SectionReader reader,
      SectionReader::Create(disk, snapshot, layout, "server-"));
  PARAPET_RETURN_IF_ERROR(Reserve());
  const auto read = [&](const char* section) {
    return [&reader, section](Range range, float* values) {
      return reader.Read(section, range, values);
    };
  };
  for (int64_t local = 0; local < chunks(); ++local) {
    const Chunk& chunk = chunks_[local];
    PARAPET_RETURN_IF_ERROR(Put(local, read("weights"), chunk.weights));
    for (int m = 0; m < moments_; ++m)
      PARAPET_RETURN_IF_ERROR(Put(local, read(kMoments[m]), chunk.moments[m]));
    if (keeps_previous_ && reader.Has(kPrevious))
      PARAPET_RETURN_IF_ERROR(Put(local, read(kPrevious), chunk.previous));
  }
  return PublishFirst(snapshot.manifest.version);
}

absl::Status Store::PublishFirst(uint64_t version) {
  for (int64_t local = 0; local < chunks(); ++local) {
    Chunk& chunk = chunks_[local];
    chunk.next = chunk.weights;
    if (PublishesApart()) {
      chunk.wire_next = PublishBuffer(local);
      PARAPET_RETURN_IF_ERROR(device_.Encode(Floats(chunk.weights),
                                             RangeOf(local).size(), wire_,
                                             chunk.wire_next.get()));
    }
    Advance(local, version);
  }
  return absl::OkStatus();
}

StepTarget Store::TargetOf(int64_t local) {
  Chunk& chunk = chunks_[local];
  // Weights that are shared (published, or in a snapshot being written) must
  // not change.
  const bool shared = !PublishesApart() || chunk.weights.use_count() > 1;
  chunk.next = shared ? WeightsBuffer(local) : chunk.weights;
  StepTarget target;
  target.streams = !PublishesApart() && lends_;
  target.in = Floats(chunk.weights);
  target.out = Floats(chunk.next);
  target.moment1 = moments_ > 0 ? Floats(chunk.moments[0]) : nullptr;
  target.moment2 = moments_ > 1 ? Floats(chunk.moments[1]) : nullptr;
  if (PublishesApart()) {
    chunk.wire_next = PublishBuffer(local);
    target.publish = chunk.wire_next.get();
    target.publish_dtype = wire_;
  }
  return target;
}

void Store::Made(int64_t local, uint64_t version, Payload published) {
  std::vector<Payload>& all = published_[version];
  all.resize(chunks_.size());
  all[local] = std::move(published);
  // The next version does not begin in what carried chunks left of this one's
  // block: its chunks would lie in two, and so would all later ones.
  if (++made_ % chunks() == 0) block_ = nullptr;
}

void Store::Advance(int64_t local, uint64_t version) {
  Chunk& chunk = chunks_[local];
  chunk.weights = std::move(chunk.next);
  const std::shared_ptr<std::byte> wire =
      PublishesApart() ? std::move(chunk.wire_next) : chunk.weights;
  Made(local, version, Payload(wire, wire.get(), WireBytes(local)));
}

void Store::Carry(int64_t local, uint64_t version) {
  Made(local, version, Published(version - 1, local));
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

absl::StatusOr<std::shared_ptr<std::byte>> Store::HostWeights(
    int64_t local) const {
  if (device_.is_host()) return chunks_[local].weights;
  const std::shared_ptr<std::byte> copy = host_pool_->Get();
  PARAPET_RETURN_IF_ERROR(device_.Download(chunks_[local].weights.get(),
                                           FloatBytes(local), copy.get()));
  return copy;
}

absl::StatusOr<uint64_t> Store::MasterHash() const {
  uint64_t sum = 0;
  for (int64_t local = 0; local < chunks(); ++local) {
    PARAPET_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> weights,
                             HostWeights(local));
    const absl::Span<const std::byte> bytes(weights.get(), FloatBytes(local));
    sum += HashLeaves(bytes, RangeOf(local).begin, sizeof(float),
                      map_.leaf_elements());
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
absl::Status Store::FreezeCopy(const std::shared_ptr<std::byte>& values,
                               Range range, size_t section,
                               Frozen* frozen) const {
  const std::shared_ptr<std::byte> copy = host_pool_->Get();
  PARAPET_RETURN_IF_ERROR(device_.Download(
      values.get(), static_cast<size_t>(range.size()) * sizeof(float),
      copy.get()));
  frozen->sections[section].ranges.push_back(range);
  frozen->sections[section].values.push_back(Floats(copy));
  frozen->owners.push_back(copy);
  return absl::OkStatus();
}

absl::StatusOr<Store::Frozen> Store::Freeze() const {
  Frozen frozen;
  frozen.sections.push_back({"weights", {}, {}});
  for (int m = 0; m < moments_; ++m)
    frozen.sections.push_back({kMoments[m], {}, {}});
  const bool previous = !chunks_.empty() && keeps_previous_;
  if (previous) frozen.sections.push_back({kPrevious, {}, {}});
  for (int64_t local = 0; local < chunks(); ++local) {
    const Chunk& chunk = chunks_[local];
    const Range range = RangeOf(local);
    PARAPET_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> weights,
                             HostWeights(local));
    frozen.sections[0].ranges.push_back(range);
    frozen.sections[0].values.push_back(Floats(weights));
    frozen.owners.push_back(std::move(weights));
    for (int m = 0; m < moments_; ++m)
      PARAPET_RETURN_IF_ERROR(
          FreezeCopy(chunk.moments[m], range, 1 + m, &frozen));
    if (previous)
      PARAPET_RETURN_IF_ERROR(
          FreezeCopy(chunk.previous, range, 1 + moments_, &frozen));
  }
  return frozen;
}

}  // namespace parapet
