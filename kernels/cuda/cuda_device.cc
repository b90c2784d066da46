#include "kernels/cuda/cuda_device.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cuda/pipeline.h"

namespace parapet {
namespace {

using cuda::CudaResult;
using cuda::Pipeline;

absl::Status StatusOf(const CudaResult& result) {
  if (result.ok()) return absl::OkStatus();
  return result.out_of_memory() ? absl::ResourceExhaustedError(result.words())
                                : absl::InternalError(result.words());
}

cuda::StepNumbers NumbersOf(const OptimizerConfig& optimizer,
                            const StepFacts& facts) {
  const StepConstants c = MakeStepConstants(optimizer, facts);
  return {.kind = static_cast<cuda::Optimizer>(c.kind),
          .decay = c.decay,
          .gradient_scale = c.gradient_scale,
          .weight_decay = c.weight_decay,
          .shrink = c.shrink,
          .lr = c.lr,
          .momentum = c.momentum,
          .beta1 = c.beta1,
          .one_minus_beta1 = c.one_minus_beta1,
          .beta2 = c.beta2,
          .one_minus_beta2 = c.one_minus_beta2,
          .step_size = c.step_size,
          .root_bias2 = c.root_bias2,
          .epsilon = c.epsilon};
}

cuda::StepPlaces PlacesOf(const StepTarget& target) {
  return {target.in,      target.out,
          target.moment1, target.moment2,
          nullptr,        static_cast<cuda::Stored>(target.publish_dtype)};
}

cuda::HostRow HostRowOf(const Row& row) {
  return {row.data, static_cast<cuda::Stored>(row.dtype), row.scale};
}

cuda::ReducePlan PlanOf(const ReduceSpec& spec, absl::Span<const Row> rows,
                        bool has_previous) {
  cuda::ReduceSpecification specification;
  specification.op = static_cast<cuda::Operation>(spec.op);
  specification.f = spec.f;
  specification.scale = spec.scale;
  specification.mixed_rows = spec.mixed_rows;
  specification.mixing = spec.mixing;
  specification.has_previous = has_previous;
  for (const Row& row : rows)
    specification.rows.push_back({row.scale, row.weight});
  return cuda::ReducePlan(specification);
}

ReduceReport ReportOf(const std::vector<cuda::Report::Counter>& counters,
                      const cuda::ReducePlan& plan, size_t rows) {
  ReduceReport report;
  report.bad_coordinates = static_cast<int64_t>(counters[0]);
  report.first_bad = static_cast<int64_t>(counters[1]);  // none: -1
  for (size_t i = 0; i < plan.reported().size(); ++i) {
    if (counters[2 + i] == 0) continue;
    report.bad_values.resize(rows);
    report.bad_values[plan.reported()[i]] =
        static_cast<int64_t>(counters[2 + i]);
  }
  return report;
}

// Device memory of chunks' rows. Blocks are kept for the next round: freeing
// one would wait for the whole GPU.
class RowsPool : public std::enable_shared_from_this<RowsPool> {
 public:
  RowsPool(int gpu, int64_t block_bytes, int64_t budget)
      : gpu_(gpu), block_bytes_(block_bytes), budget_(budget) {}

  // Null: the budget is used up.
  std::shared_ptr<std::byte> Get() {
    MutexLock lock(&mutex_);
    if (idle_.empty() && !Grow()) return nullptr;
    auto block = std::make_shared<cuda::DeviceBuffer>(std::move(idle_.back()));
    idle_.pop_back();
    return {block->data(), [pool = shared_from_this(), block](std::byte*) {
              MutexLock returning(&pool->mutex_);
              pool->idle_.push_back(std::move(*block));
            }};
  }
  int64_t block_bytes() const { return block_bytes_; }

 private:
  bool Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (allocated_ + block_bytes_ > budget_) return false;
    cuda::DeviceBuffer block;
    if (!cuda::UseDevice(gpu_).ok() ||
        !cuda::DeviceBuffer::Allocate(static_cast<size_t>(block_bytes_), &block)
             .ok()) {
      budget_ = allocated_;  // others have taken it
      return false;
    }
    allocated_ += block_bytes_;
    idle_.push_back(std::move(block));
    return true;
  }

