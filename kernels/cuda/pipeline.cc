#include "kernels/cuda/pipeline.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/elements.h"

namespace parapet::cuda {
namespace {

const unsigned char* BytesOf(const void* data) {
  return static_cast<const unsigned char*>(data);
}

// Elements [begin, begin + count) of a row that lies anywhere, as float32.
void DecodeRow(const HostRow& row, int64_t begin, int64_t count, float* to) {
  const Scale scale = ScaleToDecode(row.scale);
  const int64_t size = SizeOf(row.stored);
  for (int64_t j = 0; j < count; ++j) {
    float aligned[1];
    std::memcpy(aligned, BytesOf(row.data) + (begin + j) * size,
                static_cast<size_t>(size));
    DecodeAt(aligned, row.stored, scale, 0, to + j);
  }
}

template <class T>
T* Advanced(T* pointer, int64_t elements) {
  return pointer == nullptr ? nullptr : pointer + elements;
}

Results ResultsFrom(const Results& whole, int64_t begin) {
  Results part = whole;
  part.aggregate = Advanced(whole.aggregate, begin);
  part.previous = Advanced(whole.previous, begin);
  part.places.in = Advanced(whole.places.in, begin);
  part.places.out = Advanced(whole.places.out, begin);
  part.places.moment1 = Advanced(whole.places.moment1, begin);
  part.places.moment2 = Advanced(whole.places.moment2, begin);
  return part;
}

// Where each of the rows is among those that were kept; none unless all are, as
// the plan wants them.
std::vector<int64_t> OffsetsIn(const DeviceRows* kept, const ReducePlan& plan,
                               const std::vector<HostRow>& rows) {
  std::vector<int64_t> offsets;
  if (kept == nullptr || rows.empty() || kept->decoded != plan.decodes())
    return {};
  for (const HostRow& row : rows) {
    const auto at =
        std::find(kept->sources.begin(), kept->sources.end(), row.data);
    if (at == kept->sources.end()) return {};
    offsets.push_back((at - kept->sources.begin()) * kept->stride);
  }
  return offsets;
}

}  // namespace

CudaResult Pipeline::Create(const MemoryNeeds& needs,
                            std::unique_ptr<Pipeline>* made) {
  std::unique_ptr<Pipeline> fresh(new Pipeline(needs));
  PARAPET_CUDA_TRY(fresh->Allocate());
  *made = std::move(fresh);
  return {};
}

Pipeline::~Pipeline() = default;

CudaResult Pipeline::Allocate() {
  bytes_ = PlanCall(needs_);
  const auto size = [](int64_t bytes) { return static_cast<size_t>(bytes); };
  PARAPET_CUDA_TRY(AskLimits(&limits_));
  PARAPET_CUDA_TRY(Stream::Create(&copy_));
  PARAPET_CUDA_TRY(Stream::Create(&compute_));
  for (Slot& slot : slots_) {
    PARAPET_CUDA_TRY(PinnedBuffer::Allocate(size(bytes_.staging), &slot.host));
    PARAPET_CUDA_TRY(
        DeviceBuffer::Allocate(size(bytes_.staging), &slot.device));
    PARAPET_CUDA_TRY(Event::Create(&slot.copied));
    PARAPET_CUDA_TRY(Event::Create(&slot.computed));
  }
  PARAPET_CUDA_TRY(
      PinnedBuffer::Allocate(size(bytes_.numbers), &numbers_host_));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(size(bytes_.numbers), &numbers_));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(
      size(Report::BytesFor(std::max(needs_.rows, 1))), &report_));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(size(bytes_.publish), &publish_));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(size(bytes_.tile_sums), &tile_sums_));
  PARAPET_CUDA_TRY(DeviceBuffer::Allocate(size(bytes_.sums), &sums_));
  return {};
}

CudaResult Pipeline::Check(int64_t elements, size_t rows) const {
  if (elements <= needs_.chunk_elements &&
      static_cast<int>(rows) <= std::max(needs_.rows, 1)) {
    return {};
  }
  return CudaResult::Failed("a chunk of " + std::to_string(elements) +
                            " elements of " + std::to_string(rows) +
                            " rows, where memory was planned for " +
                            std::to_string(needs_.chunk_elements) + " of " +
                            std::to_string(needs_.rows));
}

CudaResult Pipeline::Done(CudaResult result) {
  const CudaResult copied = copy_.Synchronize();
  const CudaResult computed = compute_.Synchronize();
  if (!result.ok()) return result;
  return copied.ok() ? computed : copied;
}

// ---- Rows to the GPU --------------------------------------------------------

