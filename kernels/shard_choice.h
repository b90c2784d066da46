#ifndef PARAPET_KERNELS_SHARD_CHOICE_H_
#define PARAPET_KERNELS_SHARD_CHOICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/memory_plan.h"
#include "kernels/shard_device.h"

namespace parapet {

// Where a server's shard lives, and why there: words for the log that complete
// "the shard is on ...".
struct ShardChoice {
  std::unique_ptr<ShardDevice> device;
  std::string why;
};

// `name` is the value of --server_device: "auto", "cpu" or "cuda:N". With
// "auto" it is a GPU if there is one that can be used: of several, the one of
// the server's `index`. `cpu` must outlive what is made.
//
// InvalidArgument, in words: the GPU that was named cannot be used, or this
// program was built without CUDA. ResourceExhausted: its memory is too little
// for `needs`.
absl::StatusOr<ShardChoice> ChooseShardDevice(const std::string& name,
                                              int index, const Device& cpu,
                                              const cuda::MemoryNeeds& needs);

}  // namespace parapet

#endif  // PARAPET_KERNELS_SHARD_CHOICE_H_