  const int gpu_;
  const int64_t block_bytes_;
  Mutex mutex_;
  int64_t budget_ ABSL_GUARDED_BY(mutex_);
  int64_t allocated_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<cuda::DeviceBuffer> idle_ ABSL_GUARDED_BY(mutex_);
};

struct CudaKeptRows : KeptRows {
  std::shared_ptr<std::byte> block;
  cuda::DeviceRows rows;
};

class CudaShardDevice : public ShardDevice {
 public:
  CudaShardDevice(const cuda::GpuFacts& gpu, const cuda::MemoryNeeds& needs,
                  int64_t kept_budget)
      : gpu_(gpu),
        rows_(std::make_shared<RowsPool>(
            gpu.index,
            cuda::DeviceRows::BytesFor(needs.rows, needs.chunk_elements),
            kept_budget)) {}

  absl::Status AddPipelines(const cuda::MemoryNeeds& needs) {
    for (int i = 0; i < needs.calls; ++i) {
      std::unique_ptr<Pipeline> pipeline;
      PARAPET_RETURN_IF_ERROR(StatusOf(Pipeline::Create(needs, &pipeline)));
      MutexLock lock(&mutex_);
      idle_.push_back(std::move(pipeline));
    }
    return absl::OkStatus();
  }

  std::string name() const override {
    return absl::StrCat("cuda (", gpu_.name, ", compute capability ",
                        gpu_.major, ".", gpu_.minor, ")");
  }
  bool is_host() const override { return false; }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(
      size_t bytes) const override {
    auto buffer = std::make_shared<cuda::DeviceBuffer>();
    PARAPET_RETURN_IF_ERROR(StatusOf(cuda::UseDevice(gpu_.index)));
    PARAPET_RETURN_IF_ERROR(
        StatusOf(cuda::DeviceBuffer::Allocate(bytes, buffer.get())));
    return std::shared_ptr<std::byte>(buffer, buffer->data());
  }

  // Ordinary memory where no more can be pinned: copies are slower then.
  std::shared_ptr<std::byte> AllocateHost(size_t bytes) const override {
    auto buffer = std::make_shared<cuda::PinnedBuffer>();
    if (!cuda::UseDevice(gpu_.index).ok() ||
        !cuda::PinnedBuffer::Allocate(bytes, buffer.get()).ok()) {
      return MakeBuffer(bytes);
    }
    return std::shared_ptr<std::byte>(buffer, buffer->data());
  }

  absl::Status Upload(const void* host, size_t bytes,
                      std::byte* device) const override {
    return Copy(host, bytes, device);
  }
  absl::Status Download(const std::byte* device, size_t bytes,
                        void* host) const override {
    return Copy(device, bytes, host);
  }

  absl::StatusOr<ReduceReport> Reduce(const ReduceSpec& spec,
                                      absl::Span<const Row> rows,
                                      const KeptRows* kept, float* previous,
                                      int64_t elements,
                                      float* aggregate) const override {
    Pipeline::Reduction reduction;
    reduction.elements = elements;
    reduction.results.aggregate = aggregate;
    reduction.results.previous = previous;
    return Run(spec, rows, kept, &reduction);
  }

  absl::StatusOr<ReduceReport> ReduceStep(
      const ReduceSpec& spec, absl::Span<const Row> rows, const KeptRows* kept,
      float* previous, int64_t elements, const OptimizerConfig& optimizer,
      const StepFacts& facts, const StepTarget& target) const override {
    Pipeline::Reduction reduction;
    reduction.elements = elements;
    reduction.results.previous = previous;
    reduction.results.step = true;
    reduction.results.numbers = NumbersOf(optimizer, facts);
    reduction.results.places = PlacesOf(target);
    reduction.publish = target.publish;
    return Run(spec, rows, kept, &reduction);
  }

  absl::Status Step(const OptimizerConfig& optimizer, const StepFacts& facts,
                    const float* gradient, int64_t elements,
                    const StepTarget& target) const override {
    return Call([&](Pipeline& pipeline) {
      return pipeline.Step(NumbersOf(optimizer, facts), gradient, elements,
                           PlacesOf(target), target.publish);
    });
  }

