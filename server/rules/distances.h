#ifndef PARAPET_SERVER_RULES_DISTANCES_H_
#define PARAPET_SERVER_RULES_DISTANCES_H_

#include <vector>

#include "absl/types/span.h"

namespace parapet::rules {

// Pairwise squared Euclidean distances of n vectors (in worker-id order), the
// previous aggregate and the zero vector: an (n + 2) x (n + 2) symmetric
// matrix, never below 0, its diagonal exactly 0.
class Distances {
 public:
  explicit Distances(int n)
      : n_(n), values_(static_cast<size_t>(n + 2) * (n + 2)) {}

  int n() const { return n_; }
  int size() const { return n_ + 2; }
  int prev() const { return n_; }
  int zero() const { return n_ + 1; }

  double operator()(int i, int j) const { return values_[Index(i, j)]; }
  // Sets both (i, j) and (j, i), clamped at 0. The diagonal cannot be set.
  void Set(int i, int j, double squared);
  // Euclidean norm of a row.
  double Norm(int i) const;
  // The same for some of the n vectors only, in the order given; prev and zero
  // stay.
  Distances Keep(absl::Span<const int> rows) const;

 private:
  size_t Index(int i, int j) const {
    return static_cast<size_t>(i) * (n_ + 2) + j;
  }

  int n_;
  std::vector<double> values_;
};

// Affine combinations of n vectors, prev and zero: one a row, row-major,
// weights summing to 1.
struct Mixing {
  Mixing() = default;
  Mixing(int row_count, int column_count)
      : rows(row_count),
        columns(column_count),
        weights(static_cast<size_t>(row_count) * column_count) {}
  static Mixing Identity(int n);

  double& at(int r, int c) {
    return weights[static_cast<size_t>(r) * columns + c];
  }
  double at(int r, int c) const {
    return weights[static_cast<size_t>(r) * columns + c];
  }
  absl::Span<const double> row(int r) const {
    return absl::MakeConstSpan(weights).subspan(
        static_cast<size_t>(r) * columns, columns);
  }

  int rows = 0;
  int columns = 0;
  std::vector<double> weights;
};

// The rows of `outer`, which combine the rows of `inner`, prev and zero, as
// combinations of what `inner` combines. outer.columns = inner.rows + 2.
Mixing Compose(const Mixing& outer, const Mixing& inner);

// Distances of the rows of `mixing`, with prev and zero as they are: -1/2 u' D
// u, u the difference of two rows, over the entries of u that are not 0. (Inner
// products about zero would lose close vectors: at an offset of 1e3 and
// differences of 1e-4 nothing is left.) Equal rows have bitwise equal
// distances. O(rows^2 n^2).
Distances MixedDistances(const Distances& distances, const Mixing& mixing);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_DISTANCES_H_
