#ifndef PARAPET_KERNELS_CUDA_NN_LAUNCH_H_
#define PARAPET_KERNELS_CUDA_NN_LAUNCH_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/nn_team.h"

// How many blocks of how many threads do what teams do. A block does every
// `blocks`-th item after its own, so that any number of blocks covers any
// number of items.
namespace parapet::cuda {

inline int64_t TeamBlocks(int64_t items, const Limits& limits) {
  // What a multiprocessor holds of the largest team, twice.
  constexpr int64_t kBlocksEach = 16;
  return std::min({items, kBlocksEach * limits.multiprocessors, limits.blocks});
}

// Items that a team of kMaxTeam threads does.
inline Shape TeamShape(int64_t items, const Limits& limits) {
  return {TeamBlocks(items, limits), kMaxTeam, 0};
}

// A team for each sample: no more threads than classes, but a warp.
inline Shape LossShape(int64_t samples, int64_t classes, const Limits& limits) {
  int threads = 32;
  while (threads < kMaxTeam && threads < classes) threads *= 2;
  return {TeamBlocks(samples, limits), threads, 0};
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_LAUNCH_H_
