#include <cstdio>

#include "kernels/cuda/discover.h"

namespace parapet::cuda {
namespace {

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
