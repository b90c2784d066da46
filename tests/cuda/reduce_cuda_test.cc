// The kernels of reductions, run by the CPU thread by thread.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda/outputs.h"
#include "tests/cuda/reference.h"

namespace parapet::cuda::testing {
namespace {

// As near to the float64 reference as its rounding allows. Returns how many
// coordinates are bad.
int64_t CompareWithReference(const ReduceCase& c, const ReduceData& data,
                             const ReduceOutputs& outputs) {
  int64_t bad = 0;
  for (int64_t j = 0; j < c.elements; ++j) {
    const Expected expected = ExpectedAt(c, data, j);
    bad += expected.bad;
    EXPECT_FALSE(std::signbit(outputs.aggregate[j]) &&
                 outputs.aggregate[j] == 0);
    if (!IsDecided(c)) continue;
    EXPECT_NEAR(outputs.aggregate[j], expected.value, expected.tolerance)
        << c.Name() << ", element " << j;
  }
  return bad;
}

TEST(CudaReduce, AgreesWithTheDefinitions) {
  for (const ReduceCase& c : AllReduceCases(3)) {
    if (c.huge) continue;
    const ReduceData data = MakeData(c);
    const ReduceOutputs outputs = RunOnHost(c, data, Limits());
    const int64_t bad = CompareWithReference(c, data, outputs);
    EXPECT_EQ(outputs.report[0], static_cast<uint64_t>(bad)) << c.Name();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CudaReduce, CountsEveryBadValue) {
  Random random(3);
  for (int rows : {3, 16, 40, 70}) {
    for (int op = 0; op < 6; ++op) {
      ReduceCase c =
          CaseOf(static_cast<Operation>(op), rows, Mix::kNone, random);
      c.bad_values = true;
      const ReduceData data = MakeData(c);
      const ReduceOutputs outputs = RunOnHost(c, data, Limits());
      const ReducePlan plan = PlanOf(data);
      for (size_t i = 0; i < plan.reported().size(); ++i) {
        uint64_t bad = 0;
        for (int64_t j = 0; j < c.elements; ++j)
          bad += !std::isfinite(data.Value(c, plan.reported()[i], j));
        EXPECT_EQ(outputs.report[2 + i], bad) << c.Name() << ", row " << i;
      }
    }
  }
}

TEST(CudaReduce, TheOrderOfThreadsDoesNotMatter) {
  for (const ReduceCase& c : AllReduceCases(1)) {
    if (c.rows < 65) continue;
    const ReduceData data = MakeData(c);
    const ReduceOutputs forwards = RunOnHost(c, data, Limits());
    host::backwards = true;
    const ReduceOutputs backwards = RunOnHost(c, data, Limits());
    host::backwards = false;
    EXPECT_EQ(Difference(forwards, backwards), "") << c.Name();
  }
}

// Lanes of a tile of shared memory: a GPU that has more or less of it gets the
// same bits.
TEST(CudaReduce, TheLanesOfATileDoNotMatter) {
  for (const ReduceCase& c : AllReduceCases(1)) {
    if (c.rows < 65) continue;
    const ReduceData data = MakeData(c);
    Limits small;
    small.shared_bytes = 8 * 1024;
    EXPECT_EQ(
        Difference(RunOnHost(c, data, Limits()), RunOnHost(c, data, small)), "")
        << c.Name();
  }
}

TEST(CudaReduce, FirstBadCoordinateCountsFromTheRange) {
  ReduceCase c;
  c.op = Operation::kMedian;
  c.rows = 3;
  c.elements = 9;
  c.stored = Stored::kFloat32;
  ReduceData data = MakeData(c);
  auto* row = reinterpret_cast<float*>(data.rows.data());
  row[4] = row[7] = -Infinity();
  const ReducePlan plan = PlanOf(data);
  ReduceOutputs outputs(c, data, plan);
  std::vector<double> header(static_cast<size_t>(plan.header_bytes()) / 8);
  auto* bytes = reinterpret_cast<std::byte*>(header.data());
  const std::vector<int64_t> offsets = plan.EvenOffsets(data.row_stride);
  plan.WriteHeader(offsets, bytes);
  ReduceTask task = plan.TaskOf(bytes, data.rows.data(), c.stored, nullptr);
  task.elements = c.elements;
  task.first = 1000;
  task.report = outputs.report_at();
  task.results.aggregate = outputs.aggregate.data();
  host::Reduce(task, plan.EntriesFor(offsets).data(), Limits());
  EXPECT_EQ(outputs.report[0], 2u);
  EXPECT_EQ(outputs.report[1], 1004u);
  EXPECT_EQ(outputs.aggregate[4], 0);
}

// What overflows on the way is formed in float64: the combinations here are
// averages, which exist.
TEST(CudaReduce, CombinationsDoNotOverflow) {
  for (const ReduceCase& c : AllReduceCases(1)) {
    if (!c.huge) continue;
    const ReduceData data = MakeData(c);
    const ReduceOutputs outputs = RunOnHost(c, data, Limits());
    CompareWithReference(c, data, outputs);
    EXPECT_EQ(outputs.report[0], 0u);
  }
}

TEST(CudaReduce, MoreThanCanBeSortedIsRefused) {
  Limits limits;
  limits.shared_bytes = 1024;
  EXPECT_EQ(ShapeOfSort(100, 1000, 1, limits).lanes, 0);
  EXPECT_EQ(ShapeOfSort(100, 250, 1, limits).lanes, 1);
}

// Columns without a weight may hold anything: they are not read.
TEST(CudaReduce, RowsWithoutWeightAreNotRead) {
  ReduceSpecification s;
  s.op = Operation::kMedian;
  s.mixed_rows = 2;
  s.rows.resize(4);
  s.has_previous = true;
  const double mixing[] = {0, 0.5, 0, 0.5, 0, 0,  //
                           0, 1,   0, 0,   0, 0};
  s.mixing = mixing;
  const ReducePlan plan(s);
  EXPECT_EQ(plan.read(), (std::vector<int>{1, 3}));
  EXPECT_FALSE(plan.reads_previous());
  EXPECT_TRUE(plan.reported().empty());
}

TEST(CudaReduce, SelectionsAreNotMixed) {
  ReduceSpecification s;
  s.op = Operation::kTrimmedMean;
  s.mixed_rows = 3;
  s.rows.resize(3);
  const double mixing[] = {0, 0, 1, 0, 0,  //
                           1, 0, 0, 0, 0,  //
                           0, 0, 1, 0, 0};
  s.mixing = mixing;
  const ReducePlan plan(s);
  EXPECT_EQ(plan.read(), (std::vector<int>{0, 2}));
  std::vector<double> header(static_cast<size_t>(plan.header_bytes()) / 8);
  const ReduceTask task =
      plan.TaskOf(reinterpret_cast<std::byte*>(header.data()), nullptr,
                  Stored::kFloat32, nullptr);
  EXPECT_EQ(task.mixing.combinations, 0);
  const std::vector<RowEntry> entries = plan.EntriesFor({0, 160});
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].offset, 160);
  EXPECT_EQ(entries[1].offset, 0);
  EXPECT_EQ(entries[2].offset, 160);
}

}  // namespace
}  // namespace parapet::cuda::testing
