#include "kernels/cuda/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parapet::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

MemoryNeeds Needs() {
  MemoryNeeds needs;
  needs.shard_elements = 1 << 28;
  needs.chunk_elements = 1 << 18;
  needs.leaf_elements = 1 << 14;
  needs.rows = 16;
  needs.moments = 2;
  needs.calls = 4;
  return needs;
}

TEST(CudaMemoryPlan, CountsWhatStays) {
  const MemoryPlan plan = PlanMemory(Needs());
  EXPECT_EQ(plan.weights, kGiB);
  EXPECT_EQ(plan.moments, 2 * kGiB);
  EXPECT_EQ(plan.previous, 0);
  EXPECT_EQ(plan.aggregates, 0);
  EXPECT_EQ(plan.kept_wanted, 0);
  EXPECT_EQ(plan.calls, 4 * PlanCall(Needs()).total());
  EXPECT_EQ(plan.needed(), 3 * kGiB + plan.calls);
}

TEST(CudaMemoryPlan, ARuleOnDistancesKeepsTheShardsRows) {
  MemoryNeeds needs = Needs();
  needs.distances = true;
  needs.previous = true;
  EXPECT_EQ(PlanMemory(needs).kept_wanted, 16 * kGiB);
  EXPECT_EQ(PlanMemory(needs).previous, kGiB);
  needs.credit_chunks = 8;
  EXPECT_EQ(PlanMemory(needs).kept_wanted, int64_t{8} * (1 << 18) * 16 * 4);
}

TEST(CudaMemoryPlan, KeepsWhatIsLeftAndSaysWhatDoesNotFit) {
  MemoryNeeds needs = Needs();
  needs.distances = true;
  const MemoryPlan plan = PlanMemory(needs);
  EXPECT_EQ(BudgetForKept(plan, 100 * kGiB), plan.kept_wanted);
  const int64_t some = BudgetForKept(plan, 8 * kGiB);
  EXPECT_GT(some, 0);
  EXPECT_LE(some + plan.needed(), 8 * kGiB);
  EXPECT_EQ(BudgetForKept(plan, 3 * kGiB), -1);
}

// More than 2^31 bytes of anything.
TEST(CudaMemoryPlan, LargeShards) {
  MemoryNeeds needs = Needs();
  needs.shard_elements = int64_t{1} << 36;
  needs.rows = 1024;
  needs.distances = true;
  EXPECT_EQ(PlanMemory(needs).weights, int64_t{1} << 38);
  EXPECT_EQ(PlanMemory(needs).kept_wanted, int64_t{1} << 48);
}

TEST(CudaMemoryPlan, PiecesFitTheirStaging) {
  for (int rows : {1, 7, 16, 64, 1000}) {
    for (int64_t chunk : {1, 1000, 1 << 18}) {
      for (int64_t leaf : {1, 300, 1 << 14}) {
        MemoryNeeds needs = Needs();
        needs.rows = rows;
        needs.chunk_elements = chunk;
        needs.leaf_elements = leaf;
        needs.distances = true;
        const int64_t piece = PieceOfLeaves(needs);
        EXPECT_EQ(piece % leaf, 0);
        EXPECT_GE(PlanCall(needs).staging, rows * piece * 4);
        EXPECT_GE(PlanCall(needs).staging, rows * PieceElements(needs) * 4);
      }
    }
  }
}

TEST(CudaMemoryPlan, SaysItInWords) {
  EXPECT_EQ(DescribeBytes(3 << 19), "1.5 MiB");
  const std::string words = Describe(PlanMemory(Needs()));
  EXPECT_THAT(words, HasSubstr("weights 1.0 GiB, moments 2.0 GiB"));
  EXPECT_THAT(words, Not(HasSubstr("aggregate")));
}

}  // namespace
}  // namespace parapet::cuda
