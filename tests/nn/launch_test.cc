#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/nn_launch.h"

namespace parapet::cuda {
namespace {

// How often each item is done by the loop that the kernel has.
std::vector<int> Visits(const Shape& shape, int64_t items) {
  std::vector<int> visits(items);
  for (int64_t block = 0; block < shape.blocks; ++block)
    for (int64_t i = block; i < items; i += shape.blocks) ++visits[i];
  return visits;
}

TEST(NnLaunchTest, EveryItemOnceWhateverTheLimit) {
  for (const int64_t items : {1, 31, 256, 1000}) {
    for (const int64_t blocks : {1, 2, 3, 7, 1 << 20}) {
      for (const int multiprocessors : {1, 132}) {
        const Limits limits{multiprocessors, blocks};
        for (const Shape& shape :
             {TeamShape(items, limits), LossShape(items, 10, limits)}) {
          EXPECT_LE(shape.blocks, blocks);
          EXPECT_EQ(Visits(shape, items), std::vector<int>(items, 1));
        }
      }
    }
  }
}

TEST(NnLaunchTest, NoBlockIsIdle) {
  EXPECT_EQ(TeamShape(5, {100}).blocks, 5);
  EXPECT_EQ(LossShape(5, 10, {100}).blocks, 5);
}

TEST(NnLaunchTest, NothingToDoIsNoBlock) {
  EXPECT_EQ(TeamShape(0, {100}).blocks, 0);
  EXPECT_EQ(LossShape(0, 10, {100}).blocks, 0);
}

TEST(NnLaunchTest, MoreThan32Bits) {
  constexpr int64_t kItems = (int64_t{1} << 33) + 1;
  EXPECT_EQ(TeamShape(kItems, {132}).blocks, 132 * 16);
  EXPECT_EQ(TeamShape(kItems, {std::numeric_limits<int>::max()}).blocks,
            std::numeric_limits<int32_t>::max());
  EXPECT_EQ(
      LossShape(std::numeric_limits<int64_t>::max(), kItems, {132, 7}).blocks,
      7);
}

TEST(NnLaunchTest, ATeamFitsTheClasses) {
  const auto threads = [](int64_t classes) {
    return LossShape(1, classes, {}).threads;
  };
  EXPECT_EQ(threads(1), 32);
  EXPECT_EQ(threads(32), 32);
  EXPECT_EQ(threads(33), 64);
  EXPECT_EQ(threads(200), 256);
  EXPECT_EQ(threads(int64_t{1} << 40), kMaxTeam);
}

}  // namespace
}  // namespace parapet::cuda
