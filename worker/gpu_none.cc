#include "worker/gpu.h"

namespace parapet {
namespace {

constexpr char kWhy[] = "this build has no CUDA";

}  // namespace

cuda::DriverFacts AskGpus() {
  cuda::DriverFacts facts;
  facts.why_none = kWhy;
  return facts;
}

absl::StatusOr<std::unique_ptr<Model>> MakeGpuModel(const std::string&,
                                                    const InputShape&,
                                                    const ComputeConfig&) {
  return absl::UnimplementedError(kWhy);
}

std::string GpuFingerprint(const ComputeConfig&) { return kWhy; }

}  // namespace parapet
