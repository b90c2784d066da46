#include "kernels/shard_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parapet {
namespace {

using ::testing::HasSubstr;

TEST(ShardChoice, TheHostsMemoryIsAlwaysThere) {
  const auto cpu = MakeCpuDevice();
  const auto choice = ChooseShardDevice("cpu", 0, *cpu, {});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->device->is_host());
  EXPECT_EQ(choice->device->name(), cpu->name());
  EXPECT_THAT(choice->why, HasSubstr("--server_device=cpu"));
}

// In words, whether there is no such GPU or no CUDA.
TEST(ShardChoice, AGpuThatIsNotThereIsRefused) {
  const auto cpu = MakeCpuDevice();
  const auto choice = ChooseShardDevice("cuda:99", 0, *cpu, {});
  EXPECT_TRUE(absl::IsInvalidArgument(choice.status()));
  EXPECT_THAT(std::string(choice.status().message()),
              HasSubstr("--server_device=cuda:99: "));
}

}  // namespace
}  // namespace parapet
