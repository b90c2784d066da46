#include "tools/load_checker.h"

#include <algorithm>
#include <cstring>

#include "common/hash.h"
#include "common/rng.h"

namespace parapet {
namespace {

constexpr uint64_t kPlaces = 0x73616d706c65;

std::vector<int64_t> PickPlaces(uint64_t seed, Range range) {
  std::vector<int64_t> places = {range.begin, range.end - 1};
  Random random(MixKey(seed, kPlaces), static_cast<uint64_t>(range.begin));
  while (static_cast<int64_t>(places.size()) <
         std::min(LoadChecker::kSamples, range.size())) {
    places.push_back(range.begin + static_cast<int64_t>(random.Below(
                                       static_cast<uint64_t>(range.size()))));
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

}  // namespace

LoadChecker::LoadChecker(const Config& config, uint64_t seed,
                         const ShardMap& map, const LoadValues& values,
                         const Device& device)
    : config_(config), map_(map), values_(values), device_(device) {
  for (int64_t c = 0; c < map_.chunks(); ++c) {
    auto chunk = std::make_unique<Chunk>();
    const Range range = map_.ChunkRange(c);
    if (config_.check == LoadCheck::kSampled)
      chunk->places = PickPlaces(seed, range);
    if (config_.values && config_.check != LoadCheck::kNone) {
      MutexLock lock(&chunk->mutex);
      chunk->weights.assign(chunk->places.empty()
                                ? static_cast<size_t>(range.size())
                                : chunk->places.size(),
                            0.0f);
      Remember(*chunk);
    }
    chunks_.push_back(std::move(chunk));
  }
}

// The weights of the newest version, rounded as the wire rounds them.
void LoadChecker::Remember(Chunk& chunk) const {
  Version& version = chunk.versions[chunk.version];
  version.weights = chunk.weights;
  if (config_.wire == DType::kFloat32) return;
  const auto count = static_cast<int64_t>(chunk.weights.size());
  std::vector<std::byte> stored(
      static_cast<size_t>(count * SizeOf(config_.wire)));
  device_.Encode(chunk.weights.data(), count, config_.wire, 1, stored.data());
  device_.Decode(stored.data(), config_.wire, 1, count, version.weights.data());
}

// One round: w - lr x mean, each operation rounded to float32.
void LoadChecker::Advance(int64_t index, Chunk& chunk) const {
  std::vector<float> sums(chunk.weights.size());
  if (chunk.places.empty()) {
    values_.SumOver(config_.workers, chunk.version, map_.ChunkRange(index),
                    sums.data());
  } else {
    values_.SumAt(config_.workers, chunk.version, chunk.places, sums.data());
  }
  const auto lr = static_cast<float>(config_.lr);
  const double workers = config_.workers;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto mean =
        static_cast<float>(static_cast<double>(sums[i]) / workers);
    chunk.weights[i] = chunk.weights[i] - lr * mean;
  }
  ++chunk.version;
  Remember(chunk);
}

LoadChecker::Verdict LoadChecker::Compare(int64_t index, const Chunk& chunk,
                                          const Version& version,
                                          const Payload& data) const {
  const int64_t begin = map_.ChunkRange(index).begin;
  const auto size = static_cast<int64_t>(SizeOf(config_.wire));
  size_t right = 0;
  const size_t count = version.weights.size();
  if (chunk.places.empty()) {
    std::vector<float> got(count);
    device_.Decode(data.data(), config_.wire, 1, static_cast<int64_t>(count),
                   got.data());
    for (size_t i = 0; i < count; ++i)
      right += SameBits(got[i], version.weights[i]) ? 1 : 0;
  } else {
    for (size_t i = 0; i < count; ++i) {
      float got = 0;
      device_.Decode(data.data() + (chunk.places[i] - begin) * size,
                     config_.wire, 1, 1, &got);
      right += SameBits(got, version.weights[i]) ? 1 : 0;
    }
  }
  if (right == count) return Verdict::kRight;
  return right == 0 ? Verdict::kWrong : Verdict::kTorn;
}

LoadChecker::Result LoadChecker::Check(uint64_t version, int64_t index,
                                       const Payload& data) {
  Result result;
  result.hash = HashLeaves(data.bytes(), map_.ChunkRange(index).begin,
                           static_cast<int64_t>(SizeOf(config_.wire)),
                           map_.leaf_elements());
  if (config_.check == LoadCheck::kNone) return result;
  Chunk& chunk = *chunks_[static_cast<size_t>(index)];
  MutexLock lock(&chunk.mutex);
  while (config_.values && chunk.version < version) Advance(index, chunk);
  if (config_.values && chunk.versions.count(version) == 0) return result;
  Version& known = chunk.versions[version];
  if (known.hash == result.hash) return result;
  if (config_.values) result.verdict = Compare(index, chunk, known, data);
  // Right where it was looked at, but not what another player got.
  if (result.verdict == Verdict::kRight && known.hash.has_value())
    result.verdict = Verdict::kTorn;
  if (result.verdict == Verdict::kRight) known.hash = result.hash;
  while (chunk.versions.size() > kKept)
    chunk.versions.erase(chunk.versions.begin());
  return result;
}

}  // namespace parapet
