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

#endif  // PARAPET_KERNELS_CUDA_HOST_DEVICE_H_
