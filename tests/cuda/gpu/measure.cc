#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "kernels/cuda/operations.h"
#include "kernels/cuda/pipeline.h"
#include "tests/cuda/gpu/arrays.h"
#include "tests/cuda/gpu/check.h"
#include "tests/cuda/outputs.h"

namespace parapet::cuda::testing {
namespace {

constexpr int kRows = 16;
constexpr int kTimes = 10;

// Seconds of one of several in a row, by the GPU's clock.
CudaResult Time(const std::function<CudaResult(cudaStream_t)>& work,
                double* seconds) {
  Stream stream;
  Event begin, end;
  PARAPET_CUDA_TRY(Stream::Create(&stream));
  PARAPET_CUDA_TRY(Event::Create(&begin, true));
  PARAPET_CUDA_TRY(Event::Create(&end, true));
  PARAPET_CUDA_TRY(work(stream.get()));  // warm
  PARAPET_CUDA_TRY(begin.Record(stream.get()));
  for (int i = 0; i < kTimes; ++i) PARAPET_CUDA_TRY(work(stream.get()));
  PARAPET_CUDA_TRY(end.Record(stream.get()));
  PARAPET_CUDA_TRY(end.Synchronize());
  PARAPET_CUDA_TRY(end.SecondsSince(begin, seconds));
  *seconds /= kTimes;
  return {};
}

// Random float32 values in device memory, made there by copies of a few.
CudaResult Fill(DeviceBuffer* buffer) {
  Random random(1);
  const std::vector<float> some = RandomFloats(1 << 20, random);
  const size_t bytes = some.size() * sizeof(float);
  for (size_t at = 0; at < buffer->size(); at += bytes) {
    PARAPET_CUDA_TRY(cudaMemcpy(buffer->data() + at, some.data(),
                                std::min(bytes, buffer->size() - at),
                                cudaMemcpyHostToDevice));
  }
  return {};
}

// The rows, weights and so on of the measurements.
struct Arena {
  int64_t elements = 0;
  DeviceBuffer rows, weights, moment, aggregate, previous, header, report;
  double copy = 0;     // GB/s
  double product = 0;  // TFLOP/s

  CudaResult Make(int64_t free) {
    // 16 rows and 4 more.
    elements = std::min<int64_t>(1 << 26, free / 2 / (20 * 4) / 16384 * 16384);
    const auto bytes = static_cast<size_t>(elements) * sizeof(float);
    PARAPET_CUDA_TRY(DeviceBuffer::Allocate(kRows * bytes, &rows));
    for (DeviceBuffer* buffer : {&weights, &moment, &aggregate, &previous}) {
      PARAPET_CUDA_TRY(DeviceBuffer::Allocate(bytes, buffer));
      PARAPET_CUDA_TRY(cudaMemset(buffer->data(), 0, bytes));
    }
    PARAPET_CUDA_TRY(DeviceBuffer::Allocate(1 << 20, &header));
    PARAPET_CUDA_TRY(DeviceBuffer::Allocate(1 << 16, &report));
    return Fill(&rows);
  }
};

CudaResult MeasureCopy(Arena* arena) {
  const size_t half = arena->rows.size() / 2;
  double seconds = 0;
  PARAPET_CUDA_TRY(Time(
      [&](cudaStream_t stream) -> CudaResult {
        PARAPET_CUDA_TRY(cudaMemcpyAsync(arena->rows.data(),
                                         arena->rows.data() + half, half,
                                         cudaMemcpyDeviceToDevice, stream));
        return {};
      },
      &seconds));
  arena->copy = 2 * static_cast<double>(half) / seconds / 1e9;
  std::printf("  copy on the device, read and written   %8.0f GB/s\n",
              arena->copy);
  return {};
}

CudaResult MeasureProduct(Arena* arena) {
  constexpr int kSide = 8192;
  cublasHandle_t handle = nullptr;
  PARAPET_CUDA_TRY(cublasCreate(&handle));
  const auto matrix = size_t{kSide} * kSide * sizeof(float);
  DeviceBuffer a, b, c;
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(matrix, &a));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(matrix, &b));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(matrix, &c));
  PARAPET_CUDA_TRY(Fill(&a));
  PARAPET_CUDA_TRY(Fill(&b));
  const float one = 1, zero = 0;
  double seconds = 0;
  PARAPET_CUDA_TRY(Time(
      [&](cudaStream_t stream) -> CudaResult {
        PARAPET_CUDA_TRY(cublasSetStream(handle, stream));
        PARAPET_CUDA_TRY(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide,
                                     kSide, kSide, &one, a.as<float>(), kSide,
                                     b.as<float>(), kSide, &zero, c.as<float>(),
                                     kSide));
        return {};
      },
      &seconds));
  PARAPET_CUDA_TRY(cublasDestroy(handle));
  arena->product = 2.0 * kSide * kSide * kSide / seconds / 1e12;
  std::printf("  product of float32 by cuBLAS           %8.1f TFLOP/s\n",
              arena->product);
  return {};
}

