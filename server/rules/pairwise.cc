#include "server/rules/pairwise.h"

#include <algorithm>
#include <cmath>

#include "server/rules/vector16.h"

namespace parapet::rules {
namespace {

constexpr int kTile = 256;
constexpr int kLanes = 16;
// Below this a float32 sum of squares may have lost denormal squares: 256 of
// them lose at most 256 * 2^-150, which is 2^-42 of this.
constexpr float kTiny = 0x1p-100f;

constexpr float kZeros[kTile] = {};

template <typename T>
T AddLanes(T* lanes) {
  for (int half = kLanes / 2; half >= 1; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// T is what differences, squares and sums are made in.
template <typename T>
void AddSquares(const float* a, const float* b, int64_t count, T* lanes) {
  for (int64_t e = 0; e < count; ++e) {
    const T difference = static_cast<T>(a[e]) - static_cast<T>(b[e]);
    lanes[e % kLanes] += difference * difference;
  }
}

float TileSum(const float* a, const float* b, int64_t count) {
  using V = Vector16<float>;
  V::type sums[kLanes / V::kSize] = {};
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t e = 0; e < whole; e += kLanes) {
    for (int v = 0; v < kLanes / V::kSize; ++v) {
      const int64_t at = e + v * V::kSize;
      const V::type difference = V::Load(a + at) - V::Load(b + at);
      sums[v] += difference * difference;
    }
  }
  float lanes[kLanes];
  for (int v = 0; v < kLanes / V::kSize; ++v)
    V::Store(sums[v], lanes + v * V::kSize);
  AddSquares(a + whole, b + whole, count - whole, lanes);
  return AddLanes(lanes);
}

double TileSumInFloat64(const float* a, const float* b, int64_t count) {
  double lanes[kLanes] = {};
  AddSquares(a, b, count, lanes);
  return AddLanes(lanes);
}

double TileDistance(const float* a, const float* b, int64_t count) {
  if (a == b) return 0;  // prev and zero, where there is no prev
  const float sum = TileSum(a, b, count);
  if (sum >= kTiny && std::isfinite(sum)) return sum;
  return TileSumInFloat64(a, b, count);
}

void AddZeros(const float* row, int64_t count, float* lanes) {
  for (int64_t e = 0; e < count; ++e) lanes[e % kLanes] += row[e] * 0.0f;
}

// Calls `visit` with the number, among the pairs of n vectors, prev and zero,
// of each pair of `rows`, prev and zero.
template <typename Visit>
void ForPairs(absl::Span<const int> rows, int n, const Visit& visit) {
  std::vector<int64_t> at(rows.begin(), rows.end());
  at.push_back(n);
  at.push_back(n + 1);
  for (size_t a = 0; a < at.size(); ++a) {
    // Pairs of the vectors before this one: (n + 1) + n + ...
    const int64_t begin = at[a] * (2 * int64_t{n} + 3 - at[a]) / 2;
    for (size_t b = a + 1; b < at.size(); ++b) visit(begin + at[b] - at[a] - 1);
  }
}

bool AllFinite(const float* row, int64_t count) {
  // x * 0 is 0, or NaN where x is not finite; and NaN stays.
  float lanes[kLanes] = {};
  AddZeros(row, count, lanes);
  return AddLanes(lanes) == 0;
}

}  // namespace

void LeafDistances(absl::Span<const float* const> rows, const float* prev,
                   int64_t elements, double* sums, uint8_t* finite) {
  const int n = static_cast<int>(rows.size());
  std::fill(sums, sums + PairCount(n), 0.0);
  std::vector<const float*> at(n + 2);
  for (int64_t begin = 0; begin < elements; begin += kTile) {
    const int64_t count = std::min<int64_t>(kTile, elements - begin);
    for (int i = 0; i < n; ++i) {
      at[i] = rows[i] + begin;
      if (!AllFinite(at[i], count)) finite[i] = 0;
    }
    at[n] = prev == nullptr ? kZeros : prev + begin;
    at[n + 1] = kZeros;
    double* sum = sums;
    for (int i = 0; i < n + 2; ++i) {
      for (int j = i + 1; j < n + 2; ++j)
        *sum++ += TileDistance(at[i], at[j], count);
    }
  }
}

std::vector<int> PositionsOf(absl::Span<const uint32_t> all,
                             absl::Span<const uint32_t> some) {
  std::vector<int> positions;
  for (uint32_t worker : some) {
    const auto at = std::lower_bound(all.begin(), all.end(), worker);
    positions.push_back(static_cast<int>(at - all.begin()));
  }
  return positions;
}

void PartialDistances::AddLeaf(absl::Span<const float* const> rows,
                               const float* prev, int64_t elements) {
  std::vector<double> sums(sums_.size());
  std::vector<uint8_t> finite(n_, 1);
  LeafDistances(rows, prev, elements, sums.data(), finite.data());
  AddSums(sums.data(), finite.data());
}

void PartialDistances::AddSums(const double* sums, const uint8_t* finite) {
  for (size_t pair = 0; pair < sums_.size(); ++pair)
    sums_[pair].Add(sums[pair]);
  for (int i = 0; i < n_; ++i) finite_[i] &= finite[i];
}

void PartialDistances::AddSums(absl::Span<const int> rows, const double* sums,
                               const uint8_t* finite) {
  ForPairs(rows, n_, [&](int64_t pair) { sums_[pair].Add(*sums++); });
  for (int row : rows) finite_[row] &= *finite++;
}

PartialDistances PartialDistances::Keep(absl::Span<const int> rows) const {
  PartialDistances kept(static_cast<int>(rows.size()));
  auto sum = kept.sums_.begin();
  ForPairs(rows, n_, [&](int64_t pair) { *sum++ = sums_[pair]; });
  for (size_t i = 0; i < rows.size(); ++i) kept.finite_[i] = finite_[rows[i]];
  return kept;
}

void PartialDistances::Merge(const PartialDistances& other) {
  for (size_t pair = 0; pair < sums_.size(); ++pair)
    sums_[pair].Merge(other.sums_[pair]);
  for (int i = 0; i < n_; ++i) finite_[i] &= other.finite_[i];
}

Distances PartialDistances::Round() const {
  Distances distances(n_);
  auto sum = sums_.begin();
  for (int i = 0; i < n_ + 2; ++i) {
    for (int j = i + 1; j < n_ + 2; ++j) distances.Set(i, j, (sum++)->Round());
  }
  return distances;
}

}  // namespace parapet::rules
