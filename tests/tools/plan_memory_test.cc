#include "tools/plan_memory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

double Most(const std::vector<MemoryItem>& items, const std::string& name) {
  for (const MemoryItem& item : items)
    if (item.name == name) return item.most;
  return -1;
}

// 1000 Ki elements on one server in chunks of 64 Ki.
PlanJob SmallJob() {
  return {.parameters = 1000 * 1024, .workers = 4, .chunk = 64 * 1024};
}
constexpr double kFull = 4000 * 1024;

TEST(PlanMemoryTest, ServerMemoryByItem) {
  PlanJob job = SmallJob();
  job.moments = 2;
  std::vector<MemoryItem> items = ServerMemory(job, *ShapeOf(job));
  EXPECT_EQ(Most(items, "weights"), kFull);
  EXPECT_EQ(Most(items, "versions kept"), 3 * kFull);  // four with the weights
  EXPECT_EQ(Most(items, "moments"), 2 * kFull);
  EXPECT_EQ(Most(items, "gradients within the credit"), 4 * kFull);
  EXPECT_EQ(Most(items, "snapshot copies"), -1);
  job.wire = DType::kBFloat16;
  job.distances = job.previous = job.snapshots = true;
  items = ServerMemory(job, *ShapeOf(job));
  EXPECT_EQ(Most(items, "versions kept"), 4 * kFull / 2);
  EXPECT_EQ(Most(items, "gradients held for the rule"), 4 * kFull / 2);
  EXPECT_EQ(Most(items, "previous aggregate"), kFull);
  EXPECT_EQ(Most(items, "snapshot copies"), 4 * kFull);
  for (const MemoryItem& item : items)
    EXPECT_LE(item.usual, item.most) << item.name;
}

// Over shared memory a server has its weights and no gradient, and maps two of
// each worker.
TEST(PlanMemoryTest, SharedMemoryIsWhoseItIs) {
  PlanJob job = SmallJob();
  const PlanShape shape = *ShapeOf(job);
  EXPECT_TRUE(MappedByServer(job, shape).empty());
  EXPECT_TRUE(MappedByWorker(job, shape).empty());
  job.shared_memory = true;
  const std::vector<MemoryItem> items = ServerMemory(job, shape);
  EXPECT_EQ(Most(items, "gradients within the credit"), -1);
  EXPECT_EQ(Most(items, "weights"), kFull);
  EXPECT_EQ(Total(MappedByServer(job, shape)).usual, 2 * 4 * kFull);
  EXPECT_EQ(Most(WorkerMemory(job, shape), "weights received"), -1);
  EXPECT_EQ(Total(MappedByWorker(job, shape)).usual, 3 * kFull);
}

TEST(PlanMemoryTest, WhatIsOnAGpuIsNotInTheHostsMemory) {
  PlanJob job = SmallJob();
  const PlanShape shape = *ShapeOf(job);
  EXPECT_TRUE(GpuMemory(job, shape).empty());
  job.gpu = job.distances = true;
  job.reducing_threads = 1;
  const std::vector<MemoryItem> host = ServerMemory(job, shape);
  EXPECT_EQ(Most(host, "weights"), -1);
  EXPECT_EQ(Most(host, "moments"), -1);
  EXPECT_EQ(Most(host, "versions kept"), 4 * kFull);
  EXPECT_EQ(Most(host, "gradients held for the rule"), 4 * kFull);
  const std::vector<MemoryItem> gpu = GpuMemory(job, shape);
  EXPECT_EQ(Most(gpu, "weights"), kFull);
  EXPECT_EQ(Most(gpu, "moments"), kFull);
  // Whole chunks: 16 of 64 Ki elements.
  EXPECT_EQ(Most(gpu, "rows kept, if there is room"), 4.0 * 4 * 1024 * 1024);
  // Twice 8 MiB, less than a chunk of four rows, which is staged as a whole.
  EXPECT_EQ(Most(host, "staging for the GPU"), 2.0 * 4 * (4 * 64 * 1024 + 16));
  EXPECT_GT(Most(gpu, "reductions under way"),
            Most(host, "staging for the GPU"));
}

}  // namespace
}  // namespace parapet
