#ifndef PARAPET_KERNELS_CUDA_MEMORY_PLAN_H_
#define PARAPET_KERNELS_CUDA_MEMORY_PLAN_H_

#include <cstdint>
#include <string>

namespace parapet::cuda {

// What a server's shard asks of a GPU's memory. Elements are float32; rows are
// counted as such, and may be half as wide.
struct MemoryNeeds {
  int64_t shard_elements = 0;
  int64_t chunk_elements = 0;  // the largest
  int64_t leaf_elements = 1;
  int rows = 0;               // workers
  int64_t row_bytes = 4;      // of an element on the wire
  int moments = 0;            // of the optimizer
  bool previous = false;      // the rule needs its output of the round before
  bool aggregates = false;    // gradients wait for the lead (clip_norm)
  bool distances = false;     // the rule measures before it reduces
  int64_t credit_chunks = 0;  // received at most before they are reduced
  int calls = 1;              // that reduce at once
  // Rows are staged in pieces of about this many bytes: enough for a copy to
  // run at full speed, few enough for the first to be there soon.
  int64_t piece_bytes = 8 << 20;
};

// Bytes, by what they are for.
struct MemoryPlan {
  int64_t weights = 0, moments = 0, previous = 0, aggregates = 0;
  int64_t calls = 0;        // of all calls: staging, numbers, sums of tiles
  int64_t kept_wanted = 0;  // rows that were measured and wait for the decision

  int64_t needed() const {
    return weights + moments + previous + aggregates + calls;
  }
};
// Pure.
MemoryPlan PlanMemory(const MemoryNeeds& needs);

// How many elements of each row are staged at a time; of distances, whole
// leaves.
int64_t PieceElements(const MemoryNeeds& needs);
int64_t PieceOfLeaves(const MemoryNeeds& needs);

// The device memory of one call.
struct CallBytes {
  int64_t staging = 0;    // twice
  int64_t publish = 0;    // a chunk's new weights, as float32
  int64_t tile_sums = 0;  // of distances
  int64_t sums = 0;       // of distances, or of squares
  int64_t numbers = 0;    // weights of a mixing, reports
  int64_t total() const {
    return 2 * staging + publish + tile_sums + sums + numbers;
  }
};
CallBytes PlanCall(const MemoryNeeds& needs);

// What is left for kept rows of `free` bytes of memory, at most as much as is
// wanted; -1 if the rest does not fit.
int64_t BudgetForKept(const MemoryPlan& plan, int64_t free);

// "weights 1.0 GiB, moments 2.0 GiB, ...": what is not 0.
std::string Describe(const MemoryPlan& plan);
std::string DescribeBytes(int64_t bytes);

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_MEMORY_PLAN_H_
