#include "kernels/cuda/discover.h"

#include "kernels/cuda/check.h"

namespace parapet::cuda {
namespace {

std::string Version(int number) {
  return std::to_string(number / 1000) + "." +
         std::to_string(number / 10 % 100);
}

// The runtime's own words for these leave a user guessing.
std::string WhyNone(cudaError_t code) {
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "no NVIDIA driver is installed";
  if (code == cudaErrorInsufficientDriver &&
      cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    return "the NVIDIA driver supports CUDA " + Version(driver) +
           ", this program needs " + Version(runtime);
  }
  if (code == cudaErrorNoDevice)
    return "the NVIDIA driver finds no GPU (is CUDA_VISIBLE_DEVICES set?)";
  return std::string("the NVIDIA driver says: ") + cudaGetErrorString(code);
}

CudaResult AskOne(int index, GpuFacts* gpu) {
  cudaDeviceProp properties;
  PARAPET_CUDA_TRY(cudaGetDeviceProperties(&properties, index));
  gpu->index = index;
  gpu->name = properties.name;
  gpu->major = properties.major;
  gpu->minor = properties.minor;
  gpu->memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  gpu->multiprocessors = properties.multiProcessorCount;
  gpu->shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  return {};
}

}  // namespace

DriverFacts AskDriver() {
  DriverFacts facts;
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    facts.why_none = WhyNone(code == cudaSuccess ? cudaErrorNoDevice : code);
    return facts;
  }
  for (int index = 0; index < count; ++index) {
    GpuFacts gpu;
    const CudaResult asked = AskOne(index, &gpu);
    if (!asked.ok()) {
      facts.why_none = asked.words();
      return facts;
    }
    facts.gpus.push_back(gpu);
  }
  return facts;
}

}  // namespace parapet::cuda
