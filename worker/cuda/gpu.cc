#include "worker/gpu.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/nn.h"
#include "worker/cuda/network.h"

namespace parapet {
namespace {

cuda::Number NumberOf(const ComputeConfig& compute) {
  return compute.bfloat16 ? cuda::Number::kBf16 : cuda::Number::kFloat32;
}

}  // namespace

cuda::DriverFacts AskGpus() { return cuda::AskDriver(); }

absl::StatusOr<std::unique_ptr<Model>> MakeGpuModel(
    const std::string& spec, const InputShape& input,
    const ComputeConfig& compute) {
  std::string why;
  std::unique_ptr<cuda::Nn> nn = cuda::MakeNn(compute.gpu, &why);
  if (nn == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot use GPU ", compute.gpu, ": ", why,
                     "; --device=cpu does without"));
  }
  return CudaNetwork::Make(spec, input, NumberOf(compute), std::move(nn));
}

std::string GpuFingerprint(const ComputeConfig& compute) {
  return absl::StrCat(cuda::NnFingerprint(compute.gpu), ", ",
                      compute.bfloat16 ? "bfloat16" : "float32");
}

}  // namespace parapet
