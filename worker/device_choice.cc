#include "worker/device_choice.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

std::string WhyNoGpu(const cuda::DriverFacts& facts) {
  if (!facts.why_none.empty()) return facts.why_none;
  if (facts.gpus.empty()) return "this machine has no GPU";
  return absl::StrCat("its GPUs (", facts.gpus.front().name,
                      ") are older than compute capability ",
                      cuda::kOldestMajor, ".0");
}

absl::StatusOr<DeviceChoice> ChooseNamed(const std::string& device,
                                         const cuda::DriverFacts& facts) {
  int index = -1;
  if (!absl::StartsWith(device, "cuda:") ||
      !absl::SimpleAtoi(device.substr(5), &index) || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device=", device, " is not auto, cpu or cuda:N"));
  }
  const std::vector<int> usable = UsableGpus(facts);
  if (usable.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device=", device, ": ", WhyNoGpu(facts)));
  }
  if (std::find(usable.begin(), usable.end(), index) == usable.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device=", device, ": of this machine's ", facts.gpus.size(),
        " GPUs, numbered from 0, that is none that can be used"));
  }
  return DeviceChoice{index, absl::StrCat("--device=", device)};
}

absl::StatusOr<DeviceChoice> ChooseAutomatically(
    const std::string& local_rank, const cuda::DriverFacts& facts) {
  const std::vector<int> usable = UsableGpus(facts);
  if (usable.empty()) {
    return DeviceChoice{-1,
                        absl::StrCat("--device=auto, and ", WhyNoGpu(facts))};
  }
  if (local_rank.empty()) {
    return DeviceChoice{
        usable.front(),
        "--device=auto: the first GPU, since LOCAL_RANK is not set"};
  }
  uint64_t rank = 0;
  if (!absl::SimpleAtoi(local_rank, &rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device=auto: LOCAL_RANK='", local_rank,
                     "' is no number; unset it or name a device"));
  }
  return DeviceChoice{usable[rank % usable.size()],
                      absl::StrCat("--device=auto: LOCAL_RANK is ", rank, ", ",
                                   usable.size(), " GPUs can be used")};
}

}  // namespace

std::vector<int> UsableGpus(const cuda::DriverFacts& facts) {
  std::vector<int> usable;
  for (const cuda::GpuFacts& gpu : facts.gpus)
    if (gpu.major >= cuda::kOldestMajor) usable.push_back(gpu.index);
  return usable;
}

absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          bool bfloat16,
                                          const std::string& local_rank,
                                          const cuda::DriverFacts& facts) {
  absl::StatusOr<DeviceChoice> choice = DeviceChoice{-1, "--device=cpu"};
  if (device == "auto") {
    choice = ChooseAutomatically(local_rank, facts);
  } else if (device != "cpu") {
    choice = ChooseNamed(device, facts);
  }
  if (choice.ok() && choice->gpu < 0 && bfloat16) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--compute=bfloat16 needs a GPU; here it would be the CPU (",
        choice->why, ")"));
  }
  return choice;
}

}  // namespace parapet
