#ifndef PARAPET_KERNELS_CUDA_NN_H_
#define PARAPET_KERNELS_CUDA_NN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/nn_functors.h"
#include "kernels/cuda/nn_loss.h"
#include "kernels/cuda/nn_product.h"
#include "kernels/cuda/nn_sums.h"

namespace parapet::cuda {

// 3x3 convolutions with padding 1 and stride 1: images count x inputs x height
// x width, weights outputs x inputs x 3 x 3, results count x outputs x height x
// width, all row-major.
struct ConvolutionSize {
  int64_t count = 0, inputs = 0, outputs = 0, height = 0, width = 0;
};

// What the numbers of a product are stored as. Sums are float32 in any case.
enum class Number : uint8_t { kFloat32, kBf16 };

// The three queues of work of a GPU. Within a lane things happen in order;
// between lanes only events make an order.
enum class Lane : uint8_t { kCompute, kUpload, kDownload };

// What networks need of a GPU. Everything here but Finish and Drain only
// submits work and returns: memory that was named must stay until it is done.
// Device memory is never read or written by the caller. One thread uses it.
//
// The first failure stays: nothing more is submitted, and failure() says in
// words what it was.
class Nn {
 public:
  using Memory = std::shared_ptr<void>;

  virtual ~Nn() = default;

  // Whether there is a library for convolutions. Otherwise they are a failure.
  virtual bool has_convolutions() const = 0;
  virtual const std::string& failure() const = 0;

  // Null if there is no memory left, which is no failure. Aligned for
  // everything; any content. Frees itself, after a Drain.
  virtual Memory AllocateDevice(int64_t bytes) = 0;
  // Of the host, for copies.
  virtual Memory AllocatePinned(int64_t bytes) = 0;
  virtual int64_t FreeDeviceBytes() = 0;

  // ---- Order
  // A new event, not recorded yet.
  virtual int MakeEvent() = 0;
  // The event is when all that was submitted to the lane until now is done.
  virtual void Record(Lane lane, int event) = 0;
  // What is submitted to the lane from now on waits for the event, as it was
  // recorded last.
  virtual void Wait(Lane lane, int event) = 0;
  // The caller waits. Returns failure().
  virtual const std::string& Finish(int event) = 0;
  // The caller waits for all three lanes.
  virtual void Drain() = 0;

  // ---- Copies, in kUpload and kDownload. The host's side is pinned.
  virtual void Upload(const void* host, void* device, int64_t bytes) = 0;
  virtual void Download(const void* device, void* host, int64_t bytes) = 0;

  // ---- Work, in kCompute
  virtual void Multiply(const Product& product, Number stored, const void* a,
                        const void* b, float* c) = 0;
  virtual void Run(const NarrowElement& element, int64_t elements) = 0;
  virtual void Run(const RoundElement& element, int64_t elements) = 0;
  virtual void Run(const BiasElement& element, int64_t elements) = 0;
  virtual void Run(const MaskElement& element, int64_t elements) = 0;
  virtual void Run(const PoolElement& element, int64_t elements) = 0;
  virtual void Run(const UnpoolElement& element, int64_t elements) = 0;
  virtual void Run(const ColumnSums& sums) = 0;
  virtual void Run(const ChannelSums& sums) = 0;
  virtual void Run(const SoftmaxLoss& loss) = 0;
  virtual void Run(const SumLosses& sum) = 0;

  // `digits`: kBf16 promises that the images, weights and gradients that are
  // read have a bfloat16's digits, though they are stored as float32. Products
  // of such numbers are exact in the tensor cores' short formats.
  virtual void Convolve(const ConvolutionSize& size, Number digits,
                        const float* in, const float* weight, float* out) = 0;
  virtual void ConvolutionWeightGradient(const ConvolutionSize& size,
                                         Number digits, const float* in,
                                         const float* out_gradient,
                                         float* weight_gradient) = 0;
  virtual void ConvolutionInputGradient(const ConvolutionSize& size,
                                        Number digits,
                                        const float* out_gradient,
                                        const float* weight,
                                        float* in_gradient) = 0;
};

// What decides the bits of a GPU's results: its kind, and the versions of the
// libraries. E.g. "NVIDIA H200 (9.0), cuBLAS 13.1.0, cuDNN 9.19.0".
std::string NnFingerprint(int index);

// The GPU `index` of this machine; null if it cannot be used, and *why becomes
// the reason in words.
std::unique_ptr<Nn> MakeNn(int index, std::string* why);

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_H_
