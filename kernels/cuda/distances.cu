#include "kernels/cuda/distance_tile.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/operations.h"

namespace parapet::cuda {
namespace {

constexpr unsigned kWholeWarp = 0xFFFFFFFFu;

template <int kWidth>
__device__ void Exchange(float (&sums)[kBlockPairs], int lane) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float received =
        __shfl_xor_sync(kWholeWarp, Outgoing<kWidth>(sums, lane, i), kWidth);
    Incoming<kWidth>(sums, lane, i, received);
  }
}

// A warp's two tiles of 16 pairs.
__device__ void MeasureBlocks(const DistanceTask& task, const GroupPair& groups,
                              const float* shared, int64_t first, int warp) {
  const int tile = threadIdx.x % 32 / kTileLanes;
  const int lane = threadIdx.x % kTileLanes;
  const BlockPlaces places = PlacesOf(groups, warp);
  float sums[kBlockPairs];
  SumLane(shared, places, tile, lane, sums);
  Exchange<8>(sums, lane);
  Exchange<4>(sums, lane);
  Exchange<2>(sums, lane);
  Exchange<1>(sums, lane);
  StoreTileSum(task, groups, shared, places, first, tile, lane, sums[0]);
}

__global__ void __launch_bounds__(512)
    DistanceKernel(const __grid_constant__ DistanceTask task, int group,
                   int groups_count) {
  extern __shared__ Four shared_bytes[];
  auto* shared = reinterpret_cast<float*>(shared_bytes);
  const GroupPair groups = GroupsOf(group, groups_count, blockIdx.y);
  const int warp = threadIdx.x / 32;
  for (int64_t first = int64_t{blockIdx.x} * kTilesAtOnce; first < task.tiles();
       first += int64_t{gridDim.x} * kTilesAtOnce) {
    LoadTilesPhase(task, groups, first, shared, threadIdx.x, blockDim.x);
    __syncthreads();
    if (warp < groups.blocks())
      MeasureBlocks(task, groups, shared, first, warp);
    __syncthreads();
  }
}

struct SumVisit {
  DistanceTask task;
  __device__ void operator()(int64_t i) const { SumLeaf(task, i); }
};

}  // namespace

CudaResult Distances(const DistanceTask& task, const Limits& limits,
                     cudaStream_t stream) {
  const DistanceShape made =
      ShapeOfDistances(task.vectors(), task.tiles(), limits);
  if (made.shape.blocks == 0) return {};
  PARAPET_CUDA_TRY(cudaMemsetAsync(
      task.finite, 1, static_cast<size_t>(task.leaves() * task.rows.count),
      stream));
  PARAPET_CUDA_TRY(AllowShared(DistanceKernel, made.shape.shared_bytes));
  const dim3 grid(static_cast<unsigned>(made.shape.blocks),
                  static_cast<unsigned>(made.group_pairs()));
  DistanceKernel<<<grid, made.shape.threads,
                   static_cast<size_t>(made.shape.shared_bytes), stream>>>(
      task, made.group, made.groups);
  PARAPET_CUDA_TRY(cudaGetLastError());
  return LaunchElements(task.leaves() * task.pairs(), limits, stream,
                        SumVisit{task});
}

}  // namespace parapet::cuda
