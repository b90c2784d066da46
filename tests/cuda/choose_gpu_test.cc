#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/discover.h"

namespace parapet::cuda {
namespace {

using ::testing::HasSubstr;

GpuFacts Gpu(int index, int major, int minor) {
  GpuFacts gpu;
  gpu.index = index;
  gpu.name = "GPU " + std::to_string(index);
  gpu.major = major;
  gpu.minor = minor;
  gpu.memory_bytes = int64_t{24} << 30;
  return gpu;
}

TEST(ChooseGpu, TheFirstThatIsNewEnough) {
  const DriverFacts facts = {"", {Gpu(0, 7, 5), Gpu(1, 9, 0), Gpu(2, 8, 0)}};
  const Choice choice = ChooseGpu(facts, -1);
  ASSERT_TRUE(choice.found);
  EXPECT_EQ(choice.gpu.index, 1);
  EXPECT_EQ(ChooseGpu(facts, 2).gpu.index, 2);
}

TEST(ChooseGpu, SaysWhyThereIsNone) {
  EXPECT_EQ(ChooseGpu({"no NVIDIA driver is installed", {}}, 0).why,
            "no NVIDIA driver is installed");
  const DriverFacts old = {"", {Gpu(0, 7, 5)}};
  EXPECT_THAT(ChooseGpu(old, -1).why, HasSubstr("at least 8.0"));
  EXPECT_THAT(ChooseGpu(old, 0).why, HasSubstr("compute capability 7.5"));
  EXPECT_FALSE(ChooseGpu(old, 0).found);
  EXPECT_EQ(ChooseGpu(old, 3).why,
            "there is no GPU 3: this machine has 1, numbered from 0");
}

TEST(ChooseGpu, DescribesIt) {
  EXPECT_EQ(Describe(Gpu(1, 9, 0)),
            "cuda:1 (GPU 1, compute capability 9.0, 24.0 GiB)");
}

}  // namespace
}  // namespace parapet::cuda
