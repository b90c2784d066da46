#ifndef PARAPET_KERNELS_CUDA_NN_CONVOLUTION_H_
#define PARAPET_KERNELS_CUDA_NN_CONVOLUTION_H_

#include <memory>
#include <string>

#include "kernels/cuda/check.h"
#include "kernels/cuda/nn.h"

namespace parapet::cuda {

// Convolutions as Nn has them, by cuDNN, with algorithms that give the same
// bits each time. Submits to one stream.
class Convolutions {
 public:
  virtual ~Convolutions() = default;
  virtual CudaResult Forward(const ConvolutionSize& size, Number digits,
                             const float* in, const float* weight,
                             float* out) = 0;
  virtual CudaResult WeightGradient(const ConvolutionSize& size, Number digits,
                                    const float* in, const float* out_gradient,
                                    float* weight_gradient) = 0;
  virtual CudaResult InputGradient(const ConvolutionSize& size, Number digits,
                                   const float* out_gradient,
                                   const float* weight, float* in_gradient) = 0;
};

// E.g. "cuDNN 9.19.0"; empty in a build without it.
std::string ConvolutionsName();

// *made stays null in a build without cuDNN.
CudaResult MakeConvolutions(cudaStream_t stream,
                            std::unique_ptr<Convolutions>* made);

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_CONVOLUTION_H_
