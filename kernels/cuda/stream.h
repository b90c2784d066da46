#ifndef PARAPET_KERNELS_CUDA_STREAM_H_
#define PARAPET_KERNELS_CUDA_STREAM_H_

#include <utility>

#include "kernels/cuda/check.h"

namespace parapet::cuda {

// Makes a GPU the current one of the calling thread: every thread that calls
// CUDA does so first.
CudaResult UseDevice(int index);

// A point in a stream that another stream, or the CPU, can wait for.
class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  // `timed`: for SecondsSince, at a small cost.
  static CudaResult Create(Event* event, bool timed = false);

  cudaEvent_t get() const { return event_; }
  CudaResult Record(cudaStream_t stream) const;
  // The calling thread waits; at once if it was never recorded.
  CudaResult Synchronize() const;
  CudaResult SecondsSince(const Event& begin, double* seconds) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Work in order, beside what other streams do. (It does not wait for the
// default stream.)
class Stream {
 public:
  Stream() = default;
  Stream(Stream&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream();

  static CudaResult Create(Stream* stream);

  cudaStream_t get() const { return stream_; }
  // What is submitted later waits for what the event was last recorded after.
  CudaResult Wait(const Event& event) const;
  CudaResult Synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_STREAM_H_
