#ifndef PARAPET_KERNELS_CUDA_DISCOVER_H_
#define PARAPET_KERNELS_CUDA_DISCOVER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace parapet::cuda {

// The oldest compute capability that there is code for.
inline constexpr int kOldestMajor = 8;

struct GpuFacts {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  int64_t shared_bytes = 0;  // at most, of one block
};

// What the driver says of this machine.
struct DriverFacts {
  std::string why_none;  // why there is no GPU, in words; empty: there is one
  std::vector<GpuFacts> gpus;
};
DriverFacts AskDriver();

// The GPU to use, or why there is none: words that complete "the CPU is used:
// ".
struct Choice {
  bool found = false;
  GpuFacts gpu;
  std::string why;
};
// `wanted`: its index, or -1 for the first that is new enough. Pure.
Choice ChooseGpu(const DriverFacts& facts, int wanted);

// E.g. "cuda:0 (NVIDIA H200, compute capability 9.0, 139.7 GiB)".
std::string Describe(const GpuFacts& gpu);

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_DISCOVER_H_
