#ifndef PARAPET_KERNELS_CUDA_HOST_DEVICE_H_
#define PARAPET_KERNELS_CUDA_HOST_DEVICE_H_

// A function that both the CPU and the GPU run. Headers that use it are plain
// C++ to every other compiler than nvcc: the tests on the CPU run what the GPU
// will.
#ifdef __CUDACC__
#define PARAPET_HD __host__ __device__ __forceinline__
#else
#define PARAPET_HD inline
#endif

// How often nvcc is to unroll the loop that follows, wholly or n times.
#ifdef __CUDA_ARCH__
#define PARAPET_PRAGMA_(text) _Pragma(#text)
#define PARAPET_UNROLL PARAPET_PRAGMA_(unroll)
#define PARAPET_UNROLL_BY(n) PARAPET_PRAGMA_(unroll n)
#else
#define PARAPET_UNROLL
#define PARAPET_UNROLL_BY(n)
#endif

#endif  // PARAPET_KERNELS_CUDA_HOST_DEVICE_H_
