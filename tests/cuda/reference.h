#ifndef PARAPET_TESTS_CUDA_REFERENCE_H_
#define PARAPET_TESTS_CUDA_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cuda/cases.h"

// What the kernels should give, by the definitions alone and in float64.
namespace parapet::cuda::testing {

struct Expected {
  double value = 0;
  double tolerance = 0;
  bool bad = false;  // too few values: 0
};

inline double MeanOfRange(const std::vector<double>& values, size_t begin,
                          size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += values[i];
  return sum / static_cast<double>(end - begin);
}

inline double MedianOfSorted(const std::vector<double>& values) {
  return MeanOfRange(values, (values.size() - 1) / 2, values.size() / 2 + 1);
}

// The values nearest to a center, the smaller first on ties.
inline double NearestMean(std::vector<double> values, int f, double center) {
  std::stable_sort(values.begin(), values.end(), [&](double a, double b) {
    return std::abs(a - center) < std::abs(b - center);
  });
  return MeanOfRange(values, 0, values.size() - f);
}

inline double ApplyOperation(Operation op, std::vector<double> values, int f,
                             double scale) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  switch (op) {
    case Operation::kMean:
      return MeanOfRange(values, 0, n);
    case Operation::kMedian:
      return MedianOfSorted(values);
    case Operation::kTrimmedMean:
      return MeanOfRange(values, f, n - f);
    case Operation::kMeamed:
      return NearestMean(values, f, MedianOfSorted(values));
    case Operation::kPhocas:
      return NearestMean(values, f, MeanOfRange(values, f, n - f));
    case Operation::kSignVote:
      break;
  }
  int votes = 0;
  for (double x : values) votes += (x > 0) - (x < 0);
  return scale * ((votes > 0) - (votes < 0));
}

// Rows as they are.
inline Expected ExpectedOfRows(const ReduceCase& c, const ReduceData& data,
                               int64_t j) {
  std::vector<double> values;
  double sum = 0, total = 0, largest = 0;
  for (int r = 0; r < c.rows; ++r) {
    const double x = data.Value(c, r, j);
    if (!std::isfinite(x)) continue;
    values.push_back(x);
    const double weight = data.specification.rows[r].weight;
    sum += weight * x;
    total += weight;
    largest = std::max(largest, std::abs(x));
  }
  const auto kept = static_cast<int>(values.size());
  const double tolerance = largest * 0x1p-22;
  if (c.op == Operation::kMean)
    return {total > 0 ? sum / total : 0, tolerance, total == 0};
  if (kept == 0 || kept < c.rows - c.f) return {0, 0, true};
  const int f = std::max(0, c.f - (c.rows - kept));
  return {ApplyOperation(c.op, values, f, data.specification.scale), tolerance,
          false};
}

inline Expected ExpectedOfMixed(const ReduceCase& c, const ReduceData& data,
                                int64_t j) {
  std::vector<double> values;
  double largest = 0;  // sum of what is added up
  for (int r = 0; r < c.combinations; ++r) {
    const double* weights = &data.mixing[static_cast<size_t>(r) * (c.rows + 2)];
    double sum = 0, of_sizes = 0;
    for (int k = 0; k <= c.rows; ++k) {
      if (weights[k] == 0 || (k == c.rows && !c.previous)) continue;
      const double x = k < c.rows ? data.Value(c, k, j)
                                  : static_cast<double>(data.previous[j]);
      sum += weights[k] * x;
      of_sizes += std::abs(weights[k] * x);
    }
    values.push_back(sum);
    largest = std::max(largest, of_sizes);
  }
  // Weights, differences from a center (which is as large as they may be), the
  // sum's terms and the result are rounded to float32.
  return {ApplyOperation(c.op, values, c.f, data.specification.scale),
          largest * (c.rows + 8) * 0x1p-23, false};
}

inline Expected ExpectedAt(const ReduceCase& c, const ReduceData& data,
                           int64_t j) {
  return c.mix == Mix::kNone ? ExpectedOfRows(c, data, j)
                             : ExpectedOfMixed(c, data, j);
}

// Whether float32 decides as float64 does: where a value is near another
// choice, a mean of the nearest is far from it, and so is the sign of a sum
// near 0.
inline bool IsDecided(const ReduceCase& c) {
  const bool choosy = c.op == Operation::kMeamed ||
                      c.op == Operation::kPhocas ||
                      c.op == Operation::kSignVote;
  return !choosy || ((c.mix == Mix::kNone || c.mix == Mix::kSelection) &&
                     DividesExactly(c.scale));
}

// Of vectors a, b (rows, previous, zero) over one leaf.
inline Expected ExpectedDistance(const DistanceCase& c,
                                 const DistanceData& data, int64_t leaf, int a,
                                 int b) {
  const auto value = [&](int vector, int64_t j) -> double {
    if (vector < c.rows) {
      return static_cast<double>(ValueAt(
          {data.staged.data(), data.entries.data(), c.rows, c.staged_type()},
          vector, j));
    }
    return vector == c.rows && c.previous
               ? static_cast<double>(data.previous[j])
               : 0.0;
  };
  double sum = 0;
  const int64_t end = std::min(c.elements, (leaf + 1) * c.leaf);
  for (int64_t j = leaf * c.leaf; j < end; ++j) {
    const double d = value(a, j) - value(b, j);
    sum += d * d;
  }
  return {sum, sum * 0x1p-18, !std::isfinite(sum)};
}

}  // namespace parapet::cuda::testing

#endif  // PARAPET_TESTS_CUDA_REFERENCE_H_
