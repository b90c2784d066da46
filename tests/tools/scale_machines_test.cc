// The job's own state machines over links with rates, beside the model that
// stands for them at any size.

#include "tools/scale_machines.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/scale_model.h"
#include "tools/timed_shard.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

constexpr PlanHosts kHosts{.worker_link = 1e9,
                           .server_link = 2e9,
                           .latency = 30e-6,
                           .memory_bandwidth = 20e9};
// Bounded by the servers' memory.
constexpr PlanHosts kSlowHosts{.worker_link = 1e9,
                               .server_link = 2e9,
                               .latency = 30e-6,
                               .memory_bandwidth = 2e9};

// One kind of job: what the machines are told, and what the model is.
struct Kind {
  const char* name = "";
  JobConfig job;
  PlanJob plan;
};

std::vector<Kind> Kinds() {
  Kind mean{"mean", {}, {}};
  mean.job.optimizer.kind = OptimizerKind::kMomentum;
  Kind narrow = mean;
  narrow.name = "median in bfloat16, adam, two connections";
  narrow.job.rule = "median";
  narrow.job.optimizer.kind = OptimizerKind::kAdam;
  narrow.job.wire = narrow.plan.wire = DType::kBFloat16;
  narrow.job.connections = narrow.plan.connections = 2;
  narrow.plan.moments = 2;
  // All rows are read for the result, as the model has it.
  Kind distances = mean;
  distances.name = "geometric_median";
  distances.job.rule = "geometric_median";
  distances.plan.distances = true;
  Kind clipped = mean;
  clipped.name = "clip_norm";
  clipped.job.clip_norm = 1;
  clipped.plan.clip_norm = true;
  return {mean, narrow, distances, clipped};
}

// A simulated time is rounded to a nanosecond, at each of some thousand steps
// that follow each other.
constexpr double kRounding = 1e-6;

// By how much the machines may be faster, or slower: what the model takes at
// its longest, and what it leaves out.
struct Bounds {
  double less = 0, more = 0;  // seconds
};
Bounds BoundsOf(const PlanJob& plan, const PlanShape& shape,
                const PlanHosts& hosts) {
  const double link = std::min(hosts.worker_link, hosts.server_link);
  // docs/wire.md: a header of Push or Weights has less than 200 bytes. Through
  // a server's link pass those of its chunks, each way, and per worker a lease
  // and a report of less than 400.
  const double headers =
      plan.workers *
      (2 * 200.0 * static_cast<double>(shape.shard_chunks) + 2 * 400) / link;
  // The model takes reports of distances at their longest, and waits for the
  // lead as if it were none of the servers.
  const bool reports = plan.distances || plan.clip_norm;
  const double report =
      reports ? ReportBytes(plan) / hosts.server_link + 2 * hosts.latency : 0;
  // Reports of each server and decisions: headers, and the workers' ids.
  const double decisions =
      reports ? 2 * plan.servers * (400 + 16.0 * plan.workers) / link : 0;
  return {report, headers + decisions};
}

// The model is neither longer than the machines by more than it overestimates,
// nor shorter by more than it leaves out.
void ExpectTheModelToHold(const Kind& kind, int workers, int servers,
                          const PlanHosts& hosts) {
  JobConfig job = kind.job;
  PlanJob plan = kind.plan;
  job.workers = plan.workers = workers;
  job.servers = plan.servers = servers;
  plan.parameters = 3'000'000;
  const auto rounds = RunMachines(job, plan.parameters, hosts, 2);
  ASSERT_TRUE(rounds.ok()) << rounds.status();
  const auto model = SimulateRound(plan, hosts);
  ASSERT_TRUE(model.ok()) << model.status();
  const Bounds bounds = BoundsOf(plan, *ShapeOf(plan), hosts);
  for (const double seconds : *rounds) {
    EXPECT_GE(seconds, *model - bounds.less - kRounding);
    EXPECT_LE(seconds, *model + bounds.more);
  }
}

TEST(ScaleMachinesTest, TheModelStandsForTheMachines) {
  constexpr std::pair<int, int> kSizes[] = {{1, 1}, {2, 1},  {4, 2},  {5, 3},
                                            {8, 2}, {16, 4}, {4, 16}, {24, 8}};
  for (const Kind& kind : Kinds()) {
    for (const auto& [workers, servers] : kSizes) {
      for (const PlanHosts& hosts : {kHosts, kSlowHosts}) {
        SCOPED_TRACE(testing::Message()
                     << kind.name << " " << workers << " x " << servers
                     << " memory " << hosts.memory_bandwidth);
        ExpectTheModelToHold(kind, workers, servers, hosts);
      }
    }
  }
}

