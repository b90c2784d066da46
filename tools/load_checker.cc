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
                         const ShardMap& map, const LoadMeans& means,
                         const LoadAttendance& attendance, const Device& device)
    : config_(config),
      map_(map),
      means_(means),
      attendance_(attendance),
      device_(device) {
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
      chunk->versions[0].weights = AsSent(chunk->weights);
    }
    chunks_.push_back(std::move(chunk));
  }
}

// Rounded as the wire rounds them.
std::vector<float> LoadChecker::AsSent(
    const std::vector<float>& weights) const {
  if (config_.wire == DType::kFloat32) return weights;
  const auto count = static_cast<int64_t>(weights.size());
  std::vector<std::byte> stored(
      static_cast<size_t>(count * SizeOf(config_.wire)));
  device_.Encode(weights.data(), count, config_.wire, 1, stored.data());
  std::vector<float> sent(weights.size());
  device_.Decode(stored.data(), config_.wire, 1, count, sent.data());
  return sent;
}

// One round: w - lr x mean, each operation rounded to float32.
std::vector<float> LoadChecker::Next(int64_t index, const Chunk& chunk,
                                     const LoadTurnout& turnout) const {
  std::vector<float> next = chunk.weights;
  // Nobody: the weights stay.
  if (turnout.count() == 0) return next;
  const std::vector<float> means =
      means_.Of(turnout, chunk.version, index, chunk.places);
  const auto lr = static_cast<float>(config_.lr);
  for (size_t i = 0; i < next.size(); ++i) next[i] = next[i] - lr * means[i];
  return next;
}

void LoadChecker::Advance(int64_t index, const Payload* data,
                          Chunk& chunk) const {
  const int server = map_.OwnerOf(index);
  std::vector<float> likeliest, next, sent;
  for (int i = 0;; ++i) {
    const std::optional<LoadTurnout> turnout =
        attendance_.Candidate(chunk.version, server, i);
    if (!turnout.has_value()) break;
    next = Next(index, chunk, *turnout);
    sent = AsSent(next);
    if (data == nullptr ||
        Compare(index, chunk, sent, *data) == Verdict::kRight) {
      likeliest.clear();
      break;
    }
    if (i == 0) likeliest = next;
  }
  // None fits: the first one it should have been.
  if (!likeliest.empty()) {
    next = likeliest;
    sent = AsSent(next);
  }
  chunk.weights = std::move(next);
  chunk.versions[++chunk.version].weights = std::move(sent);
}

LoadChecker::Verdict LoadChecker::Compare(int64_t index, const Chunk& chunk,
                                          const std::vector<float>& weights,
                                          const Payload& data) const {
  const int64_t begin = map_.ChunkRange(index).begin;
  const auto size = static_cast<int64_t>(SizeOf(config_.wire));
  size_t right = 0;
  const size_t count = weights.size();
  if (chunk.places.empty()) {
    std::vector<float> got(count);
    device_.Decode(data.data(), config_.wire, 1, static_cast<int64_t>(count),
                   got.data());
    for (size_t i = 0; i < count; ++i)
      right += SameBits(got[i], weights[i]) ? 1 : 0;
  } else {
    for (size_t i = 0; i < count; ++i) {
      float got = 0;
      device_.Decode(data.data() + (chunk.places[i] - begin) * size,
                     config_.wire, 1, 1, &got);
      right += SameBits(got, weights[i]) ? 1 : 0;
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
  while (config_.values && chunk.version < version)
    Advance(index, chunk.version + 1 == version ? &data : nullptr, chunk);
  if (config_.values && chunk.versions.count(version) == 0) return result;
  Version& known = chunk.versions[version];
  if (known.hash == result.hash) return result;
  if (config_.values)
    result.verdict = Compare(index, chunk, known.weights, data);
  // Right where it was looked at, but not what another player got.
  if (result.verdict == Verdict::kRight && known.hash.has_value())
    result.verdict = Verdict::kTorn;
  if (result.verdict == Verdict::kRight) known.hash = result.hash;
  while (chunk.versions.size() > kKept)
    chunk.versions.erase(chunk.versions.begin());
  return result;
}

}  // namespace parapet
