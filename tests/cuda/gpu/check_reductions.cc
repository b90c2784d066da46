#include <algorithm>
#include <cmath>

#include "kernels/cuda/operations.h"
#include "tests/cuda/gpu/arrays.h"
#include "tests/cuda/gpu/check.h"
#include "tests/cuda/outputs.h"
#include "tests/cuda/reference.h"

namespace parapet::cuda::testing {
namespace {

// The arrays of a case on the GPU.
struct OnGpu {
  GpuArray<unsigned char> rows, publish, header;
  GpuArray<float> aggregate, previous, in, out, moment1, moment2;
  GpuArray<Report::Counter> report;
};

std::vector<unsigned char> HeaderOf(const ReducePlan& plan,
                                    const std::vector<int64_t>& offsets) {
  std::vector<unsigned char> header(static_cast<size_t>(plan.header_bytes()));
  plan.WriteHeader(offsets, reinterpret_cast<std::byte*>(header.data()));
  return header;
}

CudaResult Send(const ReduceData& data, const StagedRows& staged,
                const std::vector<unsigned char>& header,
                const ReduceOutputs& poisoned, OnGpu* gpu) {
  PARAPET_CUDA_TRY(GpuArray<unsigned char>::Make(staged.bytes, &gpu->rows));
  PARAPET_CUDA_TRY(GpuArray<unsigned char>::Make(header, &gpu->header));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.weights, &gpu->in));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(poisoned.aggregate, &gpu->aggregate));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(poisoned.previous, &gpu->previous));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(poisoned.out, &gpu->out));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(poisoned.moment1, &gpu->moment1));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(poisoned.moment2, &gpu->moment2));
  PARAPET_CUDA_TRY(
      GpuArray<unsigned char>::Make(poisoned.publish, &gpu->publish));
  return GpuArray<Report::Counter>::Make(poisoned.report, &gpu->report);
}

CudaResult Receive(const OnGpu& gpu, ReduceOutputs* outputs) {
  PARAPET_CUDA_TRY(gpu.aggregate.Receive(&outputs->aggregate));
  PARAPET_CUDA_TRY(gpu.previous.Receive(&outputs->previous));
  PARAPET_CUDA_TRY(gpu.out.Receive(&outputs->out));
  PARAPET_CUDA_TRY(gpu.moment1.Receive(&outputs->moment1));
  PARAPET_CUDA_TRY(gpu.moment2.Receive(&outputs->moment2));
  PARAPET_CUDA_TRY(gpu.publish.Receive(&outputs->publish));
  return gpu.report.Receive(&outputs->report);
}

CudaResult RunOnGpu(const ReduceCase& c, const ReduceData& data,
                    const Limits& limits, ReduceOutputs* outputs) {
  const ReducePlan plan = PlanOf(data);
  const StagedRows staged = Stage(c, data, plan);
  const std::vector<int64_t> offsets = plan.EvenOffsets(staged.stride);
  OnGpu gpu;
  PARAPET_CUDA_TRY(Send(data, staged, HeaderOf(plan, offsets), *outputs, &gpu));
  ReduceTask task =
      plan.TaskOf(reinterpret_cast<std::byte*>(gpu.header.data()),
                  gpu.rows.data(), staged.stored, gpu.previous.data());
  SetResults(c,
             {gpu.aggregate.data(), gpu.previous.data(), gpu.out.data(),
              gpu.moment1.data(), gpu.moment2.data(), gpu.in.data(),
              gpu.publish.data(), reinterpret_cast<Report*>(gpu.report.data())},
             &task);
  const std::vector<RowEntry> entries = plan.EntriesFor(offsets);
  PARAPET_CUDA_TRY(Reduce(task, entries.data(), limits, nullptr));
  return Receive(gpu, outputs);
}

std::string AgainstReference(const ReduceCase& c, const ReduceData& data,
                             const ReduceOutputs& outputs) {
  for (int64_t j = 0; j < c.elements && IsDecided(c); ++j) {
    const Expected expected = ExpectedAt(c, data, j);
    const double error =
        std::abs(static_cast<double>(outputs.aggregate[j]) - expected.value);
    if (!(error <= expected.tolerance)) {
      return "element " + std::to_string(j) + " is " +
             std::to_string(outputs.aggregate[j]) + ", not " +
             std::to_string(expected.value);
    }
  }
  return "";
}

void Check(const ReduceCase& c, const Limits& limits, Tally* tally) {
  const ReduceData data = MakeData(c);
  const ReducePlan plan = PlanOf(data);
  ReduceOutputs on_gpu(c, data, plan);
  const CudaResult run = RunOnGpu(c, data, limits, &on_gpu);
  if (!run.ok()) return tally->Note(c.Name(), run);
  tally->Note(c.Name() + ", against float64",
              AgainstReference(c, data, on_gpu));
  const std::string differs = Difference(RunOnHost(c, data, limits), on_gpu);
  tally->Note(c.Name() + ", against the CPU",
              differs.empty() ? "" : "other bits in" + differs);
}

// Many blocks, and no whole number of them.
std::vector<ReduceCase> LargeCases() {
  Random random(11);
  std::vector<ReduceCase> cases;
  for (int rows : {16, 33, 100}) {
    for (int op = 0; op < 6; ++op) {
      for (Mix mix : {Mix::kNone, Mix::kAny}) {
        ReduceCase c = CaseOf(static_cast<Operation>(op), rows, mix, random);
        c.elements = rows > 64 ? 4099 : 100003;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

}  // namespace

void CheckReductions(const Limits& limits, bool small, Tally* tally) {
  for (const ReduceCase& c : AllReduceCases(small ? 1 : 4))
    Check(c, limits, tally);
  if (small) return;
  for (const ReduceCase& c : LargeCases()) Check(c, limits, tally);
}

}  // namespace parapet::cuda::testing
