// A job that is stopped and goes on, and one that is not, end with the same
// bits; so do jobs with other numbers of servers, chunk sizes and orders of
// arrival.

#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/memory_disk.h"
#include "tests/sim/check.h"
#include "tests/sim/cluster.h"
#include "tests/sim/reference.h"
#include "tests/sim/seeds.h"

namespace parapet::sim {
namespace {

// The same bits are due whatever this changes.
Scenario Rearranged(const Scenario& from, uint64_t seed) {
  Random random(MixKey(seed, 7));
  Scenario scenario = from;
  scenario.seed = random.Next64();
  scenario.network.seed = random.Next64();
  scenario.job.servers = 1 + static_cast<int>(random.Below(5));
  scenario.job.chunk = 16 * (1 + static_cast<int64_t>(random.Below(9)));
  scenario.job.connections = 1 + static_cast<int>(random.Below(3));
  scenario.credit_window = static_cast<int64_t>(random.Below(4));
  scenario.late_work = random.Below(2) == 0;
  return scenario;
}

class SameBits : public ::testing::Test {
 protected:
  // The weights at the end of a run that nobody stops.
  std::vector<float> Undisturbed(const Scenario& scenario) {
    MemoryDisk disk;
    Reference reference(scenario, *device_);
    RunChecked(scenario, *device_, &disk, &reference);
    return reference.weights();
  }

  void StopAndResume(uint64_t seed);

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
};

TEST_F(SameBits, WhateverTheServersTheChunksAndTheOrder) {
  ForSeeds(15, [&](uint64_t seed) {
    const Scenario scenario = MakeScenario(seed, Mood::kCalm);
    const std::vector<float> weights = Undisturbed(scenario);
    for (uint64_t other : {2 * seed, 2 * seed + 1}) {
      EXPECT_EQ(Undisturbed(Rearranged(scenario, other)), weights);
    }
  });
}

// Legs of a random length until the job is over, each on other servers.
void SameBits::StopAndResume(uint64_t seed) {
  Random random(MixKey(seed, 8));
  Scenario scenario =
      MakeScenario(seed, seed % 2 == 0 ? Mood::kBroken : Mood::kCalm);
  scenario.snapshot.dir = "/snapshots";
  const std::vector<float> weights = Undisturbed(scenario);
  MemoryDisk disk;
  Reference reference(scenario, *device_);
  std::optional<Snapshot> resume;
  for (uint64_t term = 1; term <= 20; ++term) {
    Scenario leg = Rearranged(scenario, random.Next64());
    leg.stop_after = absl::Milliseconds(random.Below(800));
    leg.stop_requests = 1 + static_cast<int>(random.Below(6));
    if (term >= 6) leg.stop_after = absl::InfiniteDuration();
    const RunResult result =
        Cluster(leg, device_.get(), &disk, resume, term).Run();
    Report(CheckRun(leg, result, &reference), leg, result);
    Report(CheckSnapshot(leg, disk, reference), leg, result);
    if (HasFailure()) return;
    std::vector<std::string> passed_over;
    resume = *FindSnapshot(disk, "/snapshots", &passed_over);
    if (!result.Logged("the job stops at version")) break;
  }
  EXPECT_EQ(reference.weights(), weights);
}

TEST_F(SameBits, StoppedAndResumed) {
  ForSeeds(25, [&](uint64_t seed) { StopAndResume(seed); });
}

}  // namespace
}  // namespace parapet::sim
