#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/step.h"

namespace parapet::cuda {
namespace {

struct StepVisit {
  StepNumbers numbers;
  StepPlaces places;
  const float* gradient;
  __device__ void operator()(int64_t j) const {
    StepElement(numbers, gradient[j], j, places);
  }
};

struct EncodeVisit {
  const float* values;
  Stored to;
  Scale scale;
  void* out;
  Report::Counter* overflows;
  __device__ void operator()(int64_t j) const {
    EncodeAt(values, j, to, scale, out, overflows);
  }
};

struct DecodeVisit {
  const void* in;
  Stored from;
  Scale scale;
  float* values;
  __device__ void operator()(int64_t j) const {
    DecodeAt(in, from, scale, j, values);
  }
};

struct MomentumVisit {
  float beta, rest;
  const float* gradient;
  float* momentum;
  __device__ void operator()(int64_t j) const {
    WorkerMomentumAt(beta, rest, gradient, j, momentum);
  }
};

}  // namespace

CudaResult AskLimits(Limits* limits) {
  int device = 0, shared = 0;
  PARAPET_CUDA_TRY(cudaGetDevice(&device));
  PARAPET_CUDA_TRY(cudaDeviceGetAttribute(
      &limits->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PARAPET_CUDA_TRY(cudaDeviceGetAttribute(
      &shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  limits->shared_bytes = shared;
  return {};
}

CudaResult Step(const StepNumbers& numbers, const float* gradient,
                int64_t elements, const StepPlaces& places,
                const Limits& limits, cudaStream_t stream) {
  return LaunchElements(elements, limits, stream,
                        StepVisit{numbers, places, gradient});
}

CudaResult Encode(const float* values, int64_t elements, Stored to,
                  double scale, void* out, unsigned long long* overflows,
                  const Limits& limits, cudaStream_t stream) {
  return LaunchElements(
      elements, limits, stream,
      EncodeVisit{values, to, ScaleToEncode(scale), out, overflows});
}

CudaResult Decode(const void* in, Stored from, double scale, int64_t elements,
                  float* values, const Limits& limits, cudaStream_t stream) {
  return LaunchElements(elements, limits, stream,
                        DecodeVisit{in, from, ScaleToDecode(scale), values});
}

CudaResult WorkerMomentum(float beta, float rest, const float* gradient,
                          int64_t elements, float* momentum,
                          const Limits& limits, cudaStream_t stream) {
  return LaunchElements(elements, limits, stream,
                        MomentumVisit{beta, rest, gradient, momentum});
}

}  // namespace parapet::cuda
