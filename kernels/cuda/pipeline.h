#ifndef PARAPET_KERNELS_CUDA_PIPELINE_H_
#define PARAPET_KERNELS_CUDA_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/memory_plan.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce_plan.h"
#include "kernels/cuda/stream.h"

namespace parapet::cuda {

// A row in host memory, at any address, as it was received.
struct HostRow {
  const void* data = nullptr;
  Stored stored = Stored::kFloat32;
  double scale = 1;
};

// Rows of a chunk in device memory, for a later reduction. Rows of one call are
// stored alike.
struct DeviceRows {
  unsigned char* data = nullptr;
  int64_t capacity = 0;  // bytes
  int64_t stride = 0;    // bytes from one row to the next
  Stored stored = Stored::kFloat32;
  bool decoded = false;              // float32, divided by their scale
  std::vector<const void*> sources;  // where each was in host memory

  // How many bytes so many rows take.
  static int64_t BytesFor(int64_t rows, int64_t elements) {
    return rows * ((elements * 4 + 15) / 16 * 16);
  }
};

// What one call of a shard's device works with: streams, staging and scratch
// memory. Rows go to the GPU piece by piece through pinned memory on one stream
// while the piece before is reduced on another; results come back as they are
// made. A call returns when it is done. One thread uses it at a time, and its
// GPU is that thread's current one.
class Pipeline {
 public:
  // For calls within the needs' chunk and rows.
  static CudaResult Create(const MemoryNeeds& needs,
                           std::unique_ptr<Pipeline>* made);
  ~Pipeline();

  // rows: those of plan.read(). `kept` holds some or all of them, or is null:
  // with all, nothing is staged. results: places.publish is not read; the new
  // weights go to `publish` in host memory, if that is not null.
  struct Reduction {
    const ReducePlan* plan = nullptr;
    std::vector<HostRow> rows;
    const DeviceRows* kept = nullptr;
    int64_t elements = 0;
    Results results;
    void* publish = nullptr;
  };
  // The report's counters: bad coordinates, the first, and one for each of
  // plan.reported().
  CudaResult Reduce(const Reduction& reduction,
                    std::vector<Report::Counter>* report);

  CudaResult Step(const StepNumbers& numbers, const float* gradient,
                  int64_t elements, const StepPlaces& places, void* publish);

  // sums, finite: host memory. keep: null, or room for the rows, which it then
  // describes; they stay there.
  CudaResult Distances(const std::vector<HostRow>& rows, const float* previous,
                       int64_t elements, int64_t leaf, double* sums,
                       uint8_t* finite, DeviceRows* keep);

  CudaResult LeafSquares(const float* values, int64_t elements, int64_t leaf,
                         double* sums);
  // From host memory to device memory, or back.
  CudaResult Copy(const void* from, int64_t bytes, void* to);
  // Values in device memory as `to` in host memory.
  CudaResult Encode(const float* values, int64_t elements, Stored to,
                    void* out);

 private:
  static constexpr int kSlots = 2;
  struct Slot {
    PinnedBuffer host;
    DeviceBuffer device;
    Event copied;    // the host's half may be written again
    Event computed;  // the device's half may be written again
  };
  // How rows are staged: with how many bytes from one to the next.
  struct Staging {
    const std::vector<HostRow>* rows = nullptr;
    bool decodes = false;
    Stored stored = Stored::kFloat32;
    int64_t piece = 0;  // elements
    int64_t stride = 0;
  };

  explicit Pipeline(const MemoryNeeds& needs) : needs_(needs) {}
  CudaResult Allocate();
  CudaResult Check(int64_t elements, size_t rows) const;
  // Ends a call: with it whatever was submitted.
  CudaResult Done(CudaResult result);

  Staging StagingFor(const std::vector<HostRow>& rows, bool decodes,
                     int64_t piece) const;
  void FillSlot(const Staging& staging, int64_t begin, int64_t count,
                Slot* slot) const;
  CudaResult StagePiece(const Staging& staging, int64_t begin, int64_t count,
                        Slot* slot);
  CudaResult StageInto(const Staging& staging, int64_t begin, int64_t count,
                       Slot* slot, DeviceRows* keep);
  CudaResult SendNumbers(int64_t bytes);

  CudaResult RunReduce(const Reduction& reduction,
                       std::vector<Report::Counter>* report);
  CudaResult ReduceKept(const Reduction& reduction,
                        const std::vector<int64_t>& offsets, Report* report);
  CudaResult ReduceStaged(const Reduction& reduction, Report* report);
  CudaResult ReducePiece(const Reduction& reduction, ReduceTask task,
                         const std::vector<RowEntry>& entries, int64_t begin,
                         int64_t count);
  CudaResult Publish(void* publish, Stored stored, int64_t begin,
                     int64_t count);
  CudaResult RunDistances(const std::vector<HostRow>& rows,
                          const DistanceTask& whole, double* sums,
                          uint8_t* finite, DeviceRows* keep);
  CudaResult MeasurePiece(const Staging& staging, const DistanceTask& whole,
                          int64_t begin, int64_t count, Slot* slot,
                          DeviceRows* keep);

  const MemoryNeeds needs_;
  CallBytes bytes_;
  Limits limits_;
  Stream copy_, compute_;
  Slot slots_[kSlots];
  PinnedBuffer numbers_host_;
  DeviceBuffer numbers_, report_, publish_, tile_sums_, sums_;
};

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_PIPELINE_H_
