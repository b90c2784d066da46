#ifndef PARAPET_WORKER_CUDA_LAYER_H_
#define PARAPET_WORKER_CUDA_LAYER_H_

#include <cstdint>
#include <memory>

#include "common/layout.h"
#include "kernels/cuda/nn.h"
#include "worker/cuda/carver.h"

namespace parapet {

// What passes between two layers, in device memory, row-major: values upwards,
// gradients of the loss downwards. `gradient` is null where nobody needs it: in
// evaluations, and for the network's inputs.
struct GpuEdge {
  float* value = nullptr;
  float* gradient = nullptr;
};

// A layer with a weight and a bias, which lie side by side in the layout, on a
// GPU. It submits work and waits for nothing. `weights` and `gradient` are the
// whole flat vectors, in device memory. `count` is the batch's.
//
// With Number::kBf16 the inputs of its products are rounded to bfloat16:
// values, weights and gradients. Sums, biases and what it keeps are float32.
class GpuLayer {
 public:
  GpuLayer(const Tensor& weight, const Tensor& bias, cuda::Number number)
      : weight_(weight), bias_(bias), number_(number) {}
  virtual ~GpuLayer() = default;

  Range range() const {
    return {weight_.offset, bias_.offset + bias_.elements};
  }
  const GpuEdge& above() const { return above_; }

  // Takes the memory for batches of up to `batch` upon the edge below, which
  // must stay as it is.
  virtual void Carve(const GpuEdge& below, int64_t batch, bool training,
                     Carver* carver) = 0;
  // Reads below.value, writes above.value.
  virtual void Forward(cuda::Nn* nn, const float* weights, int64_t count) = 0;
  // Reads below.value and above.gradient (and may change the latter), writes
  // the layer's weight and bias gradient.
  virtual void WeightGradient(cuda::Nn* nn, int64_t count, float* gradient) = 0;
  // After WeightGradient: writes below.gradient.
  virtual void InputGradient(cuda::Nn* nn, const float* weights,
                             int64_t count) = 0;

 protected:
  bool rounds() const { return number_ == cuda::Number::kBf16; }

  const Tensor weight_, bias_;
  const cuda::Number number_;
  GpuEdge below_, above_;
};

// As MakeLinear and MakeConvolution of worker/layer.h.
std::unique_ptr<GpuLayer> MakeGpuLinear(const Tensor& weight,
                                        const Tensor& bias, bool relu,
                                        cuda::Number number);
std::unique_ptr<GpuLayer> MakeGpuConvolution(const Tensor& weight,
                                             const Tensor& bias, int64_t height,
                                             int64_t width,
                                             cuda::Number number);

}  // namespace parapet

#endif  // PARAPET_WORKER_CUDA_LAYER_H_
