// Whole jobs over a bad network, seed by seed.

#include <gtest/gtest.h>

#include "common/memory_disk.h"
#include "tests/sim/check.h"
#include "tests/sim/cluster.h"
#include "tests/sim/reference.h"
#include "tests/sim/seeds.h"

namespace parapet::sim {
namespace {

class SimulatedCluster : public ::testing::Test {
 protected:
  RunResult Check(const Scenario& scenario) {
    MemoryDisk disk;
    RunResult result = Cluster(scenario, device_.get(), &disk).Run();
    Reference reference(scenario, *device_);
    Report(CheckRun(scenario, result, &reference), scenario, result);
    return result;
  }
  void CheckMood(uint64_t seeds, Mood mood) {
    ForSeeds(seeds, [&](uint64_t seed) { Check(MakeScenario(seed, mood)); });
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
};

TEST_F(SimulatedCluster, CalmNetwork) { CheckMood(20, Mood::kCalm); }

TEST_F(SimulatedCluster, BrokenConnections) { CheckMood(40, Mood::kBroken); }

TEST_F(SimulatedCluster, MissingWorkers) { CheckMood(40, Mood::kMissing); }

TEST_F(SimulatedCluster, HostileWorkers) { CheckMood(30, Mood::kHostile); }

TEST_F(SimulatedCluster, Quorum) { CheckMood(20, Mood::kQuorum); }

TEST_F(SimulatedCluster, Mixed) { CheckMood(50, Mood::kMixed); }

}  // namespace
}  // namespace parapet::sim
