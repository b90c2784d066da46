#include "worker/cuda/layer.h"

namespace parapet {
namespace {

using cuda::Bf16;
using cuda::Nn;

class GpuLinear : public GpuLayer {
 public:
  GpuLinear(const Tensor& weight, const Tensor& bias, bool relu,
            cuda::Number number)
      : GpuLayer(weight, bias, number), relu_(relu) {}

  void Carve(const GpuEdge& below, int64_t batch, bool training,
             Carver* carver) override;
  void Forward(Nn* nn, const float* weights, int64_t count) override;
  void WeightGradient(Nn* nn, int64_t count, float* gradient) override;
  void InputGradient(Nn* nn, const float* weights, int64_t count) override;

 private:
  int64_t inputs() const { return weight_.shape[1]; }
  int64_t outputs() const { return weight_.shape[0]; }
  // What a product reads: the numbers themselves, or their rounded copy.
  const void* Operand(const float* numbers, const Bf16* rounded) const {
    if (rounds()) return rounded;
    return numbers;
  }
  void Round(Nn* nn, const float* numbers, int64_t elements,
             Bf16* rounded) const {
    if (rounds()) nn->Run(cuda::NarrowElement{numbers, rounded}, elements);
  }

  const bool relu_;
  // Null unless it rounds.
  Bf16* value_ = nullptr;  // of the edge below
  Bf16* rounded_weight_ = nullptr;
  Bf16* gradient_ = nullptr;  // of the edge above
};

void GpuLinear::Carve(const GpuEdge& below, int64_t batch, bool training,
                      Carver* carver) {
  below_ = below;
  above_ = {};
  above_.value = carver->Take<float>(batch * outputs());
  if (training) above_.gradient = carver->Take<float>(batch * outputs());
  if (!rounds()) return;
  value_ = carver->Take<Bf16>(batch * inputs());
  rounded_weight_ = carver->Take<Bf16>(weight_.elements);
  if (training) gradient_ = carver->Take<Bf16>(batch * outputs());
}

void GpuLinear::Forward(Nn* nn, const float* weights, int64_t count) {
  const float* const weight = weights + weight_.offset;
  Round(nn, below_.value, count * inputs(), value_);
  Round(nn, weight, weight_.elements, rounded_weight_);
  nn->Multiply({count, outputs(), inputs(), false, true}, number_,
               Operand(below_.value, value_), Operand(weight, rounded_weight_),
               above_.value);
  nn->Run(
      cuda::BiasElement{above_.value, weights + bias_.offset, outputs(), relu_},
      count * outputs());
}

void GpuLinear::WeightGradient(Nn* nn, int64_t count, float* gradient) {
  const int64_t elements = count * outputs();
  if (relu_)
    nn->Run(cuda::MaskElement{above_.value, above_.gradient}, elements);
  nn->Run(cuda::ColumnSums{above_.gradient, count, outputs(),
                           gradient + bias_.offset});
  Round(nn, above_.gradient, elements, gradient_);
  nn->Multiply({outputs(), inputs(), count, true, false}, number_,
               Operand(above_.gradient, gradient_),
               Operand(below_.value, value_), gradient + weight_.offset);
}

void GpuLinear::InputGradient(Nn* nn, const float* weights, int64_t count) {
  nn->Multiply({count, inputs(), outputs(), false, false}, number_,
               Operand(above_.gradient, gradient_),
               Operand(weights + weight_.offset, rounded_weight_),
               below_.gradient);
}

}  // namespace

std::unique_ptr<GpuLayer> MakeGpuLinear(const Tensor& weight,
                                        const Tensor& bias, bool relu,
                                        cuda::Number number) {
  return std::make_unique<GpuLinear>(weight, bias, relu, number);
}

}  // namespace parapet
