#ifndef PARAPET_WORKER_CUDA_NETWORK_MEMORY_H_
#define PARAPET_WORKER_CUDA_NETWORK_MEMORY_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "common/model_spec.h"
#include "kernels/cuda/nn.h"
#include "worker/cuda/carver.h"

namespace parapet {

// What a network has in a GPU's memory and in pinned memory of the host, beside
// its layers' values.
class NetworkMemory {
 public:
  // Takes what the layers need out of a carver, for batches of that size.
  using CarveLayers =
      std::function<void(int64_t batch, bool training, Carver* carver)>;

  // `nn` must outlive it.
  NetworkMemory(cuda::Nn* nn, int64_t parameters, const InputShape& input)
      : nn_(nn), parameters_(parameters), input_(input) {}

  // Weights only. ResourceExhausted: they do not fit.
  absl::Status ReserveWeights();
  // All that a pass needs. Called between passes only: memory moves.
  // ResourceExhausted, with figures, if there is too little; what was reserved
  // for smaller batches is gone then.
  absl::Status ReserveBatch(int64_t batch, bool training,
                            const CarveLayers& carve);

  // In device memory.
  float *weights = nullptr, *gradient = nullptr;  // the flat vectors
  float* inputs = nullptr;                        // batch x features
  int32_t* labels = nullptr;
  cuda::LossTotal* losses = nullptr;  // of each sample
  cuda::LossTotal* loss = nullptr;    // their sum

  // Pinned: what is sent and received, in the same shapes.
  float *sent_weights = nullptr, *received_gradient = nullptr;
  float* sent_inputs = nullptr;
  int32_t* sent_labels = nullptr;
  cuda::LossTotal* received_loss = nullptr;

 private:
  absl::Status ReserveGradient();
  absl::Status ReserveDevice(int64_t batch, bool training,
                             const CarveLayers& carve);
  absl::Status ReservePinned(int64_t batch);
  int64_t CarveDevice(int64_t batch, bool training, const CarveLayers& carve,
                      void* memory);
  int64_t CarvePinned(int64_t batch, void* memory);
  absl::Status DeviceMemory(int64_t bytes, const char* what,
                            cuda::Nn::Memory* memory);
  absl::Status PinnedMemory(int64_t bytes, cuda::Nn::Memory* memory);

  cuda::Nn* const nn_;
  const int64_t parameters_;
  const InputShape input_;
  // What the batch memory is for.
  int64_t batch_ = 0;
  bool training_ = false;
  cuda::Nn::Memory weights_memory_, gradient_memory_, batch_memory_;
  cuda::Nn::Memory sent_weights_memory_, received_gradient_memory_,
      sent_batch_memory_;
};

}  // namespace parapet

#endif  // PARAPET_WORKER_CUDA_NETWORK_MEMORY_H_
