// Whole jobs whose shards are on a device with memory of its own: the bits of
// the reference, and a clear end where the device fails.

#include "tests/sim/far_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/memory_disk.h"
#include "tests/sim/check.h"
#include "tests/sim/cluster.h"
#include "tests/sim/reference.h"

namespace parapet::sim {
namespace {

Scenario JobWith(const std::string& rule, DType wire, double clip_norm) {
  Scenario scenario;
  scenario.job.rule = rule;
  scenario.job.wire = wire;
  scenario.job.clip_norm = clip_norm;
  scenario.job.byzantine = 1;
  scenario.job.servers = 2;
  scenario.job.workers = 8;
  scenario.job.rounds = 8;
  scenario.job.batch = 4;
  scenario.job.leaf = scenario.job.chunk = 16;
  scenario.job.optimizer.kind = OptimizerKind::kAdam;
  scenario.job.schedule.lr = 0.02;
  scenario.job.max_bad_rounds = 1000;
  scenario.samples = 1000;
  scenario.rule_secret = 99;
  scenario.late_work = true;
  scenario.tensors = {{"a", {13, 17}, {Initializer::Kind::kUniform, 0.5}},
                      {"b", {11}, {Initializer::Kind::kUniform, 0.5}}};
  scenario.faults[3] = {Behaviour::kLiar, 1};
  return scenario;
}

class SimulatedFarShard : public ::testing::Test {
 protected:
  const std::unique_ptr<Device> cpu_ = MakeCpuDevice();
  MemoryDisk disk_;
};

TEST_F(SimulatedFarShard, HasTheBitsOfTheReference) {
  for (const char* rule : {"mean", "median", "krum", "nnm + trimmed_mean",
                           "centered_clip", "multi_krum"}) {
    for (DType wire : {DType::kFloat32, DType::kBFloat16}) {
      for (double clip_norm : {0.0, 0.5}) {
        Scenario scenario = JobWith(rule, wire, clip_norm);
        const FarShard far(*cpu_);
        scenario.shard = &far;
        MemoryDisk disk;
        Reference reference(scenario, *cpu_);
        const RunResult result = RunChecked(scenario, *cpu_, &disk, &reference);
        EXPECT_EQ(result.ledger.records.size(), 8u);
        const bool measures = rules::Chain::Parse(rule)->needs_distances();
        EXPECT_EQ(far.rows_from_kept() > 0, measures) << rule;
      }
    }
  }
}

TEST_F(SimulatedFarShard, SnapshotsAreOfWhatIsThere) {
  Scenario scenario = JobWith("centered_clip", DType::kBFloat16, 0);
  const FarShard far(*cpu_);
  scenario.shard = &far;
  scenario.snapshot.dir = "snap";
  scenario.snapshot.every = 3;
  Reference reference(scenario, *cpu_);
  RunChecked(scenario, *cpu_, &disk_, &reference);
  EXPECT_THAT(CheckSnapshot(scenario, disk_, reference), testing::IsEmpty());
}

TEST_F(SimulatedFarShard, AFailureEndsTheJobInItsWords) {
  for (const char* rule : {"mean", "krum"}) {
    for (double clip_norm : {0.0, 0.5}) {
      for (int64_t calls : {100, 200, 300}) {
        Scenario scenario = JobWith(rule, DType::kFloat32, clip_norm);
        scenario.job.rounds = 1000;
        FarShard far(*cpu_);
        far.FailAfter(calls);
        scenario.shard = &far;
        MemoryDisk disk;
        Cluster cluster(scenario, cpu_.get(), &disk);
        const RunResult result = cluster.Run();
        EXPECT_FALSE(result.hung) << rule << " " << calls;
        ASSERT_TRUE(result.servers[0]) << rule << " " << calls;
        EXPECT_NE(result.servers[0]->code, Code::kOk);
        EXPECT_THAT(result.servers[0]->words,
                    testing::HasSubstr("the device is gone"));
      }
    }
  }
}

}  // namespace
}  // namespace parapet::sim
