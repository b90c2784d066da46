#include "tools/run_plan.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What each process is told of a device, in order: the last one counts.
std::vector<std::string> Devices(const std::string& device,
                                 const std::vector<int>& gpus, RunRole role) {
  RunFlags flags;
  flags.job.workers = 3;
  flags.job.evaluators = 1;
  flags.device = device;
  flags.forward = {"--rounds=3"};
  const RunPlan plan(flags, "/bin", "/folder", false, gpus);
  std::vector<std::string> devices;
  for (const RunMember& member : plan.Members(role))
    for (const std::string& argument : plan.Command(member))
      if (absl::StartsWith(argument, "--device=")) devices.push_back(argument);
  return devices;
}

TEST(RunPlanTest, WorkersTakeTurnsOnTheGpus) {
  EXPECT_THAT(
      Devices("auto", {0, 2}, RunRole::kWorker),
      ElementsAre("--device=cuda:0", "--device=cuda:2", "--device=cuda:0"));
  EXPECT_THAT(Devices("auto", {1}, RunRole::kEvaluator),
              ElementsAre("--device=cuda:1"));
}

TEST(RunPlanTest, ADeviceThatWasNamedIsLeftAlone) {
  EXPECT_THAT(Devices("cpu", {0, 1}, RunRole::kWorker), IsEmpty());
  EXPECT_THAT(Devices("cuda:1", {0, 1}, RunRole::kWorker), IsEmpty());
  EXPECT_THAT(Devices("auto", {}, RunRole::kWorker), IsEmpty());
  EXPECT_THAT(Devices("auto", {0}, RunRole::kServer), IsEmpty());
}

}  // namespace
}  // namespace parapet
