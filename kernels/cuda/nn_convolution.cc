#include "kernels/cuda/nn_convolution.h"

#ifdef PARAPET_HAVE_CUDNN

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cuda/memory.h"

namespace parapet::cuda {
namespace {

// Each is documented to give the same bits each time; the others of their kind
// add up with atomics, or round worse (Winograd, FFT).
constexpr cudnnConvolutionFwdAlgo_t kForward =
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr cudnnConvolutionBwdFilterAlgo_t kWeight =
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
constexpr cudnnConvolutionBwdDataAlgo_t kInput =
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;

constexpr size_t kMaxPrepared = 32;

// Owns one of cuDNN's objects.
template <typename Object, cudnnStatus_t (*create)(Object*),
          cudnnStatus_t (*destroy)(Object)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) PARAPET_CUDA_REPORT(destroy(object_));
  }

  CudaResult Create() {
    PARAPET_CUDA_TRY(create(&object_));
    return {};
  }
  Object get() const { return object_; }

 private:
  Object object_ = nullptr;
};

using Context = Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
using TensorDesc = Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                         cudnnDestroyTensorDescriptor>;
using FilterDesc = Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor,
                         cudnnDestroyFilterDescriptor>;
using ConvolutionDesc =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
          cudnnDestroyConvolutionDescriptor>;

// What cuDNN must be told of a size, and how much memory each direction needs.
struct Prepared {
  ConvolutionSize size;
  Number digits = Number::kFloat32;
  TensorDesc in, out;
  FilterDesc weight;
  ConvolutionDesc convolution;
  size_t forward_bytes = 0, weight_bytes = 0, input_bytes = 0;
};

bool Same(const ConvolutionSize& a, const ConvolutionSize& b) {
  return a.count == b.count && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.height == b.height && a.width == b.width;
}

CudaResult DescribeImages(const TensorDesc& desc, int64_t count,
                          int64_t channels, const ConvolutionSize& size) {
  PARAPET_CUDA_TRY(cudnnSetTensor4dDescriptor(
      desc.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, static_cast<int>(count),
      static_cast<int>(channels), static_cast<int>(size.height),
      static_cast<int>(size.width)));
  return {};
}

// cuDNN counts in 32 bits.
CudaResult CheckFits(const ConvolutionSize& size) {
  const int64_t image =
      std::max(size.inputs, size.outputs) * size.height * size.width;
  const int64_t most = std::numeric_limits<int32_t>::max() / image;
  if (size.count <= most) return {};
  return CudaResult::Failed("cuDNN takes at most " + std::to_string(most) +
                            " of these images at once, not " +
                            std::to_string(size.count) +
                            ": make the batch smaller");
}