  absl::Status Distances(absl::Span<const Row> rows, const float* previous,
                         int64_t elements, int64_t leaf, double* sums,
                         uint8_t* finite,
                         std::shared_ptr<const KeptRows>* kept) const override {
    std::vector<cuda::HostRow> host;
    for (const Row& row : rows) host.push_back(HostRowOf(row));
    auto keep = std::make_shared<CudaKeptRows>();
    const auto needed =
        cuda::DeviceRows::BytesFor(static_cast<int64_t>(rows.size()), elements);
    if (needed <= rows_->block_bytes()) keep->block = rows_->Get();
    keep->rows.data = reinterpret_cast<unsigned char*>(keep->block.get());
    cuda::DeviceRows* room = keep->block == nullptr ? nullptr : &keep->rows;
    PARAPET_RETURN_IF_ERROR(Call([&](Pipeline& pipeline) {
      return pipeline.Distances(host, previous, elements, leaf, sums, finite,
                                room);
    }));
    kept->reset();
    if (room != nullptr) *kept = std::move(keep);
    return absl::OkStatus();
  }

  absl::Status LeafSquares(const float* values, int64_t elements, int64_t leaf,
                           double* sums) const override {
    return Call([&](Pipeline& pipeline) {
      return pipeline.LeafSquares(values, elements, leaf, sums);
    });
  }

  absl::Status Encode(const float* values, int64_t elements, DType to,
                      void* out) const override {
    return Call([&](Pipeline& pipeline) {
      return pipeline.Encode(values, elements, static_cast<cuda::Stored>(to),
                             out);
    });
  }

 private:
  absl::Status Copy(const void* from, size_t bytes, void* to) const {
    return Call([&](Pipeline& pipeline) {
      return pipeline.Copy(from, static_cast<int64_t>(bytes), to);
    });
  }

  // Does something with a pipeline of its own, once one is free.
  template <class Use>
  absl::Status Call(const Use& use) const {
    PARAPET_RETURN_IF_ERROR(StatusOf(cuda::UseDevice(gpu_.index)));
    std::unique_ptr<Pipeline> pipeline = Take();
    const CudaResult result = use(*pipeline);
    MutexLock lock(&mutex_);
    idle_.push_back(std::move(pipeline));
    returned_.SignalAll();
    return StatusOf(result);
  }

  std::unique_ptr<Pipeline> Take() const {
    MutexLock lock(&mutex_);
    while (idle_.empty()) returned_.Wait(&mutex_);
    std::unique_ptr<Pipeline> pipeline = std::move(idle_.back());
    idle_.pop_back();
    return pipeline;
  }

  absl::StatusOr<ReduceReport> Run(const ReduceSpec& spec,
                                   absl::Span<const Row> rows,
                                   const KeptRows* kept,
                                   Pipeline::Reduction* reduction) const {
    const cuda::ReducePlan plan =
        PlanOf(spec, rows, reduction->results.previous != nullptr);
    reduction->plan = &plan;
    for (int row : plan.read()) reduction->rows.push_back(HostRowOf(rows[row]));
    if (kept != nullptr)
      reduction->kept = &static_cast<const CudaKeptRows*>(kept)->rows;
    std::vector<cuda::Report::Counter> counters;
    PARAPET_RETURN_IF_ERROR(Call([&](Pipeline& pipeline) {
      return pipeline.Reduce(*reduction, &counters);
    }));
    return ReportOf(counters, plan, rows.size());
  }

  const cuda::GpuFacts gpu_;
  const std::shared_ptr<RowsPool> rows_;
  mutable Mutex mutex_;
  mutable CondVar returned_;
  mutable std::vector<std::unique_ptr<Pipeline>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardDevice>> MakeCudaShardDevice(
    const cuda::GpuFacts& gpu, const cuda::MemoryNeeds& needs) {
  PARAPET_RETURN_IF_ERROR(StatusOf(cuda::UseDevice(gpu.index)));
  int64_t free = 0;
  PARAPET_RETURN_IF_ERROR(StatusOf(cuda::FreeMemory(&free)));
  const cuda::MemoryPlan plan = cuda::PlanMemory(needs);
  const int64_t kept = cuda::BudgetForKept(plan, free);
  if (kept < 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this shard needs ", cuda::DescribeBytes(plan.needed()), " on ",
        cuda::Describe(gpu), ", of which ", cuda::DescribeBytes(free),
        " are free: ", cuda::Describe(plan),
        ". Use more servers, fewer --server_threads, or --device=cpu"));
  }
  auto device = std::make_unique<CudaShardDevice>(gpu, needs, kept);
  PARAPET_RETURN_IF_ERROR(device->AddPipelines(needs));
  return device;
}

}  // namespace parapet
