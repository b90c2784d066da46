#ifndef PARAPET_KERNELS_CUDA_DISTANCE_TILE_H_
#define PARAPET_KERNELS_CUDA_DISTANCE_TILE_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/rows.h"

namespace parapet::cuda {

// Squared distances, see parapet::Device::Distances: the vectors are the rows,
// the previous aggregate (null: zero) and zero. A block of threads measures all
// pairs of some groups of vectors over two tiles of 256 coordinates in shared
// memory; each of its warps takes the 16 pairs of four vectors with four
// others, 16 threads for the 16 lanes of either tile. Sums of tiles then wait
// in memory to be added in order.
inline constexpr int kTileElements = 256;
inline constexpr int kTileLanes = 16;
inline constexpr int kTilesAtOnce = 2;
inline constexpr int kBlockVectors = 4;
inline constexpr int kBlockPairs = kBlockVectors * kBlockVectors;
// A lane's 16 values lie together, and 4 unused ones behind them: a quarter of
// a warp that reads 16 bytes of each lane then meets every bank once.
inline constexpr int kLaneStride = kTileElements / kTileLanes + 4;
inline constexpr int kTileStride = kTileLanes * kLaneStride;
// Below this a float32 sum of squares may have lost denormal squares.
inline constexpr float kTinySum = 0x1p-100f;

struct DistanceTask {
  Rows rows;
  const float* previous = nullptr;
  int64_t elements = 0;
  int64_t leaf = 1;
  double* tile_sums = nullptr;  // tiles x pairs
  double* sums = nullptr;       // leaves x pairs
  uint8_t* finite = nullptr;    // leaves x rows, 1 at first

  PARAPET_HD int vectors() const { return rows.count + 2; }
  PARAPET_HD int64_t pairs() const {
    return int64_t{rows.count + 2} * (rows.count + 1) / 2;
  }
  PARAPET_HD int64_t leaves() const { return (elements + leaf - 1) / leaf; }
  PARAPET_HD int64_t tiles_of_leaf() const {
    return (leaf + kTileElements - 1) / kTileElements;
  }
  // Of the last leaf some may be empty.
  PARAPET_HD int64_t tiles() const { return leaves() * tiles_of_leaf(); }
};

// The place of pair (a, b), a < b, in the order (0,1), (0,2), ..., (1,2), ...
PARAPET_HD int64_t PairPlace(int vectors, int a, int b) {
  return int64_t{a} * (2 * vectors - 1 - a) / 2 + b - a - 1;
}

// The coordinates of a tile.
struct TileRange {
  int64_t begin = 0;
  int count = 0;
};
PARAPET_HD TileRange RangeOfTile(const DistanceTask& task, int64_t tile) {
  const int64_t leaf = tile / task.tiles_of_leaf();
  const int64_t at = tile % task.tiles_of_leaf() * kTileElements;
  const int64_t begin = leaf * task.leaf + at;
  int64_t end = leaf * task.leaf + task.leaf;
  if (end > task.elements) end = task.elements;
  int64_t count = end - begin;
  if (tile >= task.tiles() || count < 0) count = 0;
  return {begin,
          static_cast<int>(count < kTileElements ? count : kTileElements)};
}

// Which vectors a block of threads compares: [a, a + size) with [b, b + size),
// or, if a = b, among themselves. `size` is a multiple of kBlockVectors; behind
// the last vector there are zeros.
struct GroupPair {
  int a = 0, b = 0, size = 0;

  PARAPET_HD bool within() const { return a == b; }
  PARAPET_HD int vectors() const { return within() ? size : 2 * size; }
  // Pairs of blocks of vectors: one for each warp.
  PARAPET_HD int blocks() const {
    const int side = size / kBlockVectors;
    return within() ? side * (side + 1) / 2 : side * side;
  }
  // The vector at a place in shared memory.
  PARAPET_HD int VectorAt(int place) const {
    return place < size ? a + place : b + place - size;
  }
};

// Where the first vectors of a warp's two blocks are in shared memory.
struct BlockPlaces {
  int a = 0, b = 0;
};
PARAPET_HD BlockPlaces PlacesOf(const GroupPair& groups, int block) {
  const int side = groups.size / kBlockVectors;
  if (!groups.within()) {
    return {block / side * kBlockVectors,
            groups.size + block % side * kBlockVectors};
  }
  int row = 0;
  while (block >= side - row) block -= side - row++;
  return {row * kBlockVectors, (row + block) * kBlockVectors};
}

PARAPET_HD float VectorValue(const DistanceTask& task, int vector, int64_t j) {
  if (vector < task.rows.count) return ValueAt(task.rows, vector, j);
  if (vector > task.rows.count || task.previous == nullptr) return 0;
  return task.previous[j];
}

// Loads a tile of the groups' vectors; zeros behind the end change no sum.
PARAPET_HD void LoadTile(const DistanceTask& task, const GroupPair& groups,
                         const TileRange& range, float* shared, int thread,
                         int threads) {
  uint8_t* finite = task.finite + range.begin / task.leaf * task.rows.count;
  PARAPET_UNROLL_BY(4)
  for (int i = thread; i < groups.vectors() * kTileElements; i += threads) {
    const int place = i / kTileElements, e = i % kTileElements;
    const int vector = groups.VectorAt(place);
    float x = 0;
    if (e < range.count) {
      x = VectorValue(task, vector, range.begin + e);
      if (!IsFinite(x) && vector < task.rows.count) finite[vector] = 0;
    }
    shared[place * kTilesAtOnce * kTileStride + e % kTileLanes * kLaneStride +
           e / kTileLanes] = x;
  }
}

PARAPET_HD void LoadTilesPhase(const DistanceTask& task,
                               const GroupPair& groups, int64_t first,
                               float* shared, int thread, int threads) {
  for (int tile = 0; tile < kTilesAtOnce; ++tile) {
    LoadTile(task, groups, RangeOfTile(task, first + tile),
             shared + tile * kTileStride, thread, threads);
  }
}

// What four consecutive values of a lane are loaded as: 16 bytes at once.
struct alignas(16) Four {
  float x[4];
};

// One lane of one tile of 16 pairs: sums[a * 4 + b].
PARAPET_HD void SumLane(const float* shared, const BlockPlaces& places,
                        int tile, int lane, float (&sums)[kBlockPairs]) {
  constexpr int kVectorStride = kTilesAtOnce * kTileStride;
  const float* from = shared + tile * kTileStride + lane * kLaneStride;
  PARAPET_UNROLL
  for (int p = 0; p < kBlockPairs; ++p) sums[p] = 0;
  PARAPET_UNROLL_BY(1)
  for (int at = 0; at < kTileElements / kTileLanes; at += 4) {
    Four a[kBlockVectors], b[kBlockVectors];
    PARAPET_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      a[v] = *reinterpret_cast<const Four*>(
          from + (places.a + v) * kVectorStride + at);
      b[v] = *reinterpret_cast<const Four*>(
          from + (places.b + v) * kVectorStride + at);
    }
    PARAPET_UNROLL
    for (int e = 0; e < 4; ++e) {
      PARAPET_UNROLL
      for (int p = 0; p < kBlockPairs; ++p) {
        const float d = a[p / kBlockVectors].x[e] - b[p % kBlockVectors].x[e];
        sums[p] = fmaf(d, d, sums[p]);
      }
    }
  }
}

