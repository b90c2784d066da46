#include "worker/cuda/layer.h"

namespace parapet {
namespace {

using cuda::ConvolutionSize;
using cuda::Nn;
using cuda::PoolSize;

class GpuConvolution : public GpuLayer {
 public:
  GpuConvolution(const Tensor& weight, const Tensor& bias, int64_t height,
                 int64_t width, cuda::Number number)
      : GpuLayer(weight, bias, number), height_(height), width_(width) {}

  void Carve(const GpuEdge& below, int64_t batch, bool training,
             Carver* carver) override;
  void Forward(Nn* nn, const float* weights, int64_t count) override;
  void WeightGradient(Nn* nn, int64_t count, float* gradient) override;
  void InputGradient(Nn* nn, const float* weights, int64_t count) override;

 private:
  ConvolutionSize Size(int64_t count) const {
    return {count, weight_.shape[1], weight_.shape[0], height_, width_};
  }
  PoolSize Pool(int64_t count) const {
    return {count, weight_.shape[0], height_, width_};
  }
  int64_t Inputs(int64_t count) const {
    return count * weight_.shape[1] * height_ * width_;
  }
  // What a convolution reads: the numbers themselves, or their rounded copy,
  // which is float32 too: cuDNN has no convolution from bfloat16 to float32.
  const float* Operand(const float* numbers, const float* rounded) const {
    return rounds() ? rounded : numbers;
  }
  void Round(Nn* nn, const float* numbers, int64_t elements,
             float* rounded) const {
    if (rounds()) nn->Run(cuda::RoundElement{numbers, rounded}, elements);
  }

  const int64_t height_, width_;
  float* raw_ = nullptr;  // the convolution's result, then its gradient
  uint8_t* chosen_ = nullptr;
  // Null unless it rounds.
  float* value_ = nullptr;  // of the edge below
  float* rounded_weight_ = nullptr;
};

void GpuConvolution::Carve(const GpuEdge& below, int64_t batch, bool training,
                           Carver* carver) {
  const PoolSize pool = Pool(batch);
  below_ = below;
  above_ = {};
  above_.value = carver->Take<float>(pool.pooled());
  if (training) above_.gradient = carver->Take<float>(pool.pooled());
  raw_ = carver->Take<float>(pool.elements());
  chosen_ = carver->Take<uint8_t>(pool.pooled());
  if (!rounds()) return;
  value_ = carver->Take<float>(Inputs(batch));
  rounded_weight_ = carver->Take<float>(weight_.elements);
}

void GpuConvolution::Forward(Nn* nn, const float* weights, int64_t count) {
  const float* const weight = weights + weight_.offset;
  Round(nn, below_.value, Inputs(count), value_);
  Round(nn, weight, weight_.elements, rounded_weight_);
  nn->Convolve(Size(count), number_, Operand(below_.value, value_),
               Operand(weight, rounded_weight_), raw_);
  const PoolSize pool = Pool(count);
  nn->Run(cuda::PoolElement{pool, raw_, weights + bias_.offset, above_.value,
                            chosen_},
          pool.pooled());
}

void GpuConvolution::WeightGradient(Nn* nn, int64_t count, float* gradient) {
  const PoolSize pool = Pool(count);
  nn->Run(cuda::ChannelSums{pool, above_.gradient, chosen_,
                            gradient + bias_.offset});
  nn->Run(cuda::UnpoolElement{pool, above_.gradient, chosen_, raw_},
          pool.elements());
  Round(nn, raw_, pool.elements(), raw_);
  nn->ConvolutionWeightGradient(Size(count), number_,
                                Operand(below_.value, value_), raw_,
                                gradient + weight_.offset);
}

void GpuConvolution::InputGradient(Nn* nn, const float* weights,
                                   int64_t count) {
  nn->ConvolutionInputGradient(
      Size(count), number_, raw_,
      Operand(weights + weight_.offset, rounded_weight_), below_.gradient);
}

}  // namespace

std::unique_ptr<GpuLayer> MakeGpuConvolution(const Tensor& weight,
                                             const Tensor& bias, int64_t height,
                                             int64_t width,
                                             cuda::Number number) {
  return std::make_unique<GpuConvolution>(weight, bias, height, width, number);
}

}  // namespace parapet
