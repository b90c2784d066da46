#ifndef PARAPET_KERNELS_CUDA_LAUNCH_H_
#define PARAPET_KERNELS_CUDA_LAUNCH_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/distance_tile.h"
#include "kernels/cuda/leaf_squares.h"

namespace parapet::cuda {

// What a GPU can do at most; the defaults are what all of them can.
struct Limits {
  int multiprocessors = 1;
  int64_t blocks = 2147483647;       // of a grid, along x
  int64_t shared_bytes = 48 * 1024;  // of a block
};

// How many blocks of how many threads. No blocks: nothing to do, or (of a
// shape that says so) nothing that would fit.
struct Shape {
  int64_t blocks = 0;
  int threads = 0;
  int64_t shared_bytes = 0;
};

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Threads that each take every (blocks x threads)th element. More blocks than
// fill the GPU a few times over would only begin and end.
inline Shape ElementShape(int64_t elements, int threads, const Limits& limits) {
  constexpr int64_t kBlocksEach = 64;
  const int64_t most =
      std::min(limits.blocks, kBlocksEach * limits.multiprocessors);
  return {std::min(CeilDiv(elements, threads), most), threads, 0};
}

// Sorting `values` values a coordinate in shared memory, in `copies` copies:
// as many lanes as fit into the least that every GPU has, or one lane in the
// most that this one has. lanes = 0: too many values.
struct SortShape {
  Shape shape;
  int lanes = 0;
};
inline SortShape ShapeOfSort(int64_t elements, int64_t values, int copies,
                             const Limits& limits) {
  const auto bytes = [=](int lanes) {
    return lanes *
           (values * copies * int64_t{sizeof(float)} + int64_t{sizeof(int)});
  };
  const int64_t usual = std::min<int64_t>(limits.shared_bytes, 48 * 1024);
  int lanes = 32;
  while (lanes > 1 && bytes(lanes) > usual) lanes /= 2;
  if (bytes(lanes) > limits.shared_bytes) return {};
  const int64_t blocks = std::min(CeilDiv(elements, lanes), limits.blocks);
  return {{blocks, 256, bytes(lanes)}, lanes};
}

// How vectors are put into groups for distances, and what a block takes.
struct DistanceShape {
  int group = 0;  // vectors, a multiple of kBlockVectors
  int groups = 0;
  Shape shape;  // along x: pairs of tiles; along y: pairs of groups
  int64_t group_pairs() const { return int64_t{groups} * (groups + 1) / 2; }
};
inline DistanceShape ShapeOfDistances(int vectors, int64_t tiles,
                                      const Limits& limits) {
  // One group while its pairs of blocks are few enough; then groups of which
  // two fit into the shared memory of every GPU that has code.
  constexpr int kAlone = 20, kMost = 16;
  DistanceShape made;
  made.groups = vectors <= kAlone ? 1 : (vectors + kMost - 1) / kMost;
  const auto each = static_cast<int>(CeilDiv(vectors, made.groups));
  made.group = static_cast<int>(CeilDiv(each, kBlockVectors)) * kBlockVectors;
  const GroupPair largest = {0, made.groups > 1 ? made.group : 0, made.group};
  made.shape.blocks = std::min(CeilDiv(tiles, kTilesAtOnce), limits.blocks);
  made.shape.threads = largest.blocks() * kTilesAtOnce * kTileLanes;
  made.shape.shared_bytes = int64_t{largest.vectors()} * kTilesAtOnce *
                            kTileStride * int64_t{sizeof(float)};
  return made;
}

// The pair of groups of a block along y: (0,0), (0,1), ..., (1,1), ...
PARAPET_HD GroupPair GroupsOf(int group, int groups, int64_t y) {
  int row = 0;
  while (y >= groups - row) y -= groups - row++;
  return {row * group, (row + static_cast<int>(y)) * group, group};
}

// Squares: a thread for each lane of each leaf.
inline constexpr int kLeavesOfBlock = 8;
inline Shape ShapeOfSquares(int64_t leaves, const Limits& limits) {
  return {std::min(CeilDiv(leaves, kLeavesOfBlock), limits.blocks),
          kLeavesOfBlock * kSquareLanes, 0};
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_LAUNCH_H_
