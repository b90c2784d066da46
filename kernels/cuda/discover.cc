#include "kernels/cuda/discover.h"

#include <cstdio>

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

std::string Capability(const GpuFacts& gpu) {
  return std::to_string(gpu.major) + "." + std::to_string(gpu.minor);
}

Choice None(std::string why) {
  Choice choice;
  choice.why = std::move(why);
  return choice;
}

std::string TooOld(const GpuFacts& gpu) {
  return "GPU " + std::to_string(gpu.index) + " (" + gpu.name +
         ") has compute capability " + Capability(gpu) + ", at least " +
         std::to_string(kOldestMajor) + ".0 is needed";
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

Choice ChooseGpu(const DriverFacts& facts, int wanted) {
  if (!facts.why_none.empty()) return None(facts.why_none);
  const auto count = static_cast<int>(facts.gpus.size());
  if (wanted >= count) {
    return None("there is no GPU " + std::to_string(wanted) +
                ": this machine has " + std::to_string(count) +
                ", numbered from 0");
  }
  std::string why = "this machine has no GPU";
  for (const GpuFacts& gpu : facts.gpus) {
    if (wanted >= 0 && gpu.index != wanted) continue;
    if (gpu.major >= kOldestMajor) return {true, gpu, ""};
    why = TooOld(gpu);
  }
  return None(why);
}

std::string Describe(const GpuFacts& gpu) {
  char memory[32];
  std::snprintf(memory, sizeof(memory), "%.1f GiB",
                static_cast<double>(gpu.memory_bytes) / (1 << 30));
  return "cuda:" + std::to_string(gpu.index) + " (" + gpu.name +
         ", compute capability " + Capability(gpu) + ", " + memory + ")";
}

}  // namespace parapet::cuda
