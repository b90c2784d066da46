// Makes sure that the other tests of this folder really run on the instruction
// set that they name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/targets_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tests/kernels/kernel_testing.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

int64_t CompiledTarget() { return HWY_TARGET; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(CompiledTarget);

class TargetsTest : public kernel_testing::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, TargetsTest, kernel_testing::EveryTarget(),
                         kernel_testing::TargetNameOf);

TEST_P(TargetsTest, RunsWhatItNames) {
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(CompiledTarget)(), GetParam());
  EXPECT_EQ(device_->name(),
            std::string("cpu (") + hwy::TargetName(GetParam()) + ")");
}

TEST(CpuDeviceTest, TakesTheBestTarget) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  EXPECT_THAT(MakeCpuDevice()->name(),
              testing::HasSubstr(hwy::TargetName(targets.front())));
  EXPECT_GE(targets.size(), 2u)
      << "there is always a target without vectors to compare with";
}

}  // namespace
}  // namespace parapet
#endif  // HWY_ONCE
