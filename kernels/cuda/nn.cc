#include "kernels/cuda/nn.h"

#include <array>
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/discover.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/nn_convolution.h"
#include "kernels/cuda/nn_kernels.h"
#include "kernels/cuda/stream.h"

namespace parapet::cuda {
namespace {

Limits LimitsOf(const GpuFacts& gpu) {
  Limits limits;
  limits.multiprocessors = gpu.multiprocessors;
  return limits;
}

CudaResult ReadCublasVersion(std::array<int, 3>* version) {
  PARAPET_CUDA_TRY(cublasGetProperty(MAJOR_VERSION, &(*version)[0]));
  PARAPET_CUDA_TRY(cublasGetProperty(MINOR_VERSION, &(*version)[1]));
  PARAPET_CUDA_TRY(cublasGetProperty(PATCH_LEVEL, &(*version)[2]));
  return {};
}

std::string CublasName() {
  std::array<int, 3> version{};
  const CudaResult read = ReadCublasVersion(&version);
  if (!read.ok()) return read.words();
  return "cuBLAS " + std::to_string(version[0]) + "." +
         std::to_string(version[1]) + "." + std::to_string(version[2]);
}

class Blas {
 public:
  Blas() = default;
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() {
    if (handle_ != nullptr) PARAPET_CUDA_REPORT(cublasDestroy(handle_));
  }

  // One handle, one stream: then the same product gives the same bits.
  CudaResult Init(cudaStream_t stream) {
    PARAPET_CUDA_TRY(cublasCreate(&handle_));
    PARAPET_CUDA_TRY(cublasSetStream(handle_, stream));
    return {};
  }

  CudaResult Multiply(const Product& product, Number stored, const void* a,
                      const void* b, float* c) const {
    const ColumnMajorCall call = ToColumnMajor(product);
    const bool a_first = call.first == ColumnMajorCall::Operand::kA;
    const cudaDataType_t type =
        stored == Number::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    const float one = 1, zero = 0;
    PARAPET_CUDA_TRY(cublasGemmEx_64(
        handle_, Operation(call.transpose_first),
        Operation(call.transpose_second), call.m, call.n, call.k, &one,
        a_first ? a : b, type, call.ld_first, a_first ? b : a, type,
        call.ld_second, &zero, c, CUDA_R_32F, call.ld_c, CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT));
    return {};
  }

 private:
  static cublasOperation_t Operation(bool transpose) {
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  }

  cublasHandle_t handle_ = nullptr;
};

class GpuNn : public Nn {
 public:
  explicit GpuNn(const GpuFacts& gpu) : gpu_(gpu), limits_(LimitsOf(gpu)) {}

  CudaResult Init() {
    PARAPET_CUDA_TRY(UseDevice(gpu_.index));
    for (Stream& stream : streams_) PARAPET_CUDA_TRY(Stream::Create(&stream));
    PARAPET_CUDA_TRY(blas_.Init(compute()));
    PARAPET_CUDA_TRY(MakeConvolutions(compute(), &convolutions_));
    return {};
  }

  bool has_convolutions() const override { return convolutions_ != nullptr; }
  const std::string& failure() const override { return failure_; }

  Memory AllocateDevice(int64_t bytes) override {
    return Allocate<DeviceBuffer>(bytes);
  }
  Memory AllocatePinned(int64_t bytes) override {
    return Allocate<PinnedBuffer>(bytes);
  }
  int64_t FreeDeviceBytes() override {
    size_t free = 0, total = 0;
    Submit([&]() -> CudaResult {
      PARAPET_CUDA_TRY(cudaMemGetInfo(&free, &total));
      return {};
    });
    return static_cast<int64_t>(free);
  }

  int MakeEvent() override {
    Event event;
    Submit([&] { return Event::Create(&event); });
    events_.push_back(std::move(event));
    return static_cast<int>(events_.size()) - 1;
  }
  void Record(Lane lane, int event) override {
    Submit([&] { return EventOf(event).Record(StreamOf(lane).get()); });
  }
  void Wait(Lane lane, int event) override {
    Submit([&] { return StreamOf(lane).Wait(EventOf(event)); });
  }
  const std::string& Finish(int event) override {
    Submit([&] { return EventOf(event).Synchronize(); });
    return failure_;
  }
  void Drain() override {
    // Also after a failure: memory that a lane still uses must not be freed.
    for (const Stream& stream : streams_) {
      const CudaResult result = stream.Synchronize();
      if (!result.ok() && failure_.empty()) failure_ = result.words();
    }
  }

  void Upload(const void* host, void* device, int64_t bytes) override {
    Copy(device, host, bytes, cudaMemcpyHostToDevice, Lane::kUpload);
  }
  void Download(const void* device, void* host, int64_t bytes) override {
    Copy(host, device, bytes, cudaMemcpyDeviceToHost, Lane::kDownload);
  }