// Adding the lanes, l and l + 8, then + 4, + 2, + 1, by exchange: with each
// step a thread gives half of its sums away and adds what it gets to the
// others; in the end lane l has the whole sum of pair l. kWidth = 8, 4, 2, 1:
// the lane to exchange with is lane ^ kWidth.
template <int kWidth>
PARAPET_HD float Outgoing(const float (&sums)[kBlockPairs], int lane, int i) {
  return (lane & kWidth) != 0 ? sums[i] : sums[i + kWidth];
}
template <int kWidth>
PARAPET_HD void Incoming(float (&sums)[kBlockPairs], int lane, int i,
                         float received) {
  sums[i] = ((lane & kWidth) != 0 ? sums[i + kWidth] : sums[i]) + received;
}

// The sum of a tile in float64, its lanes added in the same order. `a`, `b`:
// the tile of either vector in shared memory.
PARAPET_HD double LaneInFloat64(const float* a, const float* b, int lane) {
  double sum = 0;
  for (int i = lane * kLaneStride; i < lane * kLaneStride + kTileLanes; ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return sum;
}
PARAPET_HD double TileInFloat64(const float* a, const float* b) {
  double sum = 0;  // adding to 0 changes nothing
  PARAPET_UNROLL_BY(1)
  for (int by1 = 0; by1 < 2; ++by1) {
    double sum2 = 0;
    PARAPET_UNROLL_BY(1)
    for (int by2 = by1; by2 < 4; by2 += 2) {
      double sum4 = 0;
      PARAPET_UNROLL_BY(1)
      for (int by4 = by2; by4 < 8; by4 += 4)
        sum4 += LaneInFloat64(a, b, by4) + LaneInFloat64(a, b, by4 + 8);
      sum2 += sum4;
    }
    sum += sum2;
  }
  return sum;
}

// Writes the sum of a pair of a warp's blocks over a tile, if it is a pair.
PARAPET_HD void StoreTileSum(const DistanceTask& task, const GroupPair& groups,
                             const float* shared, const BlockPlaces& places,
                             int64_t first, int tile, int pair, float sum) {
  const int at_a = places.a + pair / kBlockVectors;
  const int at_b = places.b + pair % kBlockVectors;
  const int a = groups.VectorAt(at_a), b = groups.VectorAt(at_b);
  if (a >= b || b >= task.vectors() || first + tile >= task.tiles()) return;
  auto exact = static_cast<double>(sum);
  const bool nothing = a >= task.rows.count && task.previous == nullptr;
  if ((!(sum >= kTinySum) || !IsFinite(sum)) && !nothing) {
    exact = TileInFloat64(shared + (at_a * kTilesAtOnce + tile) * kTileStride,
                          shared + (at_b * kTilesAtOnce + tile) * kTileStride);
  }
  task.tile_sums[(first + tile) * task.pairs() +
                 PairPlace(task.vectors(), a, b)] = exact;
}

// The sum of a pair over a leaf: its tiles in order. `i`: leaf x pairs.
PARAPET_HD void SumLeaf(const DistanceTask& task, int64_t i) {
  const int64_t pairs = task.pairs(), tiles = task.tiles_of_leaf();
  const double* from = task.tile_sums + i / pairs * tiles * pairs + i % pairs;
  double sum = 0;
  PARAPET_UNROLL_BY(4)
  for (int64_t t = 0; t < tiles; ++t) sum += from[t * pairs];
  task.sums[i] = sum;
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_DISTANCE_TILE_H_
