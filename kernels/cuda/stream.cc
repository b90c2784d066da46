#include "kernels/cuda/stream.h"

namespace parapet::cuda {

CudaResult UseDevice(int index) {
  PARAPET_CUDA_TRY(cudaSetDevice(index));
  return {};
}

Event::~Event() {
  if (event_ != nullptr) PARAPET_CUDA_REPORT(cudaEventDestroy(event_));
}

CudaResult Event::Create(Event* event, bool timed) {
  Event fresh;
  PARAPET_CUDA_TRY(cudaEventCreateWithFlags(
      &fresh.event_, timed ? cudaEventDefault : cudaEventDisableTiming));
  *event = std::move(fresh);
  return {};
}

CudaResult Event::Record(cudaStream_t stream) const {
  PARAPET_CUDA_TRY(cudaEventRecord(event_, stream));
  return {};
}

CudaResult Event::Synchronize() const {
  PARAPET_CUDA_TRY(cudaEventSynchronize(event_));
  return {};
}

CudaResult Event::SecondsSince(const Event& begin, double* seconds) const {
  float milliseconds = 0;
  PARAPET_CUDA_TRY(cudaEventElapsedTime(&milliseconds, begin.event_, event_));
  *seconds = milliseconds / 1e3;
  return {};
}

Stream::~Stream() {
  if (stream_ != nullptr) PARAPET_CUDA_REPORT(cudaStreamDestroy(stream_));
}

CudaResult Stream::Create(Stream* stream) {
  Stream fresh;
  PARAPET_CUDA_TRY(
      cudaStreamCreateWithFlags(&fresh.stream_, cudaStreamNonBlocking));
  *stream = std::move(fresh);
  return {};
}

CudaResult Stream::Wait(const Event& event) const {
  PARAPET_CUDA_TRY(cudaStreamWaitEvent(stream_, event.get(), 0));
  return {};
}

CudaResult Stream::Synchronize() const {
  PARAPET_CUDA_TRY(cudaStreamSynchronize(stream_));
  return {};
}

}  // namespace parapet::cuda
