#ifndef PARAPET_KERNELS_CUDA_NN_TEAM_H_
#define PARAPET_KERNELS_CUDA_NN_TEAM_H_

#include "kernels/cuda/host_device.h"

namespace parapet::cuda {

// At most that many threads work together: a power of two.
constexpr int kMaxTeam = 256;

// The threads of a block. What they do together is written as phases,
//
//   team.Each([&](int thread) { ... });
//
// with a barrier behind each. Shared memory is touched within phases only, and
// within a phase no thread touches what another one writes: then the order of
// the threads is of no consequence, and a test can run them one after the
// other, in any order (HostTeam in tests/nn/host_team.h).
class BlockTeam {
 public:
#ifdef __CUDACC__
  // All threads of the block, which is one-dimensional.
  __device__ BlockTeam() : threads_(static_cast<int>(blockDim.x)) {}
#endif

  PARAPET_HD int threads() const { return threads_; }

  template <typename Phase>
  PARAPET_HD void Each(const Phase& phase) const {
#ifdef __CUDA_ARCH__
    phase(static_cast<int>(threadIdx.x));
    __syncthreads();
#endif
  }

 private:
  int threads_ = 0;
};

// Joins parts[i + k * stride] into parts[i], for i below `stride` and k below
// `count`, both powers of two: pairwise, so that the order is fixed. Needs
// stride * count / 2 threads.
template <typename Team, typename Part, typename Join>
PARAPET_HD void JoinParts(const Team& team, Part* parts, int count, int stride,
                          const Join& join) {
  for (int half = count / 2; half > 0; half /= 2) {
    const int live = half * stride;
    team.Each([&](int thread) {
      if (thread < live)
        parts[thread] = join(parts[thread], parts[thread + live]);
    });
  }
}

struct AddDoubles {
  PARAPET_HD double operator()(double a, double b) const { return a + b; }
};

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_TEAM_H_
