// The kernel of distances, run by the CPU thread by thread.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/cuda/outputs.h"
#include "tests/cuda/reference.h"

namespace parapet::cuda::testing {
namespace {

bool RowIsFinite(const DistanceCase& c, const DistanceData& data, int row,
                 int64_t leaf) {
  const Rows rows = {data.staged.data(), data.entries.data(), c.rows,
                     c.staged_type()};
  const int64_t end = std::min(c.elements, (leaf + 1) * c.leaf);
  for (int64_t j = leaf * c.leaf; j < end; ++j) {
    if (!std::isfinite(ValueAt(rows, row, j))) return false;
  }
  return true;
}

void Compare(const DistanceCase& c, const DistanceData& data,
             const DistanceOutputs& outputs) {
  const DistanceTask task = TaskOf(c);
  for (int64_t leaf = 0; leaf < task.leaves(); ++leaf) {
    const double* sums = &outputs.sums[leaf * task.pairs()];
    for (int a = 0; a < c.rows + 2; ++a) {
      for (int b = a + 1; b < c.rows + 2; ++b) {
        const Expected expected = ExpectedDistance(c, data, leaf, a, b);
        if (expected.bad) continue;
        ASSERT_NEAR(sums[PairPlace(task.vectors(), a, b)], expected.value,
                    expected.tolerance)
            << c.Name() << ", leaf " << leaf << ", " << a << " and " << b;
      }
    }
    for (int row = 0; row < c.rows; ++row) {
      ASSERT_EQ(outputs.finite[leaf * c.rows + row],
                RowIsFinite(c, data, row, leaf))
          << c.Name();
    }
  }
}

TEST(CudaDistances, AgreeWithTheDefinition) {
  for (const DistanceCase& c : AllDistanceCases()) {
    const DistanceData data = MakeData(c);
    Compare(c, data, RunOnHost(c, data, Limits()));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CudaDistances, TheOrderOfThreadsDoesNotMatter) {
  for (const DistanceCase& c : AllDistanceCases()) {
    if (c.rows > 20 && c.elements > 300) continue;
    const DistanceData data = MakeData(c);
    const DistanceOutputs forwards = RunOnHost(c, data, Limits());
    host::backwards = true;
    const DistanceOutputs backwards = RunOnHost(c, data, Limits());
    host::backwards = false;
    EXPECT_TRUE(SameBits(forwards.sums, backwards.sums)) << c.Name();
    EXPECT_TRUE(SameBits(forwards.finite, backwards.finite)) << c.Name();
  }
}

// Every pair of vectors is some warp's, once.
TEST(CudaDistances, BlocksCoverEveryPairOnce) {
  for (int vectors = 3; vectors <= 130; ++vectors) {
    const DistanceShape made = ShapeOfDistances(vectors, 1, Limits());
    std::multiset<std::pair<int, int>> seen;
    for (int64_t y = 0; y < made.group_pairs(); ++y) {
      const GroupPair groups = GroupsOf(made.group, made.groups, y);
      EXPECT_LE(groups.blocks() * 32, made.shape.threads);
      for (int block = 0; block < groups.blocks(); ++block) {
        const BlockPlaces places = PlacesOf(groups, block);
        for (int pair = 0; pair < kBlockPairs; ++pair) {
          const int a = groups.VectorAt(places.a + pair / kBlockVectors);
          const int b = groups.VectorAt(places.b + pair % kBlockVectors);
          if (a < b && b < vectors) seen.emplace(a, b);
        }
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(vectors) * (vectors - 1) / 2);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size());
  }
}

TEST(CudaDistances, BlocksFitEveryGpu) {
  constexpr int64_t kLeastOptIn = 99 * 1024;  // compute capability 8.6 and 8.9
  for (int vectors = 3; vectors <= 1100; ++vectors) {
    const DistanceShape made = ShapeOfDistances(vectors, 1000, Limits());
    EXPECT_LE(made.shape.shared_bytes, kLeastOptIn);
    EXPECT_LE(made.shape.threads, 512);
    EXPECT_LE(made.group_pairs(), 65535);
  }
}

}  // namespace
}  // namespace parapet::cuda::testing