  void Multiply(const Product& product, Number stored, const void* a,
                const void* b, float* c) override {
    Submit([&] { return blas_.Multiply(product, stored, a, b, c); });
  }
  void Run(const NarrowElement& element, int64_t elements) override {
    RunElements(element, elements);
  }
  void Run(const RoundElement& element, int64_t elements) override {
    RunElements(element, elements);
  }
  void Run(const BiasElement& element, int64_t elements) override {
    RunElements(element, elements);
  }
  void Run(const MaskElement& element, int64_t elements) override {
    RunElements(element, elements);
  }
  void Run(const PoolElement& element, int64_t elements) override {
    RunElements(element, elements);
  }
  void Run(const UnpoolElement& element, int64_t elements) override {
    RunElements(element, elements);
  }
  void Run(const ColumnSums& sums) override {
    RunTeams<SumScratch>(sums, TeamShape(sums.items(), limits_));
  }
  void Run(const ChannelSums& sums) override {
    RunTeams<SumScratch>(sums, TeamShape(sums.items(), limits_));
  }
  void Run(const SoftmaxLoss& loss) override {
    RunTeams<LossScratch>(loss, LossShape(loss.count, loss.classes, limits_));
  }
  void Run(const SumLosses& sum) override {
    RunTeams<TotalScratch>(sum, TeamShape(sum.items(), limits_));
  }

  void Convolve(const ConvolutionSize& size, Number digits, const float* in,
                const float* weight, float* out) override {
    RunConvolution(
        [&] { return convolutions_->Forward(size, digits, in, weight, out); });
  }
  void ConvolutionWeightGradient(const ConvolutionSize& size, Number digits,
                                 const float* in, const float* out_gradient,
                                 float* weight_gradient) override {
    RunConvolution([&] {
      return convolutions_->WeightGradient(size, digits, in, out_gradient,
                                           weight_gradient);
    });
  }
  void ConvolutionInputGradient(const ConvolutionSize& size, Number digits,
                                const float* out_gradient, const float* weight,
                                float* in_gradient) override {
    RunConvolution([&] {
      return convolutions_->InputGradient(size, digits, out_gradient, weight,
                                          in_gradient);
    });
  }

 private:
  cudaStream_t compute() const { return streams_[0].get(); }
  const Stream& StreamOf(Lane lane) const {
    return streams_[static_cast<size_t>(lane)];
  }
  const Event& EventOf(int event) const {
    return events_[static_cast<size_t>(event)];
  }

  // Calls what may fail, unless something has.
  template <typename Call>
  void Submit(const Call& call) {
    if (!failure_.empty()) return;
    CudaResult result = UseDevice(gpu_.index);
    if (result.ok()) result = call();
    if (!result.ok()) failure_ = result.words();
  }

  template <typename Buffer>
  Memory Allocate(int64_t bytes) {
    const auto buffer = std::make_shared<Buffer>();
    Submit([&]() -> CudaResult {
      CudaResult result =
          Buffer::Allocate(static_cast<size_t>(bytes), buffer.get());
      if (!result.out_of_memory()) return result;
      // The caller is told; the next launch must not find it.
      static_cast<void>(cudaGetLastError());
      return {};
    });
    if (buffer->data() == nullptr) return nullptr;
    return Memory(buffer, buffer->data());
  }

  void Copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind,
            Lane lane) {
    Submit([&]() -> CudaResult {
      PARAPET_CUDA_TRY(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                       kind, StreamOf(lane).get()));
      return {};
    });
  }

  template <typename Element>
  void RunElements(const Element& element, int64_t elements) {
    Submit(
        [&] { return SubmitElements(element, elements, limits_, compute()); });
  }

  template <typename Scratch, typename Work>
  void RunTeams(const Work& work, const Shape& shape) {
    Submit([&] { return SubmitTeams<Scratch>(work, shape, compute()); });
  }

  template <typename Call>
  void RunConvolution(const Call& call) {
    if (convolutions_ != nullptr) return Submit(call);
    Submit([] {
      return CudaResult::Failed("convolutions: this build has no cuDNN");
    });
  }

  const GpuFacts gpu_;
  const Limits limits_;
  std::string failure_;
  std::array<Stream, 3> streams_;  // one for each lane
  std::vector<Event> events_;
  Blas blas_;
  std::unique_ptr<Convolutions> convolutions_;
};

}  // namespace

std::string NnFingerprint(int index) {
  const Choice choice = ChooseGpu(AskDriver(), index);
  if (!choice.found) return choice.why;
  const GpuFacts& gpu = choice.gpu;
  const std::string convolutions = ConvolutionsName();
  return gpu.name + " (" + std::to_string(gpu.major) + "." +
         std::to_string(gpu.minor) + "), " + CublasName() +
         (convolutions.empty() ? "" : ", " + convolutions);
}

std::unique_ptr<Nn> MakeNn(int index, std::string* why) {
  const Choice choice = ChooseGpu(AskDriver(), index);
  if (!choice.found) {
    *why = choice.why;
    return nullptr;
  }
  auto nn = std::make_unique<GpuNn>(choice.gpu);
  const CudaResult result = nn->Init();
  if (result.ok()) return nn;
  *why = result.words();
  return nullptr;
}

}  // namespace parapet::cuda