Pipeline::Staging Pipeline::StagingFor(const std::vector<HostRow>& rows,
                                       bool decodes, int64_t piece) const {
  Staging staging;
  staging.rows = &rows;
  staging.decodes = decodes;
  if (!decodes && !rows.empty()) staging.stored = rows[0].stored;
  staging.piece = piece;
  staging.stride = (piece * SizeOf(staging.stored) + 15) / 16 * 16;
  return staging;
}

void Pipeline::FillSlot(const Staging& staging, int64_t begin, int64_t count,
                        Slot* slot) const {
  std::byte* to = slot->host.data();
  const int64_t size = SizeOf(staging.stored);
  for (const HostRow& row : *staging.rows) {
    if (staging.decodes) {
      DecodeRow(row, begin, count, reinterpret_cast<float*>(to));
    } else {
      std::memcpy(to, BytesOf(row.data) + begin * size,
                  static_cast<size_t>(count * size));
    }
    to += staging.stride;
  }
}

CudaResult Pipeline::StagePiece(const Staging& staging, int64_t begin,
                                int64_t count, Slot* slot) {
  PARAPET_CUDA_TRY(slot->copied.Synchronize());
  FillSlot(staging, begin, count, slot);
  PARAPET_CUDA_TRY(copy_.Wait(slot->computed));
  const auto bytes = static_cast<size_t>(staging.stride) * staging.rows->size();
  PARAPET_CUDA_TRY(cudaMemcpyAsync(slot->device.data(), slot->host.data(),
                                   bytes, cudaMemcpyHostToDevice, copy_.get()));
  PARAPET_CUDA_TRY(slot->copied.Record(copy_.get()));
  PARAPET_CUDA_TRY(compute_.Wait(slot->copied));
  return {};
}

CudaResult Pipeline::StageInto(const Staging& staging, int64_t begin,
                               int64_t count, Slot* slot, DeviceRows* keep) {
  PARAPET_CUDA_TRY(slot->copied.Synchronize());
  FillSlot(staging, begin, count, slot);
  const int64_t size = SizeOf(staging.stored);
  PARAPET_CUDA_TRY(cudaMemcpy2DAsync(
      keep->data + begin * size, static_cast<size_t>(keep->stride),
      slot->host.data(), static_cast<size_t>(staging.stride),
      static_cast<size_t>(count * size), staging.rows->size(),
      cudaMemcpyHostToDevice, copy_.get()));
  PARAPET_CUDA_TRY(slot->copied.Record(copy_.get()));
  PARAPET_CUDA_TRY(compute_.Wait(slot->copied));
  return {};
}

CudaResult Pipeline::SendNumbers(int64_t bytes) {
  if (bytes > bytes_.numbers) {
    return CudaResult::Failed("a mixing of " + std::to_string(bytes) +
                              " bytes, where memory was planned for " +
                              std::to_string(bytes_.numbers));
  }
  PARAPET_CUDA_TRY(cudaMemcpyAsync(numbers_.data(), numbers_host_.data(),
                                   static_cast<size_t>(bytes),
                                   cudaMemcpyHostToDevice, compute_.get()));
  return {};
}

// ---- Reductions -------------------------------------------------------------

CudaResult Pipeline::Reduce(const Reduction& reduction,
                            std::vector<Report::Counter>* report) {
  PARAPET_CUDA_TRY(Check(reduction.elements, reduction.rows.size()));
  PARAPET_CUDA_TRY(Done(RunReduce(reduction, report)));
  return {};
}

CudaResult Pipeline::RunReduce(const Reduction& reduction,
                               std::vector<Report::Counter>* report) {
  const auto counters =
      static_cast<int>(std::max<size_t>(1, reduction.plan->reported().size()));
  auto* on_device = report_.as<Report>();
  PARAPET_CUDA_TRY(ClearReport(on_device, counters, compute_.get()));
  const std::vector<int64_t> offsets =
      OffsetsIn(reduction.kept, *reduction.plan, reduction.rows);
  PARAPET_CUDA_TRY(offsets.empty() ? ReduceStaged(reduction, on_device)
                                   : ReduceKept(reduction, offsets, on_device));
  const auto bytes = static_cast<size_t>(Report::BytesFor(counters));
  report->resize(bytes / sizeof(Report::Counter));
  PARAPET_CUDA_TRY(cudaMemcpyAsync(report->data(), on_device, bytes,
                                   cudaMemcpyDeviceToHost, compute_.get()));
  return {};
}

