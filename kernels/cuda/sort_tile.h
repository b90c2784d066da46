#ifndef PARAPET_KERNELS_CUDA_SORT_TILE_H_
#define PARAPET_KERNELS_CUDA_SORT_TILE_H_

#include <cstdint>

#include "kernels/cuda/reduce_coordinate.h"

namespace parapet::cuda {

// More values than registers hold: a block sorts a tile of them in shared
// memory, a few coordinates ("lanes") wide. Each phase below is what one of the
// block's threads does; all threads finish a phase before the next begins, and
// no value is touched by two threads within one. The CPU's tests run the phases
// thread by thread.
struct SortTile {
  float* sorted = nullptr;    // values x lanes
  float* unsorted = nullptr;  // the same in row order; null if not needed
  int* kept = nullptr;        // lanes
  int lanes = 1;
  int64_t begin = 0;  // the first lane's coordinate
};

// Whether the sum is not in ascending order but in that of the rows.
PARAPET_HD bool SumsInRowOrder(Operation op, int values) {
  return op == Operation::kTrimmedMean && values > kMostSummedInOrder;
}

PARAPET_HD void ClearPhase(const ReduceTask& task, const SortTile& tile,
                           int thread, int threads) {
  for (int l = thread; l < tile.lanes; l += threads) tile.kept[l] = task.values;
}

PARAPET_HD float TileValue(const ReduceTask& task, const SortTile& tile,
                           int row, int lane) {
  const int64_t j = tile.begin + lane;
  if (j >= task.elements) return Infinity();
  if (task.mixing.combinations > 0) {
    const float mixed = MixOne(task.rows, task.mixing, row, j,
                               CenterAt(task.rows, task.mixing, j));
    if (!IsFinite(mixed)) AddTo(tile.kept + lane, -1);
    return mixed;
  }
  const float x = ValueAt(task.rows, row, j);
  if (!task.leaves_out || IsFinite(x)) return x;
  AddTo(tile.kept + lane, -1);
  CountBadValue(task.report, row);
  return Infinity();
}

PARAPET_HD void LoadPhase(const ReduceTask& task, const SortTile& tile,
                          int thread, int threads) {
  const int64_t size = int64_t{task.values} * tile.lanes;
  for (int64_t i = thread; i < size; i += threads) {
    const float x = TileValue(task, tile, static_cast<int>(i / tile.lanes),
                              static_cast<int>(i % tile.lanes));
    tile.sorted[i] = x;
    if (tile.unsorted != nullptr) tile.unsorted[i] = x;
  }
}

// Of combinations: a lane in which one is not finite is done again in float64.
PARAPET_HD bool IsMixedAgain(const ReduceTask& task, const SortTile& tile,
                             int lane) {
  return task.mixing.combinations > 0 && tile.kept[lane] != task.values;
}
PARAPET_HD void MixAgainPhase(const ReduceTask& task, const SortTile& tile,
                              int thread, int threads) {
  const int64_t size = int64_t{task.values} * tile.lanes;
  for (int64_t i = thread; i < size; i += threads) {
    const auto lane = static_cast<int>(i % tile.lanes);
    const auto row = static_cast<int>(i / tile.lanes);
    if (!IsMixedAgain(task, tile, lane)) continue;
    tile.sorted[i] =
        MixOneInFloat64(task.rows, task.mixing, row, tile.begin + lane);
    if (tile.unsorted != nullptr) tile.unsorted[i] = tile.sorted[i];
  }
}

// One step of Batcher's sort, see Network: its comparators touch each value at
// most once. The steps: p = 1, 2, 4, ... < values; for each k = p, p/2, ..., 1.
PARAPET_HD void SortPhase(const ReduceTask& task, const SortTile& tile, int p,
                          int k, int thread, int threads) {
  const int first = k % p;
  const int rest = task.values - k - first;  // lows are below this
  if (rest <= 0) return;
  const int64_t lows = (int64_t{rest} + 2 * k - 1) / (2 * k) * k;
  for (int64_t i = thread; i < lows * tile.lanes; i += threads) {
    const auto lane = static_cast<int>(i % tile.lanes);
    const int64_t at = i / tile.lanes;
    const int64_t low = first + at / k * (2 * k) + at % k, high = low + k;
    if (high >= task.values || low / (2 * p) != high / (2 * p)) continue;
    CompareExchange(tile.sorted[low * tile.lanes + lane],
                    tile.sorted[high * tile.lanes + lane]);
  }
}

// The values between the bounds in row order, then as many of those that equal
// a bound as are within the ranks [f, kept - f).
PARAPET_HD double TrimmedInRowOrder(const Column& sorted, const Column& rows,
                                    int values, int kept, int f) {
  const float low = sorted[f], high = sorted[kept - f - 1];
  double sum = 0;
  int to_low = -f, below_high = 0;
  for (int r = 0; r < values; ++r) {
    const float x = rows[r];
    to_low += x <= low;
    below_high += x < high;
    if (x > low && x < high) sum += static_cast<double>(x);
  }
  const bool same = low == high;
  sum += static_cast<double>(low) * (same ? kept - 2 * f : to_low);
  if (!same) sum += static_cast<double>(high) * (kept - f - below_high);
  return sum / (kept - 2 * f);
}

PARAPET_HD void FinishLane(const ReduceTask& task, const SortTile& tile,
                           int lane) {
  const int64_t j = tile.begin + lane;
  const int kept = task.leaves_out ? tile.kept[lane] : task.values;
  if (task.leaves_out && TooFew(task, kept))
    return Finish(task, j, NotANumber());
  const int f = Tolerated(task, kept);
  const Column sorted = {tile.sorted + lane, tile.lanes};
  const double result =
      SumsInRowOrder(task.op, kept)
          ? TrimmedInRowOrder(sorted, {tile.unsorted + lane, tile.lanes},
                              task.values, kept, f)
          : ResultOf(task.op, sorted, kept, f, task.scale);
  Finish(
      task, j, result,
      IsMixedAgain(task, tile, lane) ? 0 : CenterAt(task.rows, task.mixing, j));
}

PARAPET_HD void FinishPhase(const ReduceTask& task, const SortTile& tile,
                            int thread, int threads) {
  for (int l = thread; l < tile.lanes; l += threads) {
    if (tile.begin + l < task.elements) FinishLane(task, tile, l);
  }
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_SORT_TILE_H_
