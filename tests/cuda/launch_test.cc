#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace parapet::cuda {
namespace {

// How often element j is visited by threads that begin at b * threads + t and
// go on in steps of all threads.
int64_t Visits(const Shape& shape, int64_t elements, int64_t j) {
  const int64_t step = shape.blocks * shape.threads;
  if (step == 0 || j >= elements) return 0;
  return 1;  // of the thread j % step alone
}

constexpr int64_t kHuge = (int64_t{1} << 31) + 12345;

TEST(CudaLaunch, ShapesCoverEveryElement) {
  for (int64_t blocks : {int64_t{1}, int64_t{7}, int64_t{2147483647}}) {
    Limits limits;
    limits.blocks = blocks;
    limits.multiprocessors = 3;
    for (int64_t elements : {int64_t{1}, int64_t{255}, int64_t{256},
                             int64_t{257}, kHuge, 3 * kHuge}) {
      const Shape shape = ElementShape(elements, 256, limits);
      EXPECT_GE(shape.blocks, 1);
      EXPECT_LE(shape.blocks, blocks);
      EXPECT_EQ(Visits(shape, elements, elements - 1), 1);
      // No more blocks than have something to do.
      EXPECT_LT((shape.blocks - 1) * shape.threads, elements);
    }
  }
  EXPECT_EQ(ElementShape(0, 256, Limits()).blocks, 0);
}

TEST(CudaLaunch, TilesOfLeavesBeyond32Bits) {
  DistanceTask task;
  task.rows.count = 4;
  task.elements = 3 * kHuge + 5;
  task.leaf = 16384;
  int64_t covered = 0;
  // The last leaf's tiles end where the elements do.
  for (int64_t t = task.tiles() - task.tiles_of_leaf(); t < task.tiles(); ++t)
    covered += RangeOfTile(task, t).count;
  EXPECT_EQ((task.leaves() - 1) * task.leaf + covered, task.elements);
  EXPECT_EQ(RangeOfTile(task, task.tiles()).count, 0);
  const DistanceShape made =
      ShapeOfDistances(task.vectors(), task.tiles(), Limits());
  EXPECT_GE(made.shape.blocks, 1);
}

TEST(CudaLaunch, TilesOfOddLeavesCoverEveryElementOnce) {
  for (int64_t leaf : {1, 7, 255, 256, 257, 600}) {
    for (int64_t elements : {1, 255, 256, 1000, 1201}) {
      DistanceTask task;
      task.elements = elements;
      task.leaf = leaf;
      int64_t next = 0;
      for (int64_t t = 0; t < task.tiles(); ++t) {
        const TileRange range = RangeOfTile(task, t);
        if (range.count == 0) continue;
        EXPECT_EQ(range.begin, next);
        EXPECT_EQ(range.begin / leaf, (range.begin + range.count - 1) / leaf);
        next += range.count;
      }
      EXPECT_EQ(next, elements);
    }
  }
}

TEST(CudaLaunch, SortTilesStayWithinTheirMemory) {
  for (int64_t shared : {1024, 48 * 1024, 99 * 1024, 227 * 1024}) {
    Limits limits;
    limits.shared_bytes = shared;
    for (int64_t values : {65, 100, 300, 1000, 5000, 20000, 50000}) {
      const SortShape made = ShapeOfSort(kHuge, values, 2, limits);
      if (made.lanes == 0) {
        EXPECT_GT(values * 8 + 4, shared);
        continue;
      }
      EXPECT_LE(made.shape.shared_bytes, shared);
      EXPECT_GE(made.shape.shared_bytes, made.lanes * (values * 8 + 4));
      EXPECT_EQ(made.shape.blocks,
                std::min(CeilDiv(kHuge, made.lanes), limits.blocks));
    }
  }
}

}  // namespace
}  // namespace parapet::cuda
