#include "tests/cuda_runtime/fake_runtime.h"

#include <cublas_v2.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <set>

// One lock around everything: a device does one thing at a time here.
struct CUstream_st {
  struct Item {
    std::function<void()> work;
    // Not null: waits until that is done, in another stream perhaps.
    std::shared_ptr<bool> until;
    CUstream_st* of = nullptr;
  };
  std::deque<Item> items;
};

struct CUevent_st {
  std::shared_ptr<bool> done;  // null: never recorded
  CUstream_st* stream = nullptr;
};

namespace parapet::cuda::fake {
namespace {

struct World {
  std::recursive_mutex mutex;
  When when = When::kAtOnce;
  std::mt19937_64 random;
  int64_t calls = 0, fail_after = -1, free = int64_t{1} << 40;
  bool once = false;
  std::set<CUstream_st*> streams;
};

World& world() {
  static World& the = *new World;
  return the;
}

void RunUntil(CUstream_st* stream, const std::shared_ptr<bool>& done);

void RunOne(CUstream_st* stream) {
  const CUstream_st::Item item = std::move(stream->items.front());
  stream->items.pop_front();
  if (item.until != nullptr && !*item.until) RunUntil(item.of, item.until);
  if (item.work) item.work();
}

// Null: until nothing is left.
void RunUntil(CUstream_st* stream, const std::shared_ptr<bool>& done) {
  while (!stream->items.empty() && (done == nullptr || !*done)) RunOne(stream);
}

void RunSome() {
  World& the = world();
  if (the.when == When::kLate) return;
  for (CUstream_st* stream : the.streams) {
    if (the.when == When::kAtOnce) {
      RunUntil(stream, nullptr);
    } else {
      for (uint64_t n = the.random() % 4; n > 0 && !stream->items.empty(); --n)
        RunOne(stream);
    }
  }
}

// A call: false if it fails.
bool Call() {
  World& the = world();
  ++the.calls;
  if (the.fail_after < 0 || the.calls <= the.fail_after) return true;
  if (the.once) the.fail_after = -1;
  return false;
}

// A device that cannot be waited for does nothing any more.
void Die() {
  for (CUstream_st* stream : world().streams) stream->items.clear();
}

std::byte* NewMemory(size_t bytes) {
  auto* memory =
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{256}));
  std::memset(memory, 0xFF, bytes);
  return memory;
}

void Enqueue(CUstream_st* stream, CUstream_st::Item item) {
  stream->items.push_back(std::move(item));
  RunSome();
}

}  // namespace

void Reset(When when, uint64_t seed) {
  World& the = world();
  the.when = when;
  the.random.seed(seed);
  the.calls = 0;
  the.fail_after = -1;
  the.free = int64_t{1} << 40;
}
void FailAfter(int64_t calls, bool once) {
  world().fail_after = calls < 0 ? -1 : world().calls + calls;
  world().once = once;
}
int64_t calls() { return world().calls; }
void SetFree(int64_t bytes) { world().free = bytes; }

cudaError_t Submit(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  if (!Call()) return cudaErrorLaunchFailure;
  Enqueue(stream, {std::move(work), nullptr, nullptr});
  return cudaSuccess;
}

}  // namespace parapet::cuda::fake

namespace fake = parapet::cuda::fake;

#define FAKE_CALL(error)                                                 \
  const std::lock_guard<std::recursive_mutex> lock(fake::world().mutex); \
  if (!fake::Call()) return error

extern "C" {

cudaError_t cudaSetDevice(int) {
  FAKE_CALL(cudaErrorInvalidDevice);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  FAKE_CALL(cudaErrorUnknown);
  *free = *total = static_cast<size_t>(fake::world().free);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  FAKE_CALL(cudaErrorMemoryAllocation);
  *data = fake::NewMemory(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard<std::recursive_mutex> lock(fake::world().mutex);
  // As the real one: waits for the device.
  for (CUstream_st* stream : fake::world().streams)
    fake::RunUntil(stream, nullptr);
  ::operator delete (data, std::align_val_t{256});
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  FAKE_CALL(cudaErrorMemoryAllocation);
  *stream = new CUstream_st;
  fake::world().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard<std::recursive_mutex> lock(fake::world().mutex);
  fake::RunUntil(stream, nullptr);
  fake::world().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FAKE_CALL((fake::Die(), cudaErrorLaunchFailure));
  fake::RunUntil(stream, nullptr);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  FAKE_CALL(cudaErrorLaunchFailure);
  if (event->done != nullptr)
    fake::Enqueue(stream, {nullptr, event->done, event->stream});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  FAKE_CALL(cudaErrorMemoryAllocation);
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FAKE_CALL(cudaErrorLaunchFailure);
  auto done = std::make_shared<bool>(false);
  event->done = done;
  event->stream = stream;
  fake::Enqueue(stream, {[done] { *done = true; }, nullptr, nullptr});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAKE_CALL((fake::Die(), cudaErrorLaunchFailure));
  if (event->done != nullptr && !*event->done)
    fake::RunUntil(event->stream, event->done);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t,
                                 cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  return fake::Submit(stream,
                      [=] { bytes > 0 ? std::memcpy(to, from, bytes) : to; });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                              size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  return fake::Submit(stream, [=] {
    for (size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream) {
  return fake::Submit(stream, [=] { std::memset(to, value, bytes); });
}

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "out of memory"
                                           : "the fake device failed";
}
const char* cublasGetStatusString(cublasStatus_t) { return "cuBLAS failed"; }

}  // extern "C"
