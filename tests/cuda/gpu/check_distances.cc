#include <cmath>

#include "kernels/cuda/operations.h"
#include "tests/cuda/gpu/arrays.h"
#include "tests/cuda/gpu/check.h"
#include "tests/cuda/outputs.h"
#include "tests/cuda/reference.h"

namespace parapet::cuda::testing {
namespace {

CudaResult RunOnGpu(const DistanceCase& c, const DistanceData& data,
                    const Limits& limits, DistanceOutputs* outputs) {
  GpuArray<unsigned char> rows;
  GpuArray<float> previous;
  GpuArray<RowEntry> entries;
  GpuArray<double> sums, tile_sums;
  GpuArray<uint8_t> finite;
  PARAPET_CUDA_TRY(GpuArray<unsigned char>::Make(data.staged, &rows));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.previous, &previous));
  PARAPET_CUDA_TRY(GpuArray<RowEntry>::Make(data.entries, &entries));
  PARAPET_CUDA_TRY(GpuArray<double>::Make(outputs->sums, &sums));
  PARAPET_CUDA_TRY(GpuArray<double>::Make(outputs->tile_sums, &tile_sums));
  PARAPET_CUDA_TRY(GpuArray<uint8_t>::Make(outputs->finite, &finite));
  DistanceTask task = TaskOf(c);
  task.rows.data = rows.data();
  task.rows.entries = entries.data();
  task.previous = c.previous ? previous.data() : nullptr;
  task.sums = sums.data();
  task.tile_sums = tile_sums.data();
  task.finite = finite.data();
  PARAPET_CUDA_TRY(Distances(task, limits, nullptr));
  PARAPET_CUDA_TRY(sums.Receive(&outputs->sums));
  PARAPET_CUDA_TRY(tile_sums.Receive(&outputs->tile_sums));
  return finite.Receive(&outputs->finite);
}

std::string AgainstReference(const DistanceCase& c, const DistanceData& data,
                             const DistanceOutputs& outputs) {
  const DistanceTask task = TaskOf(c);
  for (int64_t leaf = 0; leaf < task.leaves(); ++leaf) {
    for (int a = 0; a < c.rows + 2; ++a) {
      for (int b = a + 1; b < c.rows + 2; ++b) {
        const Expected expected = ExpectedDistance(c, data, leaf, a, b);
        const double sum =
            outputs.sums[leaf * task.pairs() + PairPlace(task.vectors(), a, b)];
        if (!expected.bad &&
            !(std::abs(sum - expected.value) <= expected.tolerance)) {
          return "vectors " + std::to_string(a) + " and " + std::to_string(b) +
                 ": " + std::to_string(sum) + ", not " +
                 std::to_string(expected.value);
        }
      }
    }
  }
  return "";
}

void Check(const DistanceCase& c, const Limits& limits, Tally* tally) {
  const DistanceData data = MakeData(c);
  DistanceOutputs on_gpu(TaskOf(c));
  const CudaResult run = RunOnGpu(c, data, limits, &on_gpu);
  if (!run.ok()) return tally->Note(c.Name(), run);
  tally->Note(c.Name() + ", against float64",
              AgainstReference(c, data, on_gpu));
  const DistanceOutputs on_host = RunOnHost(c, data, limits);
  // Sums of rows with NaN mean nothing.
  const bool same = (c.bad_values || SameBits(on_host.sums, on_gpu.sums)) &&
                    SameBits(on_host.finite, on_gpu.finite);
  tally->Note(c.Name() + ", against the CPU", same ? "" : "other bits");
}

}  // namespace

void CheckDistances(const Limits& limits, bool small, Tally* tally) {
  for (DistanceCase c : AllDistanceCases()) {
    if (small && (c.rows > 33 || c.elements > 300)) continue;
    Check(c, limits, tally);
  }
  if (small) return;
  DistanceCase large;
  large.rows = 16;
  large.elements = 100003;
  large.leaf = 16384;
  Check(large, limits, tally);
}

}  // namespace parapet::cuda::testing
