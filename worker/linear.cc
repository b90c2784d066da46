#include <algorithm>

#include "worker/layer.h"

namespace parapet {
namespace {

using dnnl::matmul;
using dnnl::memory;

// The transpose of a row-major matrix: `rows` x `columns`, column by column.
memory::desc TransposedDesc(int64_t rows, int64_t columns) {
  return {{rows, columns}, memory::data_type::f32, memory::dims{1, rows}};
}

// By hand, since oneDNN's ReLU may turn a NaN into 0, and a network that has
// diverged must show it.
void Relu(int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i)
    values[i] = values[i] < 0 ? 0.0f : values[i];
}

// Zeroes the gradient where the ReLU was off.
void MaskRelu(const float* __restrict values, int64_t count,
              float* __restrict gradient) {
  for (int64_t i = 0; i < count; ++i)
    gradient[i] = values[i] <= 0 ? 0.0f : gradient[i];
}

// Adds up the rows, from the first to the last.
void SumRows(const float* rows, int64_t count, int64_t columns,
             float* __restrict sum) {
  std::fill_n(sum, columns, 0.0f);
  for (int64_t r = 0; r < count; ++r, rows += columns) {
    for (int64_t c = 0; c < columns; ++c) sum[c] += rows[c];
  }
}

struct LinearShape {
  int64_t bias_at;  // in the layer's range
  int64_t inputs, outputs;
  bool relu;
};

class BuiltLinear : public BuiltLayer {
 public:
  BuiltLinear(const OneDnn& dnnl, const LinearShape& shape, const Edge& below,
              int64_t batch, bool training);

  void Forward(const float* weights) override;
  void WeightGradient(float* gradient) override;
  void InputGradient(const float* weights) override;

 private:
  Kernel MakeProduct(const memory& left, const memory& right,
                     const memory& product);
  void BuildForward(const Edge& below);
  void BuildBackward(const Edge& below);

  const OneDnn dnnl_;
  const LinearShape shape_;
  const int64_t batch_;

  Reorder value_;  // of the edge below, to row-major
  memory input_, weight_transposed_, bias_;
  Kernel forward_;

  memory gradient_transposed_, weight_gradient_;
  Kernel for_weights_;

  Reorder below_gradient_;  // from row-major to what the edge below has
  memory weight_, input_gradient_;
  Kernel for_input_;
};

BuiltLinear::BuiltLinear(const OneDnn& dnnl, const LinearShape& shape,
                         const Edge& below, int64_t batch, bool training)
    : dnnl_(dnnl), shape_(shape), batch_(batch) {
  BuildForward(below);
  if (training) BuildBackward(below);
}

Kernel BuiltLinear::MakeProduct(const memory& left, const memory& right,
                                const memory& product) {
  const matmul::desc desc(left.get_desc(), right.get_desc(),
                          product.get_desc());
  return Make(dnnl_,
              matmul::primitive_desc(desc, Kernel::Attributes(), dnnl_.engine));
}

void BuiltLinear::BuildForward(const Edge& below) {
  const int64_t inputs = shape_.inputs, outputs = shape_.outputs;
  value_ = Reorder::Into(dnnl_, below.value,
                         PlainDesc(below.value.get_desc().dims()));
  input_ = memory(PlainDesc({batch_, inputs}), dnnl_.engine, nullptr);
  weight_transposed_ =
      memory(TransposedDesc(inputs, outputs), dnnl_.engine, nullptr);
  bias_ = memory(PlainDesc({1, outputs}), dnnl_.engine, nullptr);
  above_.value = memory(PlainDesc({batch_, outputs}), dnnl_.engine);
  const matmul::desc desc(input_.get_desc(), weight_transposed_.get_desc(),
                          bias_.get_desc(), above_.value.get_desc());
  forward_ = Make(
      dnnl_, matmul::primitive_desc(desc, Kernel::Attributes(), dnnl_.engine));
}

void BuiltLinear::BuildBackward(const Edge& below) {
  const int64_t inputs = shape_.inputs, outputs = shape_.outputs;
  above_.gradient = memory(PlainDesc({batch_, outputs}), dnnl_.engine);
  gradient_transposed_ = memory(TransposedDesc(outputs, batch_), dnnl_.engine,
                                Data(above_.gradient));
  weight_gradient_ =
      memory(PlainDesc({outputs, inputs}), dnnl_.engine, nullptr);
  for_weights_ = MakeProduct(gradient_transposed_, input_, weight_gradient_);

  if (!below.gradient) return;
  below_gradient_ = Reorder::OutOf(
      dnnl_, PlainDesc(below.gradient.get_desc().dims()), below.gradient);
  weight_ = memory(PlainDesc({outputs, inputs}), dnnl_.engine, nullptr);
  input_gradient_ = memory(PlainDesc({batch_, inputs}), dnnl_.engine,
                           Data(below_gradient_.from()));
  for_input_ = MakeProduct(above_.gradient, weight_, input_gradient_);
}

void BuiltLinear::Forward(const float* weights) {
  value_.Run(dnnl_);
  PointAt(Data(value_.to()), &input_);
  PointAt(weights, &weight_transposed_);
  PointAt(weights + shape_.bias_at, &bias_);
  forward_.Run(dnnl_, {{DNNL_ARG_SRC, input_},
                       {DNNL_ARG_WEIGHTS, weight_transposed_},
                       {DNNL_ARG_BIAS, bias_},
                       {DNNL_ARG_DST, above_.value}});
  if (shape_.relu) Relu(batch_ * shape_.outputs, Data(above_.value));
}

void BuiltLinear::WeightGradient(float* gradient) {
  float* const above = Data(above_.gradient);
  if (shape_.relu) MaskRelu(Data(above_.value), batch_ * shape_.outputs, above);
  SumRows(above, batch_, shape_.outputs, gradient + shape_.bias_at);
  PointAt(gradient, &weight_gradient_);
  for_weights_.Run(dnnl_, {{DNNL_ARG_SRC, gradient_transposed_},
                           {DNNL_ARG_WEIGHTS, input_},
                           {DNNL_ARG_DST, weight_gradient_}});
}

void BuiltLinear::InputGradient(const float* weights) {
  PointAt(weights, &weight_);
  for_input_.Run(dnnl_, {{DNNL_ARG_SRC, above_.gradient},
                         {DNNL_ARG_WEIGHTS, weight_},
                         {DNNL_ARG_DST, input_gradient_}});
  below_gradient_.Run(dnnl_);
}

class Linear : public Layer {
 public:
  Linear(const Tensor& weight, const Tensor& bias, bool relu)
      : Layer(weight, bias), relu_(relu) {}

  std::unique_ptr<BuiltLayer> Build(const OneDnn& dnnl, const Edge& below,
                                    int64_t batch,
                                    bool training) const override {
    const LinearShape shape{bias_at(), weight_.shape[1], weight_.shape[0],
                            relu_};
    return std::make_unique<BuiltLinear>(dnnl, shape, below, batch, training);
  }

 private:
  const bool relu_;
};

}  // namespace

std::unique_ptr<Layer> MakeLinear(const Tensor& weight, const Tensor& bias,
                                  bool relu) {
  return std::make_unique<Linear>(weight, bias, relu);
}

}  // namespace parapet
