#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/nn_launch.h"

namespace parapet::cuda {
namespace {

// How often each element is done by the loops that the kernels have.
std::vector<int> Visits(const NnLaunch& launch, int64_t elements) {
  std::vector<int> visits(elements);
  for (int64_t block = 0; block < launch.blocks; ++block)
    for (int64_t t = 0; t < launch.threads; ++t)
      for (int64_t i = block * launch.threads + t; i < elements;
           i += launch.stride())
        ++visits[i];
  return visits;
}

TEST(NnLaunchTest, EveryElementOnceWhateverTheLimit) {
  for (const int64_t elements : {1, 31, 255, 256, 257, 1000, 5000}) {
    for (const int64_t limit : {1, 2, 3, 7, 1 << 20}) {
      const NnLaunch launch = ElementLaunch(elements, limit);
      EXPECT_LE(launch.blocks, limit);
      EXPECT_EQ(Visits(launch, elements), std::vector<int>(elements, 1));
    }
  }
}

TEST(NnLaunchTest, NoBlockIsIdle) {
  EXPECT_EQ(ElementLaunch(256, 100).blocks, 1);
  EXPECT_EQ(ElementLaunch(257, 100).blocks, 2);
  EXPECT_EQ(TeamLaunch(5, 100).blocks, 5);
  EXPECT_EQ(LossLaunch(5, 10, 100).blocks, 5);
}

TEST(NnLaunchTest, NothingToDoIsNoBlock) {
  EXPECT_EQ(ElementLaunch(0, 100).blocks, 0);
  EXPECT_EQ(TeamLaunch(0, 100).blocks, 0);
  EXPECT_EQ(LossLaunch(0, 10, 100).blocks, 0);
}

TEST(NnLaunchTest, MoreThan32Bits) {
  constexpr int64_t kElements = (int64_t{1} << 33) + 1;
  const NnLaunch all = ElementLaunch(kElements, int64_t{1} << 40);
  EXPECT_EQ(all.blocks, (int64_t{1} << 25) + 1);
  EXPECT_GE(all.stride(), kElements);
  const NnLaunch limited = ElementLaunch(kElements, 132 * 16);
  EXPECT_EQ(limited.blocks, 132 * 16);
  EXPECT_EQ(TeamLaunch(kElements, 7).blocks, 7);
  EXPECT_EQ(ElementLaunch(std::numeric_limits<int64_t>::max(), 9).blocks, 9);
}

TEST(NnLaunchTest, ATeamFitsTheClasses) {
  const auto threads = [](int64_t classes) {
    return LossLaunch(1, classes, 1).threads;
  };
  EXPECT_EQ(threads(1), 32);
  EXPECT_EQ(threads(32), 32);
  EXPECT_EQ(threads(33), 64);
  EXPECT_EQ(threads(200), 256);
  EXPECT_EQ(threads(int64_t{1} << 40), kMaxTeam);
}

}  // namespace
}  // namespace parapet::cuda