TEST(ScaleMachinesTest, ByHand) {
  // One chunk of 64 KiB at 64 KiB/s through four links; headers come on top,
  // less than 0.4 % each way.
  JobConfig job;
  constexpr int64_t kElements = 16 * 1024;
  const PlanHosts hosts{.worker_link = 4 * kElements,
                        .server_link = 4 * kElements,
                        .latency = 10,
                        .memory_bandwidth = 1e18};
  const auto rounds = RunMachines(job, kElements, hosts, 3);
  ASSERT_TRUE(rounds.ok()) << rounds.status();
  ASSERT_EQ(rounds->size(), 3u);
  for (const double seconds : *rounds) {
    EXPECT_GT(seconds, 24);
    EXPECT_LT(seconds, 24.032);
  }
}

TEST(ScaleMachinesTest, SaysWhyAJobCannotBe) {
  JobConfig job;
  job.chunk = 100;
  const auto rounds = RunMachines(job, 1000, {}, 1);
  ASSERT_FALSE(rounds.ok());
  EXPECT_THAT(std::string(rounds.status().message()), HasSubstr("--chunk"));
}

TEST(ScaleMachinesTest, SameJobSameTimes) {
  JobConfig job;
  job.workers = 7;
  job.servers = 3;
  EXPECT_EQ(*RunMachines(job, 500'000, kHosts, 3),
            *RunMachines(job, 500'000, kHosts, 3));
}

TEST(TimedShardTest, CountsWhatMemoryMoves) {
  const TimedShard shard(4096, 1000);
  const std::vector<Row> rows(3);
  const auto seconds = [&] { return absl::ToDoubleSeconds(shard.TakeTime()); };
  float value = 0;
  StepTarget target;
  target.moment1 = &value;
  ASSERT_TRUE(
      shard.ReduceStep({}, rows, nullptr, nullptr, 500, {}, {}, target).ok());
  EXPECT_EQ(seconds(), 3 * 2 + 8);
  EXPECT_EQ(seconds(), 0);
  // Of a mixture only what has a weight; the aggregate is written.
  const std::vector<double> mixing = {0, 1, 0, 0, 0};
  ReduceSpec spec;
  spec.mixed_rows = 1;
  spec.mixing = mixing.data();
  ASSERT_TRUE(shard.Reduce(spec, rows, nullptr, &value, 500, &value).ok());
  EXPECT_EQ(seconds(), 2 + 4 + 2);
  target.publish = &value;
  target.publish_dtype = DType::kBFloat16;
  ASSERT_TRUE(shard.Step({}, {}, &value, 500, target).ok());
  EXPECT_EQ(seconds(), 2 + 8 + 1);
  // As much as there are addresses for.
  EXPECT_TRUE(shard.Allocate(size_t{1} << 40).ok());
  EXPECT_FALSE(shard.Allocate(size_t{1} << 60).ok());
}

TEST(TimedExecutorTest, OnePieceAfterTheOther) {
  const TimedShard shard(1 << 20, 1000);
  absl::Time now = absl::UnixEpoch();
  TimedExecutor executor(&shard, [&] { return now; });
  std::string done;
  const auto submit = [&](char name, int64_t elements) {
    executor.Submit(
        [&shard, elements] {
          ASSERT_TRUE(shard.Step({}, {}, nullptr, elements, {}).ok());
        },
        [&done, name] { done += name; });
  };
  submit('a', 250);  // 12 bytes an element
  submit('b', 500);
  EXPECT_EQ(executor.NextTime(), now + absl::Seconds(3));
  EXPECT_EQ(executor.RunDone(), 0);
  now += absl::Seconds(4);
  EXPECT_EQ(executor.RunDone(), 1);
  submit('c', 0);
  EXPECT_EQ(executor.NextTime(), absl::UnixEpoch() + absl::Seconds(9));
  now += absl::Seconds(5);
  EXPECT_EQ(executor.RunDone(), 2);
  EXPECT_EQ(done, "abc");
  EXPECT_EQ(executor.NextTime(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace parapet
