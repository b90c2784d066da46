#include "tools/load_values.h"

#include <algorithm>
#include <utility>

#include "common/buffer_pool.h"
#include "common/rng.h"

namespace parapet {
namespace {

// Streams of their own.
constexpr uint64_t kTable = 0x7461626c65, kPlace = 0x706c616365;

std::vector<float> MakeTable(uint64_t seed, int64_t count) {
  std::vector<float> table(static_cast<size_t>(count));
  const uint64_t key = MixKey(seed, kTable);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = MixKey(key, static_cast<uint64_t>(i)) & 63;
    table[static_cast<size_t>(i)] = static_cast<float>(bits) - 31;
  }
  return table;
}

}  // namespace

std::shared_ptr<const std::byte> EncodeForWire(absl::Span<const float> values,
                                               DType wire, double scale,
                                               const Device& device) {
  const auto count = static_cast<int64_t>(values.size());
  std::shared_ptr<std::byte> stored =
      MakeZeroedBuffer(static_cast<size_t>(count * SizeOf(wire)));
  device.Encode(values.data(), count, wire, wire == DType::kFloat16 ? scale : 1,
                stored.get());
  return stored;
}

LoadValues::LoadValues(uint64_t seed, int64_t elements, DType wire,
                       double wire_scale, const Device& device)
    : seed_(seed),
      elements_(elements),
      wire_(wire),
      table_(std::make_shared<const std::vector<float>>(
          MakeTable(seed, elements + kPlaces))) {
  if (wire == DType::kFloat32) {
    stored_ = std::shared_ptr<const std::byte>(
        table_, reinterpret_cast<const std::byte*>(table_->data()));
  } else {
    stored_ = EncodeForWire(*table_, wire, wire_scale, device);
  }
}

int64_t LoadValues::PlaceOf(int worker, uint64_t round) const {
  const uint64_t key = MixKey(MixKey(seed_, kPlace), round);
  return static_cast<int64_t>(MixKey(key, static_cast<uint64_t>(worker)) %
                              static_cast<uint64_t>(kPlaces));
}

Payload LoadValues::Push(int worker, uint64_t round, Range range) const {
  const auto size = static_cast<int64_t>(SizeOf(wire_));
  return Payload(stored_,
                 stored_.get() + (PlaceOf(worker, round) + range.begin) * size,
                 static_cast<size_t>(range.size() * size));
}

void LoadValues::SumAt(absl::Span<const int> workers, uint64_t round,
                       absl::Span<const int64_t> elements, float* sums) const {
  std::fill(sums, sums + elements.size(), 0.0f);
  for (const int worker : workers) {
    const float* values = VectorOf(worker, round);
    for (size_t i = 0; i < elements.size(); ++i) sums[i] += values[elements[i]];
  }
}

void LoadValues::SumOver(absl::Span<const int> workers, uint64_t round,
                         Range range, float* sums) const {
  std::fill(sums, sums + range.size(), 0.0f);
  for (const int worker : workers) {
    const float* values = VectorOf(worker, round) + range.begin;
    for (int64_t i = 0; i < range.size(); ++i) sums[i] += values[i];
  }
}

}  // namespace parapet
