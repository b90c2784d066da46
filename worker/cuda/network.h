#ifndef PARAPET_WORKER_CUDA_NETWORK_H_
#define PARAPET_WORKER_CUDA_NETWORK_H_

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/nn.h"
#include "worker/cuda/layer.h"
#include "worker/cuda/network_memory.h"
#include "worker/model.h"

namespace parapet {

// A chain of layers with softmax cross-entropy at its end, on a GPU. A pass
// submits its work in advance: the copies of weights, as soon as the caller has
// them, run beside the layers below, and those of gradients beside the layers
// that still compute. The caller waits for one range at a time, never for the
// device. Only a batch larger than any before allocates.
class CudaNetwork : public Model {
 public:
  static constexpr int64_t kMaxBatch = int64_t{1} << 20;
  // Larger batches are evaluated in slices.
  static constexpr int64_t kEvaluateBatch = 2048;

  // The model that common/model_spec.h describes. InvalidArgument: the spec or
  // the input; Unimplemented: this `nn` lacks what the model needs;
  // ResourceExhausted: its weights do not fit.
  static absl::StatusOr<std::unique_ptr<CudaNetwork>> Make(
      const std::string& spec, const InputShape& input, cuda::Number number,
      std::unique_ptr<cuda::Nn> nn);

  const Layout& layout() const override { return layout_; }
  absl::StatusOr<PassResult> Train(const float* weights, const Batch& batch,
                                   float* gradient,
                                   const PassHooks& hooks) override;
  absl::StatusOr<PassResult> Evaluate(const float* weights,
                                      const Batch& batch) override;

 private:
  // A layer, and the events of its copies.
  struct Stage {
    std::unique_ptr<GpuLayer> layer;
    int weights_here = 0;   // on the device
    int gradient_done = 0;  // on the device
    int gradient_here = 0;  // on the host
    // Whether the device has the weights that are in the pinned memory.
    bool sent = false;
  };

  CudaNetwork(Layout layout, const InputShape& input,
              std::unique_ptr<cuda::Nn> nn);

  void AddLayers(cuda::Number number);
  absl::Status Reserve(int64_t batch, bool training);
  absl::Status Failure() const;

  absl::StatusOr<PassResult> TrainReserved(const float* weights,
                                           const Batch& batch, float* gradient,
                                           const PassHooks& hooks);
  absl::StatusOr<PassResult> EvaluateSlice(const float* weights,
                                           const Batch& batch);
  void SendBatch(const Batch& batch);
  // `weights` are the layer's.
  void SendWeights(const float* weights, Stage* stage);
  absl::Status Forward(const float* weights, int64_t count,
                       const PassHooks& hooks);
  void Loss(int64_t count, bool training);
  void Backward(int64_t count);
  absl::Status ReceiveGradients(float* gradient, const PassHooks& hooks);
  PassResult Result(int64_t count) const;

  const Layout layout_;
  const InputShape input_;
  const std::unique_ptr<cuda::Nn> nn_;
  std::vector<Stage> stages_;
  NetworkMemory memory_;
  int batch_here_ = 0, loss_done_ = 0, loss_here_ = 0;  // events
};

}  // namespace parapet

#endif  // PARAPET_WORKER_CUDA_NETWORK_H_
