// What a server does with a chunk: from rows at any address in host memory to
// what is published.

#include <algorithm>
#include <memory>

#include "kernels/cuda/pipeline.h"
#include "tests/cuda/gpu/arrays.h"
#include "tests/cuda/gpu/check.h"
#include "tests/cuda/outputs.h"

namespace parapet::cuda::testing {
namespace {

MemoryNeeds NeedsOf(const ReduceCase& c, int64_t leaf) {
  MemoryNeeds needs;
  needs.shard_elements = needs.chunk_elements = c.elements;
  needs.leaf_elements = leaf;
  needs.rows = c.rows;
  needs.distances = true;
  needs.piece_bytes = 1 << 20;
  return needs;
}

// Rows as the network brings them: not aligned to anything.
struct Received {
  std::vector<std::vector<unsigned char>> bytes;
  std::vector<HostRow> rows;

  Received(const ReduceCase& c, const ReduceData& data) {
    const int64_t size = c.elements * SizeOf(c.stored);
    for (int r = 0; r < c.rows; ++r) {
      std::vector<unsigned char>& row = bytes.emplace_back(size + 8);
      const int shift = r % 5;
      std::memcpy(row.data() + shift, data.Row(r), static_cast<size_t>(size));
      rows.push_back({row.data() + shift, c.stored, c.scale});
    }
  }
};

struct Places {
  GpuArray<float> in, out, moment1, moment2, previous;
};
CudaResult Send(const ReduceData& data, const ReduceOutputs& poisoned,
                Places* places) {
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.weights, &places->in));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(poisoned.out, &places->out));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.moment1, &places->moment1));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.moment2, &places->moment2));
  return GpuArray<float>::Make(data.previous, &places->previous);
}

CudaResult Run(const ReduceCase& c, const ReduceData& data,
               const Received& received, const DeviceRows* kept,
               Pipeline* pipeline, ReduceOutputs* outputs) {
  const ReducePlan plan = PlanOf(data);
  Places places;
  PARAPET_CUDA_TRY(Send(data, *outputs, &places));
  Pipeline::Reduction reduction;
  reduction.plan = &plan;
  for (int row : plan.read()) reduction.rows.push_back(received.rows[row]);
  reduction.kept = kept;
  reduction.elements = c.elements;
  reduction.results.previous = places.previous.data();
  reduction.results.step = true;
  reduction.results.numbers = NumbersFor(c.optimizer);
  reduction.results.places = {
      places.in.data(),      places.out.data(), places.moment1.data(),
      places.moment2.data(), nullptr,           c.published};
  reduction.publish = outputs->publish.data();
  PARAPET_CUDA_TRY(pipeline->Reduce(reduction, &outputs->report));
  PARAPET_CUDA_TRY(places.out.Receive(&outputs->out));
  PARAPET_CUDA_TRY(places.moment1.Receive(&outputs->moment1));
  PARAPET_CUDA_TRY(places.moment2.Receive(&outputs->moment2));
  return places.previous.Receive(&outputs->previous);
}

// The rest of the report is for rows that it does not count.
void Trim(const ReducePlan& plan, ReduceOutputs* outputs) {
  outputs->report.resize(2 + std::max<size_t>(1, plan.reported().size()));
}

void CheckReduce(const ReduceCase& c, const ReduceData& data,
                 const Received& received, const DeviceRows* kept,
                 Pipeline* pipeline, Tally* tally) {
  const ReducePlan plan = PlanOf(data);
  ReduceOutputs on_gpu(c, data, plan);
  const CudaResult run = Run(c, data, received, kept, pipeline, &on_gpu);
  if (!run.ok()) return tally->Note("pipeline, " + c.Name(), run);
  ReduceOutputs on_host = RunOnHost(c, data, Limits());
  Trim(plan, &on_host);
  Trim(plan, &on_gpu);
  on_gpu.aggregate = on_host.aggregate;  // not asked for
  const std::string differs = Difference(on_host, on_gpu);
  tally->Note("pipeline, " + c.Name() + (kept == nullptr ? "" : ", kept"),
              differs.empty() ? "" : "other bits in" + differs);
}

// Measures the rows, keeps them, and reduces them from there.
CudaResult CheckKept(const ReduceCase& c, const ReduceData& data,
                     const Received& received, int64_t leaf, Pipeline* pipeline,
                     Tally* tally) {
  DeviceBuffer room;
  DeviceRows kept;
  kept.capacity = DeviceRows::BytesFor(c.rows, c.elements);
  PARAPET_CUDA_TRY(
      DeviceBuffer::Allocate(static_cast<size_t>(kept.capacity), &room));
  kept.data = room.as<unsigned char>();
  DistanceCase d;
  d.rows = c.rows;
  d.elements = c.elements;
  d.leaf = leaf;
  d.stored = c.stored;
  d.scale = c.scale;
  DistanceData rows;
  const ReducePlan plan = PlanOf(data);
  for (int r = 0; r < c.rows; ++r)
    rows.entries.push_back(MakeRowEntry(r * data.row_stride, c.scale, 1));
  rows.staged = data.rows;
  rows.previous = data.previous;
  GpuArray<float> previous;
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.previous, &previous));
  for (DeviceRows* keep : {static_cast<DeviceRows*>(nullptr), &kept}) {
    DistanceOutputs on_gpu(TaskOf(d));
    PARAPET_CUDA_TRY(pipeline->Distances(received.rows, previous.data(),
                                         c.elements, leaf, on_gpu.sums.data(),
                                         on_gpu.finite.data(), keep));
    const DistanceOutputs on_host = RunOnHost(d, rows, Limits());
    tally->Note("pipeline, distances, " + d.Name(),
                SameBits(on_host.sums, on_gpu.sums) &&
                        SameBits(on_host.finite, on_gpu.finite)
                    ? ""
                    : "other bits");
  }
  CheckReduce(c, data, received, &kept, pipeline, tally);
  return {};
}

ReduceCase PipelineCase(Operation op, Mix mix, int64_t elements,
                        Random& random) {
  ReduceCase c = CaseOf(op, 9, mix, random);
  c.elements = elements;
  c.scale = 1;
  c.optimizer = 1 + random.Below(4);
  return c;
}

}  // namespace

void CheckPipeline(bool small, Tally* tally) {
  Random random(13);
  // Several pieces of staging, the last one short.
  const int64_t elements = small ? 3001 : 200001;
  const int64_t leaf = small ? 512 : 16384;
  for (Operation op : {Operation::kMean, Operation::kMedian,
                       Operation::kTrimmedMean, Operation::kPhocas}) {
    for (Mix mix : {Mix::kNone, Mix::kSelection, Mix::kOne, Mix::kAny}) {
      const ReduceCase c = PipelineCase(op, mix, elements, random);
      const ReduceData data = MakeData(c);
      const Received received(c, data);
      std::unique_ptr<Pipeline> pipeline;
      CudaResult result = Pipeline::Create(NeedsOf(c, leaf), &pipeline);
      if (result.ok()) {
        CheckReduce(c, data, received, nullptr, pipeline.get(), tally);
        result = CheckKept(c, data, received, leaf, pipeline.get(), tally);
      }
      if (!result.ok()) tally->Note("pipeline, " + c.Name(), result);
    }
  }
}

}  // namespace parapet::cuda::testing
