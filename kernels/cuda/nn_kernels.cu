#include "kernels/cuda/nn_functors.h"
#include "kernels/cuda/nn_kernels.h"
#include "kernels/cuda/nn_loss.h"
#include "kernels/cuda/nn_sums.h"

namespace parapet::cuda {
namespace {

template <typename Element>
__global__ void __launch_bounds__(kMaxTeam)
    ElementKernel(Element element, int64_t elements) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    element(i);
  }
}

// All threads of a block do the same items, so that they meet at each barrier.
template <typename Scratch, typename Work>
__global__ void __launch_bounds__(kMaxTeam) TeamKernel(Work work) {
  __shared__ Scratch scratch;
  const BlockTeam team;
  for (int64_t item = blockIdx.x; item < work.items(); item += gridDim.x)
    work(team, item, &scratch);
}

CudaResult Launch(const void* kernel, const NnLaunch& launch, void** arguments,
                  cudaStream_t stream) {
  if (launch.blocks == 0) return {};
  PARAPET_CUDA_TRY(cudaLaunchKernel(
      kernel, dim3(static_cast<unsigned>(launch.blocks)),
      dim3(static_cast<unsigned>(launch.threads)), arguments, 0, stream));
  return {};
}

}  // namespace

template <typename Element>
CudaResult LaunchElements(const Element& element, int64_t elements,
                          int64_t max_blocks, cudaStream_t stream) {
  Element copy = element;
  void* arguments[] = {&copy, &elements};
  return Launch(reinterpret_cast<const void*>(&ElementKernel<Element>),
                ElementLaunch(elements, max_blocks), arguments, stream);
}

template <typename Scratch, typename Work>
CudaResult LaunchTeams(const Work& work, const NnLaunch& launch,
                       cudaStream_t stream) {
  Work copy = work;
  void* arguments[] = {&copy};
  return Launch(reinterpret_cast<const void*>(&TeamKernel<Scratch, Work>),
                launch, arguments, stream);
}

template CudaResult LaunchElements(const NarrowElement&, int64_t, int64_t,
                                   cudaStream_t);
template CudaResult LaunchElements(const RoundElement&, int64_t, int64_t,
                                   cudaStream_t);
template CudaResult LaunchElements(const BiasElement&, int64_t, int64_t,
                                   cudaStream_t);
template CudaResult LaunchElements(const MaskElement&, int64_t, int64_t,
                                   cudaStream_t);
template CudaResult LaunchElements(const PoolElement&, int64_t, int64_t,
                                   cudaStream_t);
template CudaResult LaunchElements(const UnpoolElement&, int64_t, int64_t,
                                   cudaStream_t);
template CudaResult LaunchTeams<SumScratch>(const ColumnSums&, const NnLaunch&,
                                            cudaStream_t);
template CudaResult LaunchTeams<SumScratch>(const ChannelSums&, const NnLaunch&,
                                            cudaStream_t);
template CudaResult LaunchTeams<LossScratch>(const SoftmaxLoss&,
                                             const NnLaunch&, cudaStream_t);
template CudaResult LaunchTeams<TotalScratch>(const SumLosses&, const NnLaunch&,
                                              cudaStream_t);

}  // namespace parapet::cuda
