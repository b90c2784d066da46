#include "worker/device_choice.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/gpu.h"
#include "worker/model.h"

namespace parapet {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// GPUs by their compute capability's major number.
cuda::DriverFacts Gpus(const std::vector<int>& majors) {
  cuda::DriverFacts facts;
  for (const int major : majors) {
    cuda::GpuFacts gpu;
    gpu.index = static_cast<int>(facts.gpus.size());
    gpu.name = "Imagined";
    gpu.major = major;
    facts.gpus.push_back(gpu);
  }
  return facts;
}

cuda::DriverFacts NoDriver() {
  cuda::DriverFacts facts;
  facts.why_none = "no NVIDIA driver is installed";
  return facts;
}

int Gpu(const std::string& device, const std::string& rank,
        const cuda::DriverFacts& facts) {
  const absl::StatusOr<DeviceChoice> choice =
      ChooseDevice(device, false, rank, facts);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? choice->gpu : -2;
}

std::string Refusal(const std::string& device, bool bfloat16,
                    const cuda::DriverFacts& facts,
                    const std::string& rank = "") {
  const absl::Status status =
      ChooseDevice(device, bfloat16, rank, facts).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(DeviceChoiceTest, AutoTakesTheGpuOfTheLocalRank) {
  EXPECT_EQ(Gpu("auto", "", Gpus({9, 9, 9})), 0);
  EXPECT_EQ(Gpu("auto", "0", Gpus({9, 9, 9})), 0);
  EXPECT_EQ(Gpu("auto", "2", Gpus({9, 9, 9})), 2);
  // More workers than GPUs: they take turns.
  EXPECT_EQ(Gpu("auto", "4", Gpus({9, 9, 9})), 1);
  EXPECT_EQ(Gpu("auto", "18446744073709551615", Gpus({9, 9})), 1);
}

TEST(DeviceChoiceTest, AutoSaysWhichAndWhy) {
  EXPECT_THAT(ChooseDevice("auto", false, "", Gpus({9}))->why,
              HasSubstr("LOCAL_RANK is not set"));
  EXPECT_THAT(ChooseDevice("auto", false, "3", Gpus({9, 9}))->why,
              AllOf(HasSubstr("LOCAL_RANK is 3"), HasSubstr("2 GPUs")));
  const absl::StatusOr<DeviceChoice> cpu =
      ChooseDevice("auto", false, "1", NoDriver());
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_EQ(cpu->gpu, -1);
  EXPECT_THAT(cpu->why, HasSubstr("no NVIDIA driver is installed"));
}

TEST(DeviceChoiceTest, GpusThatAreTooOldDoNotCount) {
  EXPECT_THAT(UsableGpus(Gpus({7, 9, 6, 8})), ElementsAre(1, 3));
  EXPECT_EQ(Gpu("auto", "", Gpus({7, 9})), 1);
  EXPECT_EQ(Gpu("auto", "1", Gpus({7, 9, 8})), 2);
  EXPECT_EQ(Gpu("auto", "", Gpus({7})), -1);
  EXPECT_THAT(ChooseDevice("auto", false, "", Gpus({7}))->why,
              HasSubstr("older than compute capability 8.0"));
  EXPECT_THAT(Refusal("cuda:0", false, Gpus({7, 9})), HasSubstr("--device"));
}

TEST(DeviceChoiceTest, WhatIsNamedIsTakenOrRefused) {
  EXPECT_EQ(Gpu("cpu", "1", Gpus({9, 9})), -1);
  EXPECT_EQ(Gpu("cuda:1", "0", Gpus({9, 9})), 1);
  EXPECT_THAT(Refusal("cuda:2", false, Gpus({9, 9})), HasSubstr("2 GPUs"));
  EXPECT_THAT(Refusal("cuda:0", false, NoDriver()),
              HasSubstr("no NVIDIA driver is installed"));
  for (const char* device : {"cuda", "cuda:", "cuda:-1", "cuda:x", "gpu", ""})
    EXPECT_THAT(Refusal(device, false, Gpus({9})), HasSubstr("auto, cpu"));
}

TEST(DeviceChoiceTest, ALocalRankThatIsNoNumberIsRefused) {
  EXPECT_THAT(Refusal("auto", false, Gpus({9}), "one"),
              HasSubstr("LOCAL_RANK"));
  EXPECT_EQ(Gpu("cuda:0", "one", Gpus({9})), 0);
}

// Another precision than the one that was asked for would be no help.
TEST(DeviceChoiceTest, BFloat16IsNotForTheCpu) {
  EXPECT_THAT(Refusal("cpu", true, Gpus({9})), HasSubstr("bfloat16"));
  EXPECT_THAT(Refusal("auto", true, NoDriver()),
              AllOf(HasSubstr("bfloat16"), HasSubstr("no NVIDIA driver")));
  EXPECT_TRUE(ChooseDevice("auto", true, "", Gpus({9})).ok());
}

TEST(DeviceChoiceTest, AGpuThatIsNotThereIsSaidInWords) {
  if (!AskGpus().gpus.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_FALSE(AskGpus().why_none.empty());
  ComputeConfig compute;
  compute.gpu = 0;
  const absl::Status status =
      MakeModel("softmax", {1, 28, 28, 10}, compute).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(AskGpus().why_none));
}

}  // namespace
}  // namespace parapet