CudaResult DescribeSize(const Prepared& p) {
  PARAPET_CUDA_TRY(DescribeImages(p.in, p.size.count, p.size.inputs, p.size));
  PARAPET_CUDA_TRY(DescribeImages(p.out, p.size.count, p.size.outputs, p.size));
  PARAPET_CUDA_TRY(cudnnSetFilter4dDescriptor(
      p.weight.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
      static_cast<int>(p.size.outputs), static_cast<int>(p.size.inputs), 3, 3));
  PARAPET_CUDA_TRY(cudnnSetConvolution2dDescriptor(
      p.convolution.get(), 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
      CUDNN_DATA_FLOAT));
  // The tensor cores' TF32 holds a bfloat16's digits, but not a float32's.
  PARAPET_CUDA_TRY(cudnnSetConvolutionMathType(
      p.convolution.get(),
      p.digits == Number::kBf16 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
  return {};
}

CudaResult AskWorkspaces(cudnnHandle_t context, Prepared* p) {
  PARAPET_CUDA_TRY(cudnnGetConvolutionForwardWorkspaceSize(
      context, p->in.get(), p->weight.get(), p->convolution.get(), p->out.get(),
      kForward, &p->forward_bytes));
  PARAPET_CUDA_TRY(cudnnGetConvolutionBackwardFilterWorkspaceSize(
      context, p->in.get(), p->out.get(), p->convolution.get(), p->weight.get(),
      kWeight, &p->weight_bytes));
  PARAPET_CUDA_TRY(cudnnGetConvolutionBackwardDataWorkspaceSize(
      context, p->weight.get(), p->out.get(), p->convolution.get(), p->in.get(),
      kInput, &p->input_bytes));
  return {};
}

class CudnnConvolutions : public Convolutions {
 public:
  CudaResult Init(cudaStream_t stream) {
    PARAPET_CUDA_TRY(context_.Create());
    PARAPET_CUDA_TRY(cudnnSetStream(context_.get(), stream));
    return {};
  }

  CudaResult Forward(const ConvolutionSize& size, Number digits,
                     const float* in, const float* weight,
                     float* out) override {
    const Prepared* p = nullptr;
    PARAPET_CUDA_TRY(Prepare(size, digits, &p));
    PARAPET_CUDA_TRY(Reserve(p->forward_bytes));
    PARAPET_CUDA_TRY(cudnnConvolutionForward(
        context_.get(), &kOne, p->in.get(), in, p->weight.get(), weight,
        p->convolution.get(), kForward, workspace_.data(), p->forward_bytes,
        &kZero, p->out.get(), out));
    return {};
  }

  CudaResult WeightGradient(const ConvolutionSize& size, Number digits,
                            const float* in, const float* out_gradient,
                            float* weight_gradient) override {
    const Prepared* p = nullptr;
    PARAPET_CUDA_TRY(Prepare(size, digits, &p));
    PARAPET_CUDA_TRY(Reserve(p->weight_bytes));
    PARAPET_CUDA_TRY(cudnnConvolutionBackwardFilter(
        context_.get(), &kOne, p->in.get(), in, p->out.get(), out_gradient,
        p->convolution.get(), kWeight, workspace_.data(), p->weight_bytes,
        &kZero, p->weight.get(), weight_gradient));
    return {};
  }

  CudaResult InputGradient(const ConvolutionSize& size, Number digits,
                           const float* out_gradient, const float* weight,
                           float* in_gradient) override {
    const Prepared* p = nullptr;
    PARAPET_CUDA_TRY(Prepare(size, digits, &p));
    PARAPET_CUDA_TRY(Reserve(p->input_bytes));
    PARAPET_CUDA_TRY(cudnnConvolutionBackwardData(
        context_.get(), &kOne, p->weight.get(), weight, p->out.get(),
        out_gradient, p->convolution.get(), kInput, workspace_.data(),
        p->input_bytes, &kZero, p->in.get(), in_gradient));
    return {};
  }

 private:
  static constexpr float kOne = 1, kZero = 0;

  CudaResult Prepare(const ConvolutionSize& size, Number digits,
                     const Prepared** found) {
    for (const std::unique_ptr<Prepared>& p : prepared_) {
      if (!Same(p->size, size) || p->digits != digits) continue;
      *found = p.get();
      return {};
    }
    PARAPET_CUDA_TRY(CheckFits(size));
    auto fresh = std::make_unique<Prepared>();
    fresh->size = size;
    fresh->digits = digits;
    PARAPET_CUDA_TRY(fresh->in.Create());
    PARAPET_CUDA_TRY(fresh->out.Create());
    PARAPET_CUDA_TRY(fresh->weight.Create());
    PARAPET_CUDA_TRY(fresh->convolution.Create());
    PARAPET_CUDA_TRY(DescribeSize(*fresh));
    PARAPET_CUDA_TRY(AskWorkspaces(context_.get(), fresh.get()));
    if (prepared_.size() == kMaxPrepared) prepared_.erase(prepared_.begin());
    prepared_.push_back(std::move(fresh));
    *found = prepared_.back().get();
    return {};
  }

  // Freeing the smaller one waits for the GPU: that happens when a larger batch
  // than any before comes.
  CudaResult Reserve(size_t bytes) {
    if (bytes <= workspace_.size()) return {};
    return DeviceBuffer::Allocate(bytes, &workspace_);
  }

  Context context_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
  DeviceBuffer workspace_;
};

}  // namespace

std::string ConvolutionsName() {
  const size_t version = cudnnGetVersion();
  return "cuDNN " + std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

CudaResult MakeConvolutions(cudaStream_t stream,
                            std::unique_ptr<Convolutions>* made) {
  auto convolutions = std::make_unique<CudnnConvolutions>();
  PARAPET_CUDA_TRY(convolutions->Init(stream));
  *made = std::move(convolutions);
  return {};
}

}  // namespace parapet::cuda

#else

namespace parapet::cuda {

std::string ConvolutionsName() { return {}; }

CudaResult MakeConvolutions(cudaStream_t stream,
                            std::unique_ptr<Convolutions>* made) {
  return {};
}

}  // namespace parapet::cuda

#endif  // PARAPET_HAVE_CUDNN
