#include <algorithm>
#include <vector>

#include "worker/layer.h"
#include "worker/pool.h"

namespace parapet {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;

// Winograd (and `auto`, which may pick it) was slower, and rounds worse.
constexpr dnnl::algorithm kDirect = dnnl::algorithm::convolution_direct;

// Stride and padding, in each direction.
memory::dims Ones() { return {1, 1}; }

memory::desc AnyDesc(const memory::dims& dims) {
  return {dims, memory::data_type::f32, memory::format_tag::any};
}

struct Format {
  memory::format_tag tag;
  int64_t block;  // channels that lie side by side; 0: all
};

// The formats that the pool can walk, as images x height x width x block.
constexpr Format kFormats[] = {{memory::format_tag::nChw16c, 16},
                               {memory::format_tag::nChw8c, 8},
                               {memory::format_tag::nChw4c, 4},
                               {memory::format_tag::nhwc, 0},
                               {memory::format_tag::nchw, 1}};

Format FormatOf(const memory::desc& desc) {
  for (const Format& format : kFormats) {
    if (desc == memory::desc(desc.dims(), memory::data_type::f32, format.tag))
      return format;
  }
  return {memory::format_tag::nchw, 1};
}

struct ConvolutionShape {
  int64_t bias_at;          // in the layer's range
  int64_t inputs, outputs;  // channels
  int64_t height, width;
};

class BuiltConvolution : public BuiltLayer {
 public:
  BuiltConvolution(const OneDnn& dnnl, const ConvolutionShape& shape,
                   const Edge& below, int64_t batch, bool training);

  void Forward(const float* weights) override;
  void WeightGradient(float* gradient) override;
  void InputGradient(const float* weights) override;

 private:
  convolution_forward::primitive_desc BuildForward(const Edge& below);
  void BuildPool(const memory::desc& raw);
  void BuildWeightGradient(const Edge& below,
                           const convolution_forward::primitive_desc& forward);
  void BuildInputGradient(const Edge& below,
                          const convolution_forward::primitive_desc& forward);

  const OneDnn dnnl_;
  const memory::dims in_, weights_, bias_dims_, out_;
  const ConvolutionShape shape_;

  memory weight_, bias_;  // in the flat vector
  Reorder value_, forward_weight_;
  Reorder raw_;  // the convolution's result, to a format that the pool can walk
  Kernel forward_;

  PoolShape pool_;
  std::vector<int32_t> chosen_;

  memory raw_gradient_;                     // in the pool's format
  memory weight_gradient_, bias_gradient_;  // in the flat vector
  Reorder value_for_weights_, raw_gradient_for_weights_, weight_gradient_out_;
  Kernel for_weights_;

