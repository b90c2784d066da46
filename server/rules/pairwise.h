#ifndef PARAPET_SERVER_RULES_PAIRWISE_H_
#define PARAPET_SERVER_RULES_PAIRWISE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/exact_sum.h"
#include "kernels/device.h"
#include "server/rules/distances.h"

namespace parapet::rules {

// Where each of `some` is in `all`, both ascending and the one a part of the
// other: what a subset of the workers is among the rows below.
std::vector<int> PositionsOf(absl::Span<const uint32_t> all,
                             absl::Span<const uint32_t> some);

// The sum of leaves' distances over any part of the vector, added exactly: the
// same bits for every order and grouping of the leaves.
class PartialDistances {
 public:
  explicit PartialDistances(int n)
      : n_(n), sums_(PairCount(n)), finite_(n, 1) {}
  // From the wire: PairCount(finite.size()) sums.
  PartialDistances(std::vector<ExactSum> sums, const std::vector<bool>& finite)
      : n_(static_cast<int>(finite.size())),
        sums_(std::move(sums)),
        finite_(finite.begin(), finite.end()) {}

  int n() const { return n_; }
  // `elements` at most a leaf, which begins at a leaf's boundary of the layout.
  void AddLeaf(const Device& device, absl::Span<const float* const> rows,
               const float* prev, int64_t elements);
  // What Device::Distances gave for a leaf.
  void AddSums(const double* sums, const uint8_t* finite);
  // The same for some of the n vectors only, ascending: distances to the others
  // miss a part from then on.
  void AddSums(absl::Span<const int> rows, const double* sums,
               const uint8_t* finite);
  // Those of some of the n vectors, ascending.
  PartialDistances Keep(absl::Span<const int> rows) const;
  // other.n() = n().
  void Merge(const PartialDistances& other);

  Distances Round() const;
  std::vector<bool> finite() const { return {finite_.begin(), finite_.end()}; }
  // For the wire: PairCount(n) sums and n flags.
  const std::vector<ExactSum>& sums() const { return sums_; }

 private:
  int n_;
  std::vector<ExactSum> sums_;
  std::vector<uint8_t> finite_;
};

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_PAIRWISE_H_
