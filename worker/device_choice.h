#ifndef PARAPET_WORKER_DEVICE_CHOICE_H_
#define PARAPET_WORKER_DEVICE_CHOICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/discover.h"

namespace parapet {

// Where a worker computes, and why there.
struct DeviceChoice {
  int gpu = -1;     // its index; -1: the CPU
  std::string why;  // a sentence for the log, without a full stop
};

// The indices of the GPUs that are new enough.
std::vector<int> UsableGpus(const cuda::DriverFacts& facts);

// `device` is the value of --device: "auto", "cpu" or "cuda:N". With "auto" it
// is a GPU if there is one: the one of `local_rank`, which is torchrun's
// LOCAL_RANK (empty: not set), else the first. InvalidArgument, in words: there
// is no such GPU, or bfloat16 is asked of the CPU.
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          bool bfloat16,
                                          const std::string& local_rank,
                                          const cuda::DriverFacts& facts);

}  // namespace parapet

#endif  // PARAPET_WORKER_DEVICE_CHOICE_H_