struct Rule {
  const char* name;
  Operation op;
  int f;
  Mix mix;
  bool step;
};

CudaResult MeasureRule(const Rule& rule, const Limits& limits, Arena* arena) {
  ReduceCase c;
  c.op = rule.op;
  c.rows = kRows;
  c.f = rule.f;
  c.mix = rule.mix;
  c.combinations = kRows;
  Random random(3);
  ReduceData data;
  if (rule.mix != Mix::kNone) data.mixing = RandomMixing(c, random);
  data.specification.op = rule.op;
  data.specification.f = rule.f;
  data.specification.mixed_rows = rule.mix == Mix::kNone ? 0 : kRows;
  data.specification.rows.resize(kRows);
  const ReducePlan plan = PlanOf(data);
  const auto offsets = plan.EvenOffsets(arena->elements * 4);
  std::vector<std::byte> header(static_cast<size_t>(plan.header_bytes()));
  plan.WriteHeader(offsets, header.data());
  PARAPET_CUDA_TRY(cudaMemcpy(arena->header.data(), header.data(),
                              header.size(), cudaMemcpyHostToDevice));
  ReduceTask task =
      plan.TaskOf(arena->header.data(), arena->rows.as<unsigned char>(),
                  Stored::kFloat32, nullptr);
  task.elements = arena->elements;
  task.report = arena->report.as<Report>();
  task.results.step = rule.step;
  task.results.numbers = NumbersFor(1);
  task.results.places = {arena->weights.as<float>(),
                         arena->weights.as<float>(),
                         arena->moment.as<float>(),
                         nullptr,
                         nullptr,
                         Stored::kFloat32};
  if (!rule.step) task.results.aggregate = arena->aggregate.as<float>();
  const std::vector<RowEntry> entries = plan.EntriesFor(offsets);
  double seconds = 0;
  PARAPET_CUDA_TRY(Time(
      [&](cudaStream_t stream) {
        return Reduce(task, entries.data(), limits, stream);
      },
      &seconds));
  // Rows once; weights and a moment read and written, or the aggregate written.
  const double bytes =
      static_cast<double>(arena->elements) * 4 * (kRows + (rule.step ? 4 : 1));
  const double rate = bytes / seconds / 1e9;
  std::printf("  %-38s %8.0f GB/s  %3.0f %% of the copy\n", rule.name, rate,
              100 * rate / arena->copy);
  return {};
}

CudaResult MeasureDistances(int rows, const Limits& limits, Arena* arena) {
  DistanceTask task;
  std::vector<RowEntry> entries;
  for (int r = 0; r < rows; ++r)
    entries.push_back(MakeRowEntry(
        static_cast<int64_t>(r % kRows) * arena->elements * 4, 1, 1));
  PARAPET_CUDA_TRY(cudaMemcpy(arena->header.data(), entries.data(),
                              entries.size() * sizeof(RowEntry),
                              cudaMemcpyHostToDevice));
  task.rows = {arena->rows.as<unsigned char>(), arena->header.as<RowEntry>(),
               rows, Stored::kFloat32};
  task.previous = arena->previous.as<float>();
  task.elements = std::min<int64_t>(arena->elements, 1 << 22);
  task.leaf = 16384;
  DeviceBuffer tile_sums, sums, finite;
  const auto each = static_cast<size_t>(task.pairs()) * sizeof(double);
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(
      static_cast<size_t>(task.tiles()) * each, &tile_sums));
  PARAPET_CUDA_TRY(
      DeviceBuffer::Allocate(static_cast<size_t>(task.leaves()) * each, &sums));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(
      static_cast<size_t>(task.leaves() * rows), &finite));
  task.tile_sums = tile_sums.as<double>();
  task.sums = sums.as<double>();
  task.finite = finite.as<uint8_t>();
  double seconds = 0;
  PARAPET_CUDA_TRY(
      Time([&](cudaStream_t stream) { return Distances(task, limits, stream); },
           &seconds));
  const auto coordinates = static_cast<double>(task.elements);
  const double bytes = coordinates * 4 * (rows + 1) / seconds / 1e9;
  // A subtraction and a fused multiply-add take two instructions: as long as
  // four operations of a product.
  const double flops =
      coordinates * static_cast<double>(task.pairs()) * 4 / seconds / 1e12;
  std::printf(
      "  distances of %3d rows                  %8.0f GB/s  %3.0f %% of the "
      "copy, %5.1f TFLOP/s  %3.0f %% of the product\n",
      rows, bytes, 100 * bytes / arena->copy, flops,
      100 * flops / arena->product);
  return {};
}

