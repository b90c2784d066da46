#ifndef PARAPET_KERNELS_CUDA_NN_LAUNCH_H_
#define PARAPET_KERNELS_CUDA_NN_LAUNCH_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/nn_team.h"

// How many blocks of how many threads do a kernel's work: pure functions. A
// block does every `blocks`-th item after its own, so that any number of blocks
// covers any number of items.
namespace parapet::cuda {

struct NnLaunch {
  int64_t blocks = 0;  // 0: nothing to do, and nothing may be launched
  int threads = 0;

  // One grid's elements: the step from an element of a thread to its next.
  int64_t stride() const { return blocks * threads; }
};

// Elements by themselves, one for each thread at a time. At most `max_blocks`
// blocks, >= 1: what fills the GPU is enough.
inline NnLaunch ElementLaunch(int64_t elements, int64_t max_blocks) {
  // Not (elements + 255) / 256: that may overflow.
  const int64_t blocks = elements / kMaxTeam + (elements % kMaxTeam != 0);
  return {std::min(blocks, max_blocks), kMaxTeam};
}

// Items that a team of kMaxTeam threads does.
inline NnLaunch TeamLaunch(int64_t items, int64_t max_blocks) {
  return {std::min(items, max_blocks), kMaxTeam};
}

// A team for each sample: no more threads than classes, but a warp.
inline NnLaunch LossLaunch(int64_t samples, int64_t classes,
                           int64_t max_blocks) {
  int threads = 32;
  while (threads < kMaxTeam && threads < classes) threads *= 2;
  return {std::min(samples, max_blocks), threads};
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_LAUNCH_H_
