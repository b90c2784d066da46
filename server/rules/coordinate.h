#ifndef PARAPET_SERVER_RULES_COORDINATE_H_
#define PARAPET_SERVER_RULES_COORDINATE_H_

#include <utility>
#include <vector>

#include "server/rules/plan.h"

namespace parapet::rules {

// Coordinates are worked on in tiles of this many, one row of values after the
// other.
inline constexpr int kTileLanes = 64;

// Pairs (a, b), a < b, which in turn put the smaller of two values first and so
// sort `rows` values: K. Batcher, "Sorting networks and their applications",
// AFIPS 1968. The same for every target.
std::vector<std::pair<int, int>> SortingNetwork(int rows);

// What a coordinate operation makes of one column of finite values; `weights`
// (null: all 1) are the samples of a weighted mean. Sums are in float64: of a
// mean in the order given, of the others in ascending order. The result is
// rounded once, and a zero is +0.
class ColumnReducer {
 public:
  // `rows` >= 1 values a column, with rows > 2f where f values go at each end,
  // > f otherwise.
  ColumnReducer(const Coordinate& coordinate, int rows);

  // Reduces the kTileLanes columns of a tile of rows x kTileLanes values, which
  // it sorts in place. Lanes that hold values that are not finite get anything,
  // and do not disturb their neighbours.
  void ReduceTile(float* tile, const double* weights, float* out) const;
  void ReduceTile(double* tile, const double* weights, float* out) const;

 private:
  template <typename T>
  void Reduce(T* tile, const double* weights, float* out) const;

  Coordinate coordinate_;
  int rows_;
  std::vector<std::pair<int, int>> network_;  // empty where no order is needed
};

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_COORDINATE_H_
