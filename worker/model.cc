#include "worker/model.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/gpu.h"
#include "worker/layer.h"
#include "worker/network.h"
#include "worker/onednn.h"

namespace parapet {
namespace {

constexpr int kMaxThreads = 1024;

// A layer for each weight and bias of the layout, which alone says what the
// network is.
std::vector<std::unique_ptr<Layer>> MakeLayers(const Layout& layout,
                                               const InputShape& input) {
  const std::vector<Tensor>& tensors = layout.tensors();
  std::vector<std::unique_ptr<Layer>> layers;
  int64_t height = input.height, width = input.width;
  for (size_t i = 0; i + 1 < tensors.size(); i += 2) {
    const bool last = i + 2 == tensors.size();
    if (absl::StartsWith(tensors[i].name, "conv")) {
      layers.push_back(
          MakeConvolution(tensors[i], tensors[i + 1], height, width));
      height /= 2;
      width /= 2;
    } else {
      layers.push_back(MakeLinear(tensors[i], tensors[i + 1], !last));
    }
  }
  return layers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> MakeNetwork(
    const std::string& spec, const InputShape& input,
    const ComputeConfig& compute) {
  if (!HasLayers(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model '", spec,
        "' has no layers to train: it is for the players of `parapet load`"));
  }
  PARAPET_ASSIGN_OR_RETURN(Layout layout, ModelLayout(spec, input));
  if (compute.threads < 1 || compute.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat(compute.threads, " threads: from 1 to ", kMaxThreads));
  }
  PARAPET_RETURN_IF_ERROR(CapInstructionSet(compute.isa));
  std::vector<std::unique_ptr<Layer>> layers = MakeLayers(layout, input);
  return std::make_unique<Network>(std::move(layout), input, std::move(layers),
                                   compute.threads);
}

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const std::string& spec,
                                                 const InputShape& input,
                                                 const ComputeConfig& compute) {
  if (compute.gpu >= 0) return MakeGpuModel(spec, input, compute);
  return MakeNetwork(spec, input, compute);
}

std::string ComputeFingerprint(const ComputeConfig& compute) {
  if (compute.gpu >= 0) return GpuFingerprint(compute);
  // What cannot be capped any more is named as it is.
  CapInstructionSet(compute.isa).IgnoreError();
  const dnnl::version_t* version = dnnl::version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".",
                      version->patch, " ", EffectiveInstructionSet(), " ",
                      compute.threads,
                      compute.threads == 1 ? " thread" : " threads");
}

}  // namespace parapet
