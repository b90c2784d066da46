#include "server/rules/distances.h"

#include <algorithm>
#include <cmath>

namespace parapet::rules {
namespace {

// -1/2 u' D u, u = a - b, over the entries that differ.
double SquaredDistance(const Distances& distances, absl::Span<const double> a,
                       absl::Span<const double> b) {
  std::vector<int> where;
  std::vector<double> u;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] == b[k]) continue;
    where.push_back(static_cast<int>(k));
    u.push_back(a[k] - b[k]);
  }
  double sum = 0;
  for (size_t p = 0; p < u.size(); ++p) {
    double inner = 0;
    for (size_t q = p + 1; q < u.size(); ++q)
      inner += u[q] * distances(where[p], where[q]);
    sum += u[p] * inner;
  }
  return -sum;  // each pair was met once, so the half is gone
}

std::vector<double> Unit(int size, int at) {
  std::vector<double> row(size);
  row[at] = 1;
  return row;
}

}  // namespace

void Distances::Set(int i, int j, double squared) {
  if (i == j) return;
  if (squared < 0) squared = 0;
  values_[Index(i, j)] = values_[Index(j, i)] = squared;
}

double Distances::Norm(int i) const { return std::sqrt((*this)(i, zero())); }

Distances Distances::Keep(absl::Span<const int> rows) const {
  std::vector<int> all(rows.begin(), rows.end());
  all.push_back(prev());
  all.push_back(zero());
  Distances kept(static_cast<int>(rows.size()));
  for (int i = 0; i < kept.size(); ++i) {
    for (int j = 0; j < i; ++j) kept.Set(i, j, (*this)(all[i], all[j]));
  }
  return kept;
}

Mixing Mixing::Identity(int n) {
  Mixing identity(n, n + 2);
  for (int i = 0; i < n; ++i) identity.at(i, i) = 1;
  return identity;
}

Mixing Compose(const Mixing& outer, const Mixing& inner) {
  Mixing product(outer.rows, inner.columns);
  const int n = inner.columns - 2;
  for (int r = 0; r < outer.rows; ++r) {
    for (int k = 0; k < inner.rows; ++k) {
      const double weight = outer.at(r, k);
      if (weight == 0) continue;
      for (int c = 0; c < inner.columns; ++c)
        product.at(r, c) += weight * inner.at(k, c);
    }
    product.at(r, n) += outer.at(r, inner.rows);
    product.at(r, n + 1) += outer.at(r, inner.rows + 1);
  }
  return product;
}

Distances MixedDistances(const Distances& distances, const Mixing& mixing) {
  const std::vector<double> prev = Unit(distances.size(), distances.prev());
  const std::vector<double> zero = Unit(distances.size(), distances.zero());
  Distances mixed(mixing.rows);
  const auto row = [&](int r) {
    if (r == mixed.prev()) return absl::MakeConstSpan(prev);
    return r == mixed.zero() ? absl::MakeConstSpan(zero) : mixing.row(r);
  };
  for (int i = 0; i < mixed.size(); ++i) {
    for (int j = i + 1; j < mixed.size(); ++j) {
      mixed.Set(i, j, SquaredDistance(distances, row(i), row(j)));
    }
  }
  return mixed;
}

}  // namespace parapet::rules
