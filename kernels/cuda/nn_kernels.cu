#include "kernels/cuda/grid.h"
#include "kernels/cuda/nn_functors.h"
#include "kernels/cuda/nn_kernels.h"
#include "kernels/cuda/nn_loss.h"
#include "kernels/cuda/nn_sums.h"

namespace parapet::cuda {
namespace {

// All threads of a block do the same items, so that they meet at each barrier.
template <typename Scratch, typename Work>
__global__ void __launch_bounds__(kMaxTeam) TeamKernel(Work work) {
  __shared__ Scratch scratch;
  const BlockTeam team;
  for (int64_t item = blockIdx.x; item < work.items(); item += gridDim.x)
    work(team, item, &scratch);
}

}  // namespace

template <typename Element>
CudaResult SubmitElements(const Element& element, int64_t elements,
                          const Limits& limits, cudaStream_t stream) {
  return LaunchElements(elements, limits, stream, element);
}

template <typename Scratch, typename Work>
CudaResult SubmitTeams(const Work& work, const Shape& shape,
                       cudaStream_t stream) {
  if (shape.blocks == 0) return {};
  TeamKernel<Scratch>
      <<<static_cast<unsigned>(shape.blocks), shape.threads, 0, stream>>>(work);
  PARAPET_CUDA_TRY(cudaGetLastError());
  return {};
}

template CudaResult SubmitElements(const NarrowElement&, int64_t, const Limits&,
                                   cudaStream_t);
template CudaResult SubmitElements(const RoundElement&, int64_t, const Limits&,
                                   cudaStream_t);
template CudaResult SubmitElements(const BiasElement&, int64_t, const Limits&,
                                   cudaStream_t);
template CudaResult SubmitElements(const MaskElement&, int64_t, const Limits&,
                                   cudaStream_t);
template CudaResult SubmitElements(const PoolElement&, int64_t, const Limits&,
                                   cudaStream_t);
template CudaResult SubmitElements(const UnpoolElement&, int64_t, const Limits&,
                                   cudaStream_t);
template CudaResult SubmitTeams<SumScratch>(const ColumnSums&, const Shape&,
                                            cudaStream_t);
template CudaResult SubmitTeams<SumScratch>(const ChannelSums&, const Shape&,
                                            cudaStream_t);
template CudaResult SubmitTeams<LossScratch>(const SoftmaxLoss&, const Shape&,
                                             cudaStream_t);
template CudaResult SubmitTeams<TotalScratch>(const SumLosses&, const Shape&,
                                              cudaStream_t);

}  // namespace parapet::cuda
