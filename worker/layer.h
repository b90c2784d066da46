#ifndef PARAPET_WORKER_LAYER_H_
#define PARAPET_WORKER_LAYER_H_

#include <dnnl.hpp>
#include <memory>
#include <string>
#include <vector>

#include "common/layout.h"
#include "worker/onednn.h"

namespace parapet {

// What passes between two layers for one batch: values upwards, gradients of
// the loss downwards. `gradient` is empty where nobody needs it: in an
// evaluation, and for the network's inputs.
struct Edge {
  dnnl::memory value;
  dnnl::memory gradient;
};

// A layer built for one batch size: primitives, and the edge above it. The edge
// below is the one that it was built upon. `weights` and `gradient` are those
// of the layer: its range of the flat vectors.
class BuiltLayer {
 public:
  virtual ~BuiltLayer() = default;

  const Edge& above() const { return above_; }
  // Reads below.value, writes above.value.
  virtual void Forward(const float* weights) = 0;
  // Reads below.value and above.gradient (and may change the latter), writes
  // the layer's weight and bias gradient.
  virtual void WeightGradient(float* gradient) = 0;
  // After WeightGradient: writes below.gradient.
  virtual void InputGradient(const float* weights) = 0;
  // oneDNN's names of the implementations that it chose.
  const std::vector<std::string>& implementations() const {
    return implementations_;
  }

 protected:
  // Makes a primitive from its description and notes its implementation's name.
  Kernel Make(const OneDnn& dnnl, const dnnl::primitive_desc_base& made) {
    implementations_.push_back(made.impl_info_str());
    return Kernel(dnnl, made);
  }

  Edge above_;

 private:
  std::vector<std::string> implementations_;
};

// A layer with a weight and a bias, which lie side by side in the layout.
class Layer {
 public:
  Layer(const Tensor& weight, const Tensor& bias)
      : weight_(weight), bias_(bias) {}
  virtual ~Layer() = default;

  Range range() const {
    return {weight_.offset, bias_.offset + bias_.elements};
  }
  // Where the bias begins in the layer's range; the weight is at its beginning.
  int64_t bias_at() const { return bias_.offset - weight_.offset; }
  virtual std::unique_ptr<BuiltLayer> Build(const OneDnn& dnnl,
                                            const Edge& below, int64_t batch,
                                            bool training) const = 0;

 protected:
  const Tensor weight_, bias_;
};

// y = x W' + b, with a ReLU behind it unless it is the last layer. Input: the
// values of a sample in row-major order, whatever the shape.
std::unique_ptr<Layer> MakeLinear(const Tensor& weight, const Tensor& bias,
                                  bool relu);

// 3x3 convolution with padding 1, ReLU, 2x2 max pool with stride 2 (an odd last
// row or column is left out, as in PyTorch). `height` and `width` are those of
// its input.
std::unique_ptr<Layer> MakeConvolution(const Tensor& weight, const Tensor& bias,
                                       int64_t height, int64_t width);

}  // namespace parapet

#endif  // PARAPET_WORKER_LAYER_H_