// From received rows to published weights, one call after the other; a server
// has several under way.
CudaResult MeasurePipeline() {
  ReduceCase c;
  c.op = Operation::kMedian;
  c.rows = kRows;
  c.elements = 1 << 18;
  c.optimizer = 1;
  const ReduceData data = MakeData(c);
  const ReducePlan plan = PlanOf(data);
  MemoryNeeds needs;
  needs.shard_elements = needs.chunk_elements = c.elements;
  needs.leaf_elements = 16384;
  needs.rows = kRows;
  std::unique_ptr<Pipeline> pipeline;
  PARAPET_CUDA_TRY(Pipeline::Create(needs, &pipeline));
  GpuArray<float> weights, moment;
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.weights, &weights));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(data.moment1, &moment));
  PinnedBuffer publish;
  PARAPET_CUDA_TRY(PinnedBuffer::Allocate(c.elements * 4, &publish));
  Pipeline::Reduction reduction;
  reduction.plan = &plan;
  for (int row : plan.read())
    reduction.rows.push_back({data.Row(row), Stored::kFloat32, 1});
  reduction.elements = c.elements;
  reduction.results.step = true;
  reduction.results.numbers = NumbersFor(1);
  reduction.results.places = {weights.data(), weights.data(), moment.data(),
                              nullptr,        nullptr,        Stored::kFloat32};
  reduction.publish = publish.data();
  std::vector<Report::Counter> report;
  Event begin, end;
  PARAPET_CUDA_TRY(Event::Create(&begin, true));
  PARAPET_CUDA_TRY(Event::Create(&end, true));
  PARAPET_CUDA_TRY(pipeline->Reduce(reduction, &report));
  PARAPET_CUDA_TRY(begin.Record(nullptr));
  for (int i = 0; i < kTimes; ++i)
    PARAPET_CUDA_TRY(pipeline->Reduce(reduction, &report));
  PARAPET_CUDA_TRY(end.Record(nullptr));
  PARAPET_CUDA_TRY(end.Synchronize());
  double seconds = 0;
  PARAPET_CUDA_TRY(end.SecondsSince(begin, &seconds));
  std::printf(
      "  a chunk's rows from the host, one call  %7.1f GB/s\n",
      static_cast<double>(c.elements) * 4 * kRows * kTimes / seconds / 1e9);
  return {};
}

}  // namespace

CudaResult MeasureAll(const Limits& limits) {
  Arena arena;
  int64_t free = 0;
  PARAPET_CUDA_TRY(FreeMemory(&free));
  PARAPET_CUDA_TRY(arena.Make(free));
  std::printf("%d rows of %.0f M float32 values:\n", kRows,
              static_cast<double>(arena.elements) / 1e6);
  PARAPET_CUDA_TRY(MeasureCopy(&arena));
  PARAPET_CUDA_TRY(MeasureProduct(&arena));
  const Rule rules[] = {
      {"mean", Operation::kMean, 0, Mix::kNone, false},
      {"mean, momentum step", Operation::kMean, 0, Mix::kNone, true},
      {"median", Operation::kMedian, 4, Mix::kNone, false},
      {"median, momentum step", Operation::kMedian, 4, Mix::kNone, true},
      {"trimmed_mean f=4", Operation::kTrimmedMean, 4, Mix::kNone, false},
      {"trimmed_mean f=4, momentum step", Operation::kTrimmedMean, 4,
       Mix::kNone, true},
      {"meamed f=4", Operation::kMeamed, 4, Mix::kNone, false},
      {"phocas f=4", Operation::kPhocas, 4, Mix::kNone, false},
      {"sign_vote", Operation::kSignVote, 0, Mix::kNone, false},
      {"16 combinations, trimmed_mean f=4", Operation::kTrimmedMean, 4,
       Mix::kAny, true},
  };
  for (const Rule& rule : rules)
    PARAPET_CUDA_TRY(MeasureRule(rule, limits, &arena));
  for (int rows : {8, 16, 32, 64})
    PARAPET_CUDA_TRY(MeasureDistances(rows, limits, &arena));
  return MeasurePipeline();
}

}  // namespace parapet::cuda::testing
