#include "tools/load_means.h"

#include <cmath>

namespace parapet {

std::vector<float> LoadMeans::Of(const LoadTurnout& turnout, uint64_t round,
                                 int64_t chunk,
                                 absl::Span<const int64_t> places) const {
  const Range range = map_.ChunkRange(chunk);
  std::vector<float> means(places.empty() ? static_cast<size_t>(range.size())
                                          : places.size());
  // Whole numbers: exact, so that their order does not matter.
  if (places.empty()) {
    values_.SumOver(turnout.honest, round, range, means.data());
  } else {
    values_.SumAt(turnout.honest, round, places, means.data());
  }
  std::vector<double> sums(means.begin(), means.end());
  std::vector<double> counts(means.size(),
                             static_cast<double>(turnout.honest.size()));
  for (const int worker : turnout.attackers) {
    const std::vector<float> lies = Lies(worker, round, chunk, places);
    for (size_t i = 0; i < lies.size(); ++i) {
      if (!std::isfinite(lies[i])) continue;
      sums[i] += static_cast<double>(lies[i]);
      ++counts[i];
    }
  }
  for (size_t i = 0; i < means.size(); ++i)
    means[i] = counts[i] == 0 ? 0.0f : static_cast<float>(sums[i] / counts[i]);
  return means;
}

std::vector<float> LoadMeans::Lies(int worker, uint64_t round, int64_t chunk,
                                   absl::Span<const int64_t> places) const {
  const Range range = map_.ChunkRange(chunk);
  const Payload data = attacks_->Push(worker, round, chunk);
  const DType wire = attacks_->wire();
  const auto read = [&](int64_t from, int64_t count, float* out) {
    device_.Decode(data.data() + from * static_cast<int64_t>(SizeOf(wire)),
                   wire, attacks_->scale(), count, out);
  };
  if (places.empty()) {
    std::vector<float> lies(static_cast<size_t>(range.size()));
    read(0, range.size(), lies.data());
    return lies;
  }
  std::vector<float> lies(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    read(places[i] - range.begin, 1, &lies[i]);
  return lies;
}

}  // namespace parapet
