#include "tests/rules/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>

namespace parapet::rules::reference {
namespace {

using Subset = std::vector<int>;

double Square(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return sum;
}

double Norm(const Vector& a) { return std::sqrt(Square(a, Vector(a.size()))); }

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Vector WeightedMean(const Matrix& x, const Vector& weights) {
  Vector mean(x[0].size());
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < mean.size(); ++j)
      mean[j] += weights[i] * x[i][j] / total;
  }
  return mean;
}

Vector Mean(const Matrix& x) { return WeightedMean(x, Vector(x.size(), 1)); }

Matrix Take(const Matrix& x, const Subset& rows) {
  Matrix taken;
  for (int row : rows) taken.push_back(x[row]);
  return taken;
}

// The `count` rows of least value; ties to the lowest.
Matrix Lowest(const Matrix& x, const Vector& values, int count) {
  Subset rows(x.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::sort(rows.begin(), rows.end(), [&](int a, int b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  rows.resize(count);
  std::sort(
      rows.begin(),
      rows.end());  // so that means of the same rows are equal bit for bit
  return Take(x, rows);
}

Vector SquaresTo(const Matrix& x, const Vector& point) {
  Vector squares;
  for (const Vector& row : x) squares.push_back(Square(row, point));
  return squares;
}

Vector PerCoordinate(const Matrix& x, const std::function<double(Vector)>& op) {
  Vector result;
  for (size_t j = 0; j < x[0].size(); ++j) {
    Vector column;
    for (const Vector& row : x) column.push_back(row[j]);
    std::sort(column.begin(), column.end());
    result.push_back(op(column));
  }
  return result;
}

double MeanOf(const Vector& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

double Median(const Vector& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double Trimmed(const Vector& sorted, int f) {
  return MeanOf(Vector(sorted.begin() + f, sorted.end() - f));
}

double MeanNearest(Vector values, double center, int count) {
  std::stable_sort(values.begin(), values.end(), [&](double a, double b) {
    return std::abs(a - center) < std::abs(b - center);
  });
  values.resize(count);
  return MeanOf(values);
}

double Sign(double value) { return (value > 0) - (value < 0); }

// Krum's score of row i among the rows `left`, with k neighbours.
double Score(const Matrix& x, int i, const Subset& left, int k) {
  Vector squares;
  for (int j : left) {
    if (j != i) squares.push_back(Square(x[i], x[j]));
  }
  std::sort(squares.begin(), squares.end());
  squares.resize(std::min<size_t>(squares.size(), k));
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

Subset All(const Matrix& x) {
  Subset rows(x.size());
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Vector MultiKrum(const Matrix& x, int f, int m) {
  Vector scores;
  for (int i : All(x))
    scores.push_back(Score(x, i, All(x), static_cast<int>(x.size()) - f - 2));
  return Mean(Lowest(x, scores, m));
}

Vector Bulyan(const Matrix& x, int f) {
  Subset left = All(x), picks;
  const int theta = static_cast<int>(x.size()) - 2 * f;
  while (static_cast<int>(picks.size()) < theta) {
    const int k = std::max(1, static_cast<int>(left.size()) - f - 2);
    int winner = left[0];
    for (int i : left) {
      if (Score(x, i, left, k) < Score(x, winner, left, k)) winner = i;
    }
    picks.push_back(winner);
    left.erase(std::find(left.begin(), left.end(), winner));
  }
  return PerCoordinate(Take(x, picks), [&](const Vector& column) {
    return MeanNearest(column, Median(column), theta - 2 * f);
  });
}

// The subset of n-f of least value, the lexicographically first of those within
// `tie` of it.
Vector BestSubset(const Matrix& x, int f, double tie,
                  const std::function<double(const Matrix&)>& value) {
  const int n = static_cast<int>(x.size());
  std::vector<std::pair<double, Subset>> all;
  std::string mask = std::string(n - f, '1') + std::string(f, '0');
  do {
    Subset rows;
    for (int i = 0; i < n; ++i) {
      if (mask[i] == '1') rows.push_back(i);
    }
    all.emplace_back(value(Take(x, rows)), rows);
  } while (std::prev_permutation(mask.begin(), mask.end()));
  double least = std::numeric_limits<double>::infinity();
  for (const auto& one : all) least = std::min(least, one.first);
  for (const auto& one : all) {
    if (one.first <= least + tie * std::abs(least))
      return Mean(Take(x, one.second));
  }
  std::abort();
}

double Diameter(const Matrix& x) {
  double most = 0;
  for (const Vector& a : x) {
    for (const Vector& b : x) most = std::max(most, Square(a, b));
  }
  return most;
}

// Covariance of the coordinates (not an inner product of rows): d x d.
Matrix Covariance(const Matrix& x, const Vector& weights) {
  const size_t d = x[0].size();
  const Vector mean = WeightedMean(x, weights);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  Matrix covariance(d, Vector(d));
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t a = 0; a < d; ++a) {
      for (size_t b = 0; b < d; ++b) {
        covariance[a][b] +=
            weights[i] * (x[i][a] - mean[a]) * (x[i][b] - mean[b]) / total;
      }
    }
  }
  return covariance;
}

// One Jacobi rotation that makes a[p][q] zero; v gathers the rotations.
void Rotate(Matrix& a, Matrix& v, size_t p, size_t q) {
  if (a[p][q] == 0) return;
  const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
  const double t =
      (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  for (size_t k = 0; k < a.size(); ++k) {
    const double kp = a[k][p], kq = a[k][q];
    a[k][p] = c * kp - s * kq;
    a[k][q] = s * kp + c * kq;
  }
  for (size_t k = 0; k < a.size(); ++k) {
    const double pk = a[p][k], qk = a[q][k], vp = v[k][p], vq = v[k][q];
    a[p][k] = c * pk - s * qk;
    a[q][k] = s * pk + c * qk;
    v[k][p] = c * vp - s * vq;
    v[k][q] = s * vp + c * vq;
  }
}

// The top eigenvalue of a symmetric matrix with its unit vector, by Jacobi's
// method.
double TopEigen(Matrix a, Vector* vector) {
  const size_t d = a.size();
  Matrix v(d, Vector(d));
  for (size_t k = 0; k < d; ++k) v[k][k] = 1;
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (size_t p = 0; p < d; ++p) {
      for (size_t q = p + 1; q < d; ++q) Rotate(a, v, p, q);
    }
  }
  size_t top = 0;
  for (size_t k = 0; k < d; ++k) top = a[k][k] > a[top][top] ? k : top;
  vector->clear();
  for (size_t k = 0; k < d; ++k) vector->push_back(v[k][top]);
  return a[top][top];
}

Vector Projections(const Matrix& x, const Vector& mean,
                   const Vector& direction) {
  Vector squares;
  for (const Vector& row : x) {
    double along = 0;
    for (size_t j = 0; j < row.size(); ++j)
      along += (row[j] - mean[j]) * direction[j];
    squares.push_back(along * along);
  }
  return squares;
}

Vector Caf(const Matrix& x, int f) {
  const size_t n = x.size();
  Vector c(n, 1), best = Mean(x), direction;
  double least = std::numeric_limits<double>::infinity();
  const auto total = [&] { return std::accumulate(c.begin(), c.end(), 0.0); };
  for (size_t pass = 0; pass < n && total() > static_cast<double>(n) - 2 * f;
       ++pass) {
    const Vector mean = WeightedMean(x, c);
    const double lambda = TopEigen(Covariance(x, c), &direction);
    if (lambda < least) best = mean;
    least = std::min(least, lambda);
    const Vector tau = Projections(x, mean, direction);
    double most = 0;
    for (size_t i = 0; i < n; ++i)
      most = c[i] > 0 ? std::max(most, tau[i]) : most;
    if (most == 0) break;
    for (size_t i = 0; i < n; ++i) c[i] *= std::max(0.0, 1 - tau[i] / most);
  }
  return best;
}

Vector Dnc(const Matrix& x, int f) {
  Vector direction;
  TopEigen(Covariance(x, Vector(x.size(), 1)), &direction);
  return Mean(Lowest(x, Projections(x, Mean(x), direction),
                     static_cast<int>(x.size()) - f));
}

Vector GeometricMedian(const Matrix& x, double nu, int iterations) {
  Vector z = Mean(x);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    Vector weights;
    for (const Vector& row : x)
      weights.push_back(1 / std::max(nu, std::sqrt(Square(row, z))));
    z = WeightedMean(x, weights);
  }
  return z;
}

Vector CenteredClip(const Matrix& x, double tau, Vector v) {
  for (int iteration = 0; iteration < 3; ++iteration) {
    Vector step(v.size());
    for (const Vector& row : x) {
      const double distance = std::sqrt(Square(row, v));
      const double factor = distance > tau ? tau / distance : 1;
      for (size_t j = 0; j < v.size(); ++j) step[j] += (row[j] - v[j]) * factor;
    }
    for (size_t j = 0; j < v.size(); ++j)
      v[j] += step[j] / static_cast<double>(x.size());
  }
  return v;
}

// The highest of rows that tie is dropped, so that the lowest survive.
Vector Faba(Matrix x, int f) {
  for (int k = 0; k < f; ++k) {
    const Vector squares = SquaresTo(x, Mean(x));
    const double most = *std::max_element(squares.begin(), squares.end());
    size_t drop = 0;
    for (size_t i = 0; i < x.size(); ++i)
      drop = squares[i] >= most * (1 - 1e-12) ? i : drop;
    x.erase(x.begin() + static_cast<int64_t>(drop));
  }
  return Mean(x);
}

Vector Fltrust(Matrix x, size_t root) {
  Vector trust;
  const double length = Norm(x[root]);
  const Vector trusted = x[root];
  for (size_t i = 0; i < x.size(); ++i) {
    const double norm = Norm(x[i]);
    const double cosine =
        norm * length > 0 ? Dot(x[i], trusted) / (norm * length) : 0;
    trust.push_back(i == root ? 1 : std::max(0.0, cosine));
    for (double& value : x[i])
      value *= norm > 0 && i != root ? length / norm : 1;
  }
  return WeightedMean(x, trust);
}

Matrix ClipTo(Matrix x, double bound) {
  for (Vector& row : x) {
    const double norm = Norm(row);
    for (double& value : row) value *= norm > bound ? bound / norm : 1;
  }
  return x;
}

Matrix Arc(const Matrix& x, int f) {
  Vector norms;
  for (const Vector& row : x) norms.push_back(Norm(row));
  std::sort(norms.rbegin(), norms.rend());
  const int n = static_cast<int>(x.size());
  return ClipTo(x, norms[2 * f * (n - f) / n]);
}

Matrix Nnm(const Matrix& x, int f) {
  Matrix mixed;
  for (const Vector& row : x) {
    mixed.push_back(
        Mean(Lowest(x, SquaresTo(x, row), static_cast<int>(x.size()) - f)));
  }
  return mixed;
}

Matrix Buckets(const Matrix& x, size_t s) {  // in the order given
  Matrix mixed;
  for (size_t begin = 0; begin < x.size(); begin += s) {
    const size_t end = std::min(x.size(), begin + s);
    mixed.push_back(Mean(Matrix(x.begin() + begin, x.begin() + end)));
  }
  return mixed;
}

Vector ByCoordinate(const std::string& name, const Matrix& x, int f) {
  const int n = static_cast<int>(x.size());
  return PerCoordinate(x, [&](const Vector& column) {
    if (name == "median") return Median(column);
    if (name == "trimmed_mean") return Trimmed(column, f);
    if (name == "meamed") return MeanNearest(column, Median(column), n - f);
    if (name == "phocas") return MeanNearest(column, Trimmed(column, f), n - f);
    double votes = 0;
    for (double value : column) votes += Sign(value);
    return Sign(votes);
  });
}

}  // namespace

double Subsets(int n, int f) {
  double count = 1;
  for (int k = 0; k < f; ++k) count = count * (n - k) / (k + 1);
  return count;
}

Vector Rule(const std::string& name, const Matrix& x, int f, double option,
            const Vector& prev) {
  const int n = static_cast<int>(x.size());
  const int index = static_cast<int>(option);
  Vector direction;
  if (name == "mean") return Mean(x);
  if (name == "krum") return MultiKrum(x, f, 1);
  if (name == "multi_krum")
    return MultiKrum(x, f, index > 0 ? index : n - f - 2);
  if (name == "bulyan") return Bulyan(x, f);
  if (name == "mda") return BestSubset(x, f, 0, Diameter);
  if (name == "smea") {
    return BestSubset(x, f, 1e-9, [&](const Matrix& rows) {
      return TopEigen(Covariance(rows, Vector(rows.size(), 1)), &direction);
    });
  }
  if (name == "geometric_median") return GeometricMedian(x, 0.1, 3);
  if (name == "centered_clip") return CenteredClip(x, option, prev);
  if (name == "cge")
    return Mean(Lowest(x, SquaresTo(x, Vector(x[0].size())), n - f));
  if (name == "faba") return Faba(x, f);
  if (name == "caf") return Caf(x, f);
  if (name == "monna") return Mean(Lowest(x, SquaresTo(x, x[index]), n - f));
  if (name == "fltrust") return Fltrust(x, index);
  if (name == "dnc") return Dnc(x, f);
  return ByCoordinate(name, x, f);
}

Matrix Mix(const std::string& name, const Matrix& x, int f, double option) {
  if (name == "nnm") return Nnm(x, f);
  if (name == "clip") return ClipTo(x, option);
  if (name == "arc") return Arc(x, f);
  return Buckets(x, static_cast<size_t>(option));
}

}  // namespace parapet::rules::reference
