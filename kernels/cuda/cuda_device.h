#ifndef PARAPET_KERNELS_CUDA_CUDA_DEVICE_H_
#define PARAPET_KERNELS_CUDA_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/discover.h"
#include "kernels/cuda/memory_plan.h"
#include "kernels/shard_device.h"

namespace parapet {

// A shard on a GPU. As many calls as needs.calls run at once; more wait.
// Memory that is too little is ResourceExhausted, with the figures.
absl::StatusOr<std::unique_ptr<ShardDevice>> MakeCudaShardDevice(
    const cuda::GpuFacts& gpu, const cuda::MemoryNeeds& needs);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CUDA_CUDA_DEVICE_H_
