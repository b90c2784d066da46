#ifndef PARAPET_KERNELS_CUDA_NN_KERNELS_H_
#define PARAPET_KERNELS_CUDA_NN_KERNELS_H_

#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/nn_launch.h"

namespace parapet::cuda {

// Submits element(i) for every i below `elements`. For the functors of
// nn_functors.h.
template <typename Element>
CudaResult SubmitElements(const Element& element, int64_t elements,
                          const Limits& limits, cudaStream_t stream);

// Submits work(team, item, scratch) for every item. For what nn_sums.h and
// nn_loss.h have, with their scratch memory.
template <typename Scratch, typename Work>
CudaResult SubmitTeams(const Work& work, const Shape& shape,
                       cudaStream_t stream);

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_KERNELS_H_