CudaResult Pipeline::ReduceKept(const Reduction& reduction,
                                const std::vector<int64_t>& offsets,
                                Report* report) {
  const ReducePlan& plan = *reduction.plan;
  if (plan.header_bytes() <= bytes_.numbers)
    plan.WriteHeader(offsets, numbers_host_.data());
  PARAPET_CUDA_TRY(SendNumbers(plan.header_bytes()));
  ReduceTask task =
      plan.TaskOf(numbers_.data(), reduction.kept->data, reduction.kept->stored,
                  reduction.results.previous);
  task.report = report;
  return ReducePiece(reduction, task, plan.EntriesFor(offsets), 0,
                     reduction.elements);
}

CudaResult Pipeline::ReduceStaged(const Reduction& reduction, Report* report) {
  const ReducePlan& plan = *reduction.plan;
  const Staging staging =
      StagingFor(reduction.rows, plan.decodes(), PieceElements(needs_));
  const std::vector<int64_t> offsets = plan.EvenOffsets(staging.stride);
  const std::vector<RowEntry> entries = plan.EntriesFor(offsets);
  if (plan.header_bytes() <= bytes_.numbers)
    plan.WriteHeader(offsets, numbers_host_.data());
  PARAPET_CUDA_TRY(SendNumbers(plan.header_bytes()));
  int turn = 0;
  for (int64_t begin = 0; begin < reduction.elements; begin += staging.piece) {
    const int64_t count = std::min(staging.piece, reduction.elements - begin);
    Slot& slot = slots_[turn++ % kSlots];
    if (!reduction.rows.empty())
      PARAPET_CUDA_TRY(StagePiece(staging, begin, count, &slot));
    ReduceTask task =
        plan.TaskOf(numbers_.data(), slot.device.as<unsigned char>(),
                    staging.stored, reduction.results.previous);
    task.report = report;
    PARAPET_CUDA_TRY(ReducePiece(reduction, task, entries, begin, count));
    PARAPET_CUDA_TRY(slot.computed.Record(compute_.get()));
  }
  return {};
}

// task.rows begin at the piece, its other addresses at the chunk.
CudaResult Pipeline::ReducePiece(const Reduction& reduction, ReduceTask task,
                                 const std::vector<RowEntry>& entries,
                                 int64_t begin, int64_t count) {
  const Stored published = reduction.results.places.published;
  task.mixing.previous = Advanced(task.mixing.previous, begin);
  task.results = ResultsFrom(reduction.results, begin);
  task.results.places.publish =
      reduction.publish == nullptr
          ? nullptr
          : publish_.data() + begin * SizeOf(published);
  task.elements = count;
  task.first = begin;
  PARAPET_CUDA_TRY(cuda::Reduce(task, entries.data(), limits_, compute_.get()));
  return Publish(reduction.publish, published, begin, count);
}

CudaResult Pipeline::Publish(void* publish, Stored stored, int64_t begin,
                             int64_t count) {
  if (publish == nullptr) return {};
  const int64_t size = SizeOf(stored);
  PARAPET_CUDA_TRY(cudaMemcpyAsync(
      static_cast<std::byte*>(publish) + begin * size,
      publish_.data() + begin * size, static_cast<size_t>(count * size),
      cudaMemcpyDeviceToHost, compute_.get()));
  return {};
}

CudaResult Pipeline::Step(const StepNumbers& numbers, const float* gradient,
                          int64_t elements, const StepPlaces& places,
                          void* publish) {
  PARAPET_CUDA_TRY(Check(elements, 0));
  StepPlaces with_publish = places;
  with_publish.publish = publish == nullptr ? nullptr : publish_.data();
  CudaResult result = cuda::Step(numbers, gradient, elements, with_publish,
                                 limits_, compute_.get());
  if (result.ok()) result = Publish(publish, places.published, 0, elements);
  return Done(result);
}

// ---- Distances, squares, casts ----------------------------------------------

CudaResult Pipeline::Distances(const std::vector<HostRow>& rows,
                               const float* previous, int64_t elements,
                               int64_t leaf, double* sums, uint8_t* finite,
                               DeviceRows* keep) {
  PARAPET_CUDA_TRY(Check(elements, rows.size()));
  if (leaf != needs_.leaf_elements || !needs_.distances)
    return CudaResult::Failed("no memory was planned for such distances");
  DistanceTask whole;
  whole.rows.count = static_cast<int>(rows.size());
  whole.previous = previous;
  whole.elements = elements;
  whole.leaf = leaf;
  whole.sums = sums_.as<double>();
  whole.tile_sums = tile_sums_.as<double>();
  whole.finite =
      reinterpret_cast<uint8_t*>(whole.sums + whole.leaves() * whole.pairs());
  return Done(RunDistances(rows, whole, sums, finite, keep));
}

