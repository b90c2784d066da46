#ifndef PARAPET_WORKER_GPU_H_
#define PARAPET_WORKER_GPU_H_

#include <memory>
#include <string>

#include "kernels/cuda/discover.h"
#include "worker/model.h"

namespace parapet {

// What a build with CUDA has, and one without answers in words. Which one it is
// is decided by what is linked: cuda/gpu.cc or gpu_none.cc.

// The GPUs of this machine, or why there is none to be used.
cuda::DriverFacts AskGpus();

// As MakeModel, on the GPU compute.gpu.
absl::StatusOr<std::unique_ptr<Model>> MakeGpuModel(
    const std::string& spec, const InputShape& input,
    const ComputeConfig& compute);

// As ComputeFingerprint. The same for GPUs of one kind.
std::string GpuFingerprint(const ComputeConfig& compute);

}  // namespace parapet

#endif  // PARAPET_WORKER_GPU_H_
