#include "server/rules/pairwise.h"

#include <algorithm>

namespace parapet::rules {
namespace {

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

}  // namespace

std::vector<int> PositionsOf(absl::Span<const uint32_t> all,
                             absl::Span<const uint32_t> some) {
  std::vector<int> positions;
  for (uint32_t worker : some) {
    const auto at = std::lower_bound(all.begin(), all.end(), worker);
    positions.push_back(static_cast<int>(at - all.begin()));
  }
  return positions;
}

void PartialDistances::AddLeaf(const Device& device,
                               absl::Span<const float* const> rows,
                               const float* prev, int64_t elements) {
  std::vector<Row> at;
  for (const float* row : rows) at.push_back({.data = row});
  std::vector<double> sums(sums_.size());
  std::vector<uint8_t> finite(n_, 1);
  device.Distances(at, prev, elements, elements, sums.data(), finite.data());
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
