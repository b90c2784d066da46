#ifndef PARAPET_TESTS_CUDA_RUNTIME_FAKE_RUNTIME_H_
#define PARAPET_TESTS_CUDA_RUNTIME_FAKE_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

// The calls of CUDA's runtime that a server makes, by the CPU: streams whose
// work is done at once, as late as it may be, or at random moments. Whatever
// waits too little then reads what is not there yet, or overwrites what is
// still to be read. Memory of the device begins as NaN.
namespace parapet::cuda::fake {

enum class When { kAtOnce, kLate, kRandom };

// Forgets all that was; nothing may be in use.
void Reset(When when, uint64_t seed = 1);
// The call after so many fails, alone or with all that follow. Negative: none.
// Whatever was submitted is never done once waiting for it has failed.
void FailAfter(int64_t calls, bool once = false);
int64_t calls();
// What cudaMemGetInfo says is free.
void SetFree(int64_t bytes);

// Puts work into a stream; nothing if calls fail by now.
cudaError_t Submit(cudaStream_t stream, std::function<void()> work);

}  // namespace parapet::cuda::fake

#endif  // PARAPET_TESTS_CUDA_RUNTIME_FAKE_RUNTIME_H_