  Reorder raw_gradient_for_input_, input_weight_, below_gradient_;
  Kernel for_input_;
};

BuiltConvolution::BuiltConvolution(const OneDnn& dnnl,
                                   const ConvolutionShape& shape,
                                   const Edge& below, int64_t batch,
                                   bool training)
    : dnnl_(dnnl),
      in_{batch, shape.inputs, shape.height, shape.width},
      weights_{shape.outputs, shape.inputs, 3, 3},
      bias_dims_{shape.outputs},
      out_{batch, shape.outputs, shape.height, shape.width},
      shape_(shape) {
  const convolution_forward::primitive_desc forward = BuildForward(below);
  BuildPool(forward.dst_desc());
  if (!training) return;
  BuildWeightGradient(below, forward);
  if (below.gradient) BuildInputGradient(below, forward);
}

convolution_forward::primitive_desc BuiltConvolution::BuildForward(
    const Edge& below) {
  const convolution_forward::primitive_desc made(
      convolution_forward::desc(dnnl::prop_kind::forward_training, kDirect,
                                AnyDesc(in_), AnyDesc(weights_),
                                AnyDesc(bias_dims_), AnyDesc(out_), Ones(),
                                Ones(), Ones()),
      Kernel::Attributes(), dnnl_.engine);
  weight_ = memory(PlainDesc(weights_), dnnl_.engine, nullptr);
  bias_ = memory(PlainDesc(bias_dims_), dnnl_.engine, nullptr);
  value_ = Reorder::Into(dnnl_, below.value, made.src_desc());
  forward_weight_ = Reorder::Into(dnnl_, weight_, made.weights_desc());
  forward_ = Make(dnnl_, made);
  return made;
}

void BuiltConvolution::BuildPool(const memory::desc& raw) {
  const Format format = FormatOf(raw);
  const memory::desc walked(out_, memory::data_type::f32, format.tag);
  raw_ = Reorder::Into(dnnl_, memory(raw, dnnl_.engine), walked);
  above_.value =
      memory({{out_[0], out_[1], shape_.height / 2, shape_.width / 2},
              memory::data_type::f32,
              format.tag},
             dnnl_.engine);
  pool_.height = shape_.height;
  pool_.width = shape_.width;
  pool_.block = format.block == 0 ? shape_.outputs : format.block;
  // Blocked formats pad the channels to whole blocks.
  pool_.images = out_[0] * ((shape_.outputs + pool_.block - 1) / pool_.block);
  chosen_.resize(pool_.pooled());
}

void BuiltConvolution::BuildWeightGradient(
    const Edge& below, const convolution_forward::primitive_desc& forward) {
  const convolution_backward_weights::primitive_desc made(
      convolution_backward_weights::desc(kDirect, AnyDesc(in_),
                                         AnyDesc(weights_), AnyDesc(bias_dims_),
                                         AnyDesc(out_), Ones(), Ones(), Ones()),
      Kernel::Attributes(), dnnl_.engine, forward);
  above_.gradient = memory(above_.value.get_desc(), dnnl_.engine);
  raw_gradient_ = memory(raw_.to().get_desc(), dnnl_.engine);
  // The pool leaves an odd last row or column as it is: zero.
  std::fill_n(Data(raw_gradient_),
              raw_gradient_.get_desc().get_size() / sizeof(float), 0.0f);
  weight_gradient_ = memory(PlainDesc(weights_), dnnl_.engine, nullptr);
  bias_gradient_ = memory(PlainDesc(bias_dims_), dnnl_.engine, nullptr);
  value_for_weights_ = Reorder::Into(dnnl_, below.value, made.src_desc());
  raw_gradient_for_weights_ =
      Reorder::Into(dnnl_, raw_gradient_, made.diff_dst_desc());
  weight_gradient_out_ =
      Reorder::OutOf(dnnl_, made.diff_weights_desc(), weight_gradient_);
  for_weights_ = Make(dnnl_, made);
}

void BuiltConvolution::BuildInputGradient(
    const Edge& below, const convolution_forward::primitive_desc& forward) {
  const convolution_backward_data::primitive_desc made(
      convolution_backward_data::desc(kDirect, AnyDesc(in_), AnyDesc(weights_),
                                      AnyDesc(out_), Ones(), Ones(), Ones()),
      Kernel::Attributes(), dnnl_.engine, forward);
  raw_gradient_for_input_ =
      Reorder::Into(dnnl_, raw_gradient_, made.diff_dst_desc());
  input_weight_ = Reorder::Into(dnnl_, weight_, made.weights_desc());
  below_gradient_ = Reorder::OutOf(dnnl_, made.diff_src_desc(), below.gradient);
  for_input_ = Make(dnnl_, made);
}

void BuiltConvolution::Forward(const float* weights) {
  PointAt(weights, &weight_);
  PointAt(weights + shape_.bias_at, &bias_);
  value_.Run(dnnl_);
  forward_weight_.Run(dnnl_);
  forward_.Run(dnnl_, {{DNNL_ARG_SRC, value_.to()},
                       {DNNL_ARG_WEIGHTS, forward_weight_.to()},
                       {DNNL_ARG_BIAS, bias_},
                       {DNNL_ARG_DST, raw_.from()}});
  raw_.Run(dnnl_);
  PoolForward(pool_, Data(raw_.to()), Data(above_.value), chosen_.data());
}

void BuiltConvolution::WeightGradient(float* gradient) {
  PointAt(gradient, &weight_gradient_);
  PointAt(gradient + shape_.bias_at, &bias_gradient_);
  PoolBackward(pool_, Data(above_.gradient), chosen_.data(),
               Data(raw_gradient_));
  value_for_weights_.Run(dnnl_);
  raw_gradient_for_weights_.Run(dnnl_);
  for_weights_.Run(dnnl_, {{DNNL_ARG_SRC, value_for_weights_.to()},
                           {DNNL_ARG_DIFF_DST, raw_gradient_for_weights_.to()},
                           {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_out_.from()},
                           {DNNL_ARG_DIFF_BIAS, bias_gradient_}});
  weight_gradient_out_.Run(dnnl_);
}

void BuiltConvolution::InputGradient(const float* weights) {
  PointAt(weights, &weight_);
  raw_gradient_for_input_.Run(dnnl_);
  input_weight_.Run(dnnl_);
  for_input_.Run(dnnl_, {{DNNL_ARG_DIFF_DST, raw_gradient_for_input_.to()},
                         {DNNL_ARG_WEIGHTS, input_weight_.to()},
                         {DNNL_ARG_DIFF_SRC, below_gradient_.from()}});
  below_gradient_.Run(dnnl_);
}

class Convolution : public Layer {
 public:
  Convolution(const Tensor& weight, const Tensor& bias, int64_t height,
              int64_t width)
      : Layer(weight, bias), height_(height), width_(width) {}

  std::unique_ptr<BuiltLayer> Build(const OneDnn& dnnl, const Edge& below,
                                    int64_t batch,
                                    bool training) const override {
    const ConvolutionShape shape{bias_at(), weight_.shape[1], weight_.shape[0],
                                 height_, width_};
    return std::make_unique<BuiltConvolution>(dnnl, shape, below, batch,
                                              training);
  }

 private:
  const int64_t height_, width_;
};

}  // namespace

std::unique_ptr<Layer> MakeConvolution(const Tensor& weight, const Tensor& bias,
                                       int64_t height, int64_t width) {
  return std::make_unique<Convolution>(weight, bias, height, width);
}

}  // namespace parapet
