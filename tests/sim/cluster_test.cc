// Whole jobs over a bad network, seed by seed.

#include "tests/sim/cluster.h"

#include <gtest/gtest.h>

#include <map>

#include "common/memory_disk.h"
#include "tests/sim/check.h"
#include "tests/sim/reference.h"
#include "tests/sim/seeds.h"

namespace parapet::sim {
namespace {

class SimulatedCluster : public ::testing::Test {
 protected:
  void Check(const Scenario& scenario) {
    MemoryDisk disk;
    Reference reference(scenario, *device_);
    const RunResult result = RunChecked(scenario, *device_, &disk, &reference);
    Report(CheckSnapshot(scenario, disk, reference), scenario, result);
    Count(result);
  }
  // Whether there were enough seeds to say what must have happened.
  bool CheckMood(uint64_t seeds, Mood mood) {
    return ForSeeds(seeds,
                    [&](uint64_t seed) { Check(MakeScenario(seed, mood)); });
  }

  void Count(const RunResult& result) {
    for (const RoundRecord& record : result.ledger.records) {
      left_out_ += record.left_out.size();
      exceptions_ += record.exceptions.size();
      for (const auto& strike : record.strikes)
        struck_[strike.code] += strike.count;
    }
    abstained_ += result.ledger.abstained.size();
    for (const auto& [code, count] : result.refusals) refused_[code] += count;
    if (result.Logged("lost link")) ++broken_runs_;
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  // Over all runs of a test.
  size_t left_out_ = 0, exceptions_ = 0, abstained_ = 0, broken_runs_ = 0;
  std::map<Code, uint64_t> refused_;
  std::map<Code, uint64_t> struck_;  // in the account
};

TEST_F(SimulatedCluster, CalmNetwork) {
  if (!CheckMood(20, Mood::kCalm)) return;
  EXPECT_EQ(left_out_, 0u);
  EXPECT_GT(abstained_, 0u);
}

TEST_F(SimulatedCluster, BrokenConnections) {
  if (!CheckMood(50, Mood::kBroken)) return;
  EXPECT_EQ(left_out_, 0u);
  EXPECT_GT(broken_runs_, 40u);
}

// Messages wait for each other on links of some tens of kilobytes a second.
TEST_F(SimulatedCluster, BrokenConnectionsOnSlowLinks) {
  const bool all = ForSeeds(20, [&](uint64_t seed) {
    Scenario scenario = MakeScenario(seed, Mood::kBroken);
    Random random(MixKey(seed, 11));
    scenario.rates.out = 2e4 * (1 + random.Uniform());
    scenario.rates.in = 2e4 * (1 + random.Uniform());
    Check(scenario);
  });
  if (!all) return;
  EXPECT_EQ(left_out_, 0u);
  EXPECT_GT(broken_runs_, 15u);
}

TEST_F(SimulatedCluster, MissingWorkers) {
  if (!CheckMood(50, Mood::kMissing)) return;
  EXPECT_GT(left_out_, 50u);
  EXPECT_GT(exceptions_, 0u);
}

TEST_F(SimulatedCluster, HostileWorkers) {
  if (!CheckMood(60, Mood::kHostile)) return;
  for (Code code : {Code::kProtocol, Code::kJobDiffers, Code::kUnknownPeer,
                    Code::kWrongSession, Code::kBadChunk, Code::kEquivocation,
                    Code::kOverCredit, Code::kBadSamples}) {
    EXPECT_GT(refused_[code], 0u) << NameOf(code);
  }
  for (Code code : {Code::kProtocol, Code::kBadChunk, Code::kEquivocation,
                    Code::kOverCredit, Code::kBadSamples}) {
    EXPECT_GT(struck_[code], 0u) << NameOf(code);
    EXPECT_LE(struck_[code], refused_[code]) << NameOf(code);
  }
}

TEST_F(SimulatedCluster, Quorum) {
  if (!CheckMood(20, Mood::kQuorum)) return;
  EXPECT_GT(left_out_, 20u);
  EXPECT_GT(exceptions_, 0u);
}

TEST_F(SimulatedCluster, Mixed) {
  if (!CheckMood(60, Mood::kMixed)) return;
  EXPECT_GT(left_out_, 60u);
  EXPECT_GT(exceptions_, 0u);
}

}  // namespace
}  // namespace parapet::sim