CudaResult Pipeline::RunDistances(const std::vector<HostRow>& rows,
                                  const DistanceTask& whole, double* sums,
                                  uint8_t* finite, DeviceRows* keep) {
  const bool decodes = std::any_of(
      rows.begin(), rows.end(),
      [](const HostRow& row) { return !DividesExactly(row.scale); });
  const Staging staging = StagingFor(rows, decodes, PieceOfLeaves(needs_));
  if (keep != nullptr) {
    keep->stride = (whole.elements * SizeOf(staging.stored) + 15) / 16 * 16;
    keep->stored = staging.stored;
    keep->decoded = decodes;
    keep->sources.clear();
    for (const HostRow& row : rows) keep->sources.push_back(row.data);
  }
  auto* entries = numbers_host_.as<RowEntry>();
  const int64_t stride = keep == nullptr ? staging.stride : keep->stride;
  for (size_t r = 0; r < rows.size(); ++r) {
    entries[r] = MakeRowEntry(static_cast<int64_t>(r) * stride,
                              decodes ? 1 : rows[r].scale, 1);
  }
  PARAPET_CUDA_TRY(
      SendNumbers(static_cast<int64_t>(rows.size() * sizeof(RowEntry))));
  int turn = 0;
  for (int64_t begin = 0; begin < whole.elements; begin += staging.piece) {
    PARAPET_CUDA_TRY(MeasurePiece(
        staging, whole, begin, std::min(staging.piece, whole.elements - begin),
        &slots_[turn++ % kSlots], keep));
  }
  const auto leaves = static_cast<size_t>(whole.leaves());
  PARAPET_CUDA_TRY(cudaMemcpyAsync(
      sums, whole.sums, leaves * static_cast<size_t>(whole.pairs()) * 8,
      cudaMemcpyDeviceToHost, compute_.get()));
  PARAPET_CUDA_TRY(cudaMemcpyAsync(finite, whole.finite, leaves * rows.size(),
                                   cudaMemcpyDeviceToHost, compute_.get()));
  return {};
}

CudaResult Pipeline::MeasurePiece(const Staging& staging,
                                  const DistanceTask& whole, int64_t begin,
                                  int64_t count, Slot* slot, DeviceRows* keep) {
  DistanceTask task = whole;
  const int64_t first_leaf = begin / whole.leaf;
  task.rows.entries = numbers_.as<RowEntry>();
  task.rows.stored = staging.stored;
  if (keep == nullptr) {
    PARAPET_CUDA_TRY(StagePiece(staging, begin, count, slot));
    task.rows.data = slot->device.as<unsigned char>();
  } else {
    PARAPET_CUDA_TRY(StageInto(staging, begin, count, slot, keep));
    task.rows.data = keep->data + begin * SizeOf(staging.stored);
  }
  task.previous = Advanced(whole.previous, begin);
  task.elements = count;
  task.sums += first_leaf * whole.pairs();
  task.finite += first_leaf * whole.rows.count;
  PARAPET_CUDA_TRY(cuda::Distances(task, limits_, compute_.get()));
  return slot->computed.Record(compute_.get());
}

CudaResult Pipeline::LeafSquares(const float* values, int64_t elements,
                                 int64_t leaf, double* sums) {
  PARAPET_CUDA_TRY(Check(elements, 0));
  const SquaresTask task = {values, elements, leaf, sums_.as<double>()};
  const auto bytes = static_cast<size_t>(task.leaves()) * sizeof(double);
  if (bytes > sums_.size())
    return CudaResult::Failed("no memory was planned for so many leaves");
  CudaResult result = cuda::LeafSquares(task, limits_, compute_.get());
  if (result.ok()) {
    result = ResultOf(cudaMemcpyAsync(sums, task.sums, bytes,
                                      cudaMemcpyDeviceToHost, compute_.get()),
                      "cudaMemcpyAsync(sums)", __FILE__, __LINE__);
  }
  return Done(result);
}

CudaResult Pipeline::Copy(const void* from, int64_t bytes, void* to) {
  return Done(ResultOf(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                       cudaMemcpyDefault, compute_.get()),
                       "cudaMemcpyAsync(to, from)", __FILE__, __LINE__));
}

CudaResult Pipeline::Encode(const float* values, int64_t elements, Stored to,
                            void* out) {
  PARAPET_CUDA_TRY(Check(elements, 0));
  auto* counter = report_.as<Report>();
  CudaResult result =
      cuda::Encode(values, elements, to, 1, publish_.data(),
                   &counter->bad_coordinates, limits_, compute_.get());
  if (result.ok()) result = Publish(out, to, 0, elements);
  return Done(result);
}

}  // namespace parapet::cuda
