#include "server/rules/coordinate.h"

#include <algorithm>
#include <cmath>

#include "server/rules/vector16.h"

namespace parapet::rules {
namespace {

constexpr int kLanes = kTileLanes;

template <typename T>
void CompareExchange(T* low, T* high) {
  using V = Vector16<T>;
  for (int l = 0; l < kLanes; l += V::kSize) {
    const typename V::type a = V::Load(low + l), b = V::Load(high + l);
    V::Store(b < a ? b : a, low + l);
    V::Store(b < a ? a : b, high + l);
  }
}

// Sums rows [begin, end) of each lane from 0, so that a sum of zeros is +0.
template <typename T>
void SumRows(const T* tile, int begin, int end, double* __restrict sums) {
  std::fill(sums, sums + kLanes, 0.0);
  for (int r = begin; r < end; ++r) {
    const T* row = tile + r * kLanes;
    for (int l = 0; l < kLanes; ++l) sums[l] += static_cast<double>(row[l]);
  }
}

template <typename T>
void WeightedMean(const T* tile, int rows, const double* weights,
                  double* __restrict result) {
  double total = 0;
  std::fill(result, result + kLanes, 0.0);
  for (int r = 0; r < rows; ++r) {
    if (weights[r] == 0) continue;
    total += weights[r];
    const T* row = tile + r * kLanes;
    for (int l = 0; l < kLanes; ++l)
      result[l] += weights[r] * static_cast<double>(row[l]);
  }
  for (int l = 0; l < kLanes; ++l) result[l] /= total;
}

template <typename T>
void MeanOfRows(const T* tile, int begin, int end, double* result) {
  SumRows(tile, begin, end, result);
  for (int l = 0; l < kLanes; ++l) result[l] /= end - begin;
}

template <typename T>
void MedianOfRows(const T* sorted, int rows, double* result) {
  MeanOfRows(sorted, (rows - 1) / 2, rows / 2 + 1, result);
}

// The mean of the rows - f values of one lane nearest to `center`: the farther
// end of the sorted values goes f times, the larger value on ties.
template <typename T>
double MeanNearest(const T* sorted, int lane, int rows, int f, double center) {
  const auto value = [&](int r) {
    return static_cast<double>(sorted[r * kLanes + lane]);
  };
  int begin = 0, end = rows;
  for (int k = 0; k < f; ++k) {
    // 2 center against the sum of the ends, not the differences: between the
    // two middle values of an even median the tie is exact.
    if (2 * center > value(begin) + value(end - 1)) {
      ++begin;
    } else {
      --end;
    }
  }
  double sum = 0;
  for (int r = begin; r < end; ++r) sum += value(r);
  return sum / (end - begin);
}

template <typename T>
void MeansNearest(const T* sorted, int rows, int f, double* centers) {
  for (int l = 0; l < kLanes; ++l)
    centers[l] = MeanNearest(sorted, l, rows, f, centers[l]);
}

template <typename T>
void SignVote(const T* tile, int rows, double scale,
              double* __restrict result) {
  std::fill(result, result + kLanes, 0.0);
  for (int r = 0; r < rows; ++r) {
    const T* row = tile + r * kLanes;
    for (int l = 0; l < kLanes; ++l) result[l] += (row[l] > 0) - (row[l] < 0);
  }
  for (int l = 0; l < kLanes; ++l)
    result[l] = scale * ((result[l] > 0) - (result[l] < 0));
}

bool NeedsOrder(CoordinateOp op) {
  return op != CoordinateOp::kMean && op != CoordinateOp::kSignVote;
}

}  // namespace

std::vector<std::pair<int, int>> SortingNetwork(int rows) {
  std::vector<std::pair<int, int>> network;
  for (int p = 1; p < rows; p *= 2) {
    for (int k = p; k >= 1; k /= 2) {
      for (int j = k % p; j + k < rows; j += 2 * k) {
        for (int i = 0; i < k && i + j + k < rows; ++i) {
          // Comparators within one block of 2p only; those past the end would
          // meet infinities.
          if ((i + j) / (p * 2) == (i + j + k) / (p * 2))
            network.emplace_back(i + j, i + j + k);
        }
      }
    }
  }
  return network;
}

ColumnReducer::ColumnReducer(const Coordinate& coordinate, int rows)
    : coordinate_(coordinate), rows_(rows) {
  if (NeedsOrder(coordinate.op)) network_ = SortingNetwork(rows);
}

template <typename T>
void ColumnReducer::Reduce(T* tile, const double* weights, float* out) const {
  for (auto [low, high] : network_)
    CompareExchange(tile + low * kLanes, tile + high * kLanes);
  const int f = coordinate_.f;
  double result[kLanes];
  switch (coordinate_.op) {
    case CoordinateOp::kMean:
      if (weights != nullptr) {
        WeightedMean(tile, rows_, weights, result);
      } else {
        MeanOfRows(tile, 0, rows_, result);
      }
      break;
    case CoordinateOp::kMedian:
      MedianOfRows(tile, rows_, result);
      break;
    case CoordinateOp::kTrimmedMean:
      MeanOfRows(tile, f, rows_ - f, result);
      break;
    case CoordinateOp::kMeamed:
      MedianOfRows(tile, rows_, result);
      MeansNearest(tile, rows_, f, result);
      break;
    case CoordinateOp::kPhocas:
      MeanOfRows(tile, f, rows_ - f, result);
      MeansNearest(tile, rows_, f, result);
      break;
    case CoordinateOp::kSignVote:
      SignVote(tile, rows_, coordinate_.scale, result);
      break;
  }
  // + 0.0 makes -0 into +0: which of two zeros a sort puts where is nobody's
  // business.
  for (int l = 0; l < kLanes; ++l) out[l] = static_cast<float>(result[l] + 0.0);
}

void ColumnReducer::ReduceTile(float* tile, const double* weights,
                               float* out) const {
  Reduce(tile, weights, out);
}

void ColumnReducer::ReduceTile(double* tile, const double* weights,
                               float* out) const {
  Reduce(tile, weights, out);
}

}  // namespace parapet::rules
