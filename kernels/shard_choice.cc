#include "kernels/shard_choice.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#ifdef PARAPET_CUDA
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/discover.h"
#endif

namespace parapet {
namespace {

ShardChoice OnCpu(const Device& cpu, const std::string& why) {
  std::unique_ptr<ShardDevice> device = MakeHostShardDevice(cpu);
  std::string words = absl::StrCat(device->name(), ": ", why);
  return {std::move(device), std::move(words)};
}

#ifdef PARAPET_CUDA

// The GPU of a server among those that can be used.
cuda::Choice GpuOf(const cuda::DriverFacts& facts, int index) {
  std::vector<cuda::GpuFacts> usable;
  for (const cuda::GpuFacts& gpu : facts.gpus) {
    if (cuda::ChooseGpu(facts, gpu.index).found) usable.push_back(gpu);
  }
  if (usable.empty()) return cuda::ChooseGpu(facts, -1);
  return {true, usable[static_cast<size_t>(index) % usable.size()], ""};
}

absl::StatusOr<ShardChoice> OnGpu(const std::string& name, int index,
                                  const Device& cpu,
                                  const cuda::MemoryNeeds& needs) {
  const cuda::DriverFacts facts = cuda::AskDriver();
  int number = -1;
  const bool named =
      absl::SimpleAtoi(absl::StripPrefix(name, "cuda:"), &number);
  const cuda::Choice choice =
      named ? cuda::ChooseGpu(facts, number) : GpuOf(facts, index);
  if (!choice.found) {
    if (!named) return OnCpu(cpu, choice.why);
    return absl::InvalidArgumentError(
        absl::StrCat("--server_device=", name, ": ", choice.why));
  }
  PARAPET_ASSIGN_OR_RETURN(std::unique_ptr<ShardDevice> device,
                           MakeCudaShardDevice(choice.gpu, needs));
  return ShardChoice{
      std::move(device),
      absl::StrCat(cuda::Describe(choice.gpu), ": --server_device=", name)};
}

#else

absl::StatusOr<ShardChoice> OnGpu(const std::string& name, int index,
                                  const Device& cpu,
                                  const cuda::MemoryNeeds& needs) {
  if (name == "auto") return OnCpu(cpu, "this program was built without CUDA");
  return absl::InvalidArgumentError(
      absl::StrCat("--server_device=", name,
                   ": this program was built without CUDA (cmake --preset "
                   "cuda builds it with)"));
}

#endif

}  // namespace

absl::StatusOr<ShardChoice> ChooseShardDevice(const std::string& name,
                                              int index, const Device& cpu,
                                              const cuda::MemoryNeeds& needs) {
  if (name == "cpu") return OnCpu(cpu, "--server_device=cpu");
  return OnGpu(name, index, cpu, needs);
}

}  // namespace parapet
