#ifndef PARAPET_WORKER_MODEL_H_
#define PARAPET_WORKER_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout.h"
#include "common/model_spec.h"

namespace parapet {

// Labelled inputs, row-major: `inputs` is count x features (images as C x H x
// W), already normalised.
struct Batch {
  const float* inputs = nullptr;
  const int32_t* labels = nullptr;
  int64_t count = 0;
};

// Where a pass meets the network. Either call may block; an error abandons the
// pass and is returned by it.
struct PassHooks {
  // Before the pass first reads weights of `range`: says where the first of
  // them is. They lie there one after the other until the pass has ended, or
  // until gradient_ready frees them. Without this hook all are in place.
  std::function<absl::StatusOr<const float*>(Range range)> need_weights;
  // The gradient of `range` is final. Ranges come once each, together the whole
  // layout, from the layout's end to its beginning. The weights of `range` are
  // still read until the next call, or the end of the pass: the layer below
  // needs them.
  std::function<absl::Status(Range range)> gradient_ready;

  // What a model calls: the hook, if there is one. `weights` is the whole
  // vector.
  absl::StatusOr<const float*> Weights(Range range,
                                       const float* weights) const {
    if (!need_weights) return weights + range.begin;
    return need_weights(range);
  }
  absl::Status Ready(Range range) const {
    return gradient_ready ? gradient_ready(range) : absl::OkStatus();
  }
};

struct PassResult {
  double loss_sum = 0;  // cross-entropy, summed over the samples
  int64_t correct =
      0;  // samples whose largest output is their label's (the first of equals)
  int64_t samples = 0;
};

// A network with softmax cross-entropy at its end. Weights and gradients are
// flat vectors in layout order that the caller owns. One thread uses a model;
// the same inputs give the same bits for the same fingerprint.
class Model {
 public:
  virtual ~Model() = default;
  virtual const Layout& layout() const = 0;

  // Forward and backward: writes the gradient of the *mean* loss over the batch
  // (layout().elements() floats, fully overwritten). batch.count >= 1; any
  // count, another each time if need be. `weights` are not read where
  // hooks.need_weights says where they are.
  virtual absl::StatusOr<PassResult> Train(const float* weights,
                                           const Batch& batch, float* gradient,
                                           const PassHooks& hooks) = 0;
  // Forward only.
  virtual absl::StatusOr<PassResult> Evaluate(const float* weights,
                                              const Batch& batch) = 0;
};

// Where and how a model computes: part of a worker's fingerprint, since the
// bits depend on all of it.
struct ComputeConfig {
  // Of the CPU.
  int threads = 1;
  std::string isa =
      "default";  // "sse41", "avx2", "avx512" cap the instruction set
  // The index of a GPU; -1: the CPU computes.
  int gpu = -1;
  // Of a GPU: what products read is rounded to bfloat16. Sums, weights and
  // gradients stay float32.
  bool bfloat16 = false;
};

// A model that common/model_spec.h describes: its layout is ModelLayout(spec,
// input). InvalidArgument: the spec, the input or the threads. The instruction
// set is capped for the whole process, once, and before its first model:
// FailedPrecondition if that is too late. A GPU that cannot be used, or a model
// that it cannot compute, is an error in words.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const std::string& spec,
                                                 const InputShape& input,
                                                 const ComputeConfig& compute);

// E.g. "oneDNN 2.6.3 avx2 1 thread", or "NVIDIA H200 (9.0), cuBLAS 13.1.0,
// cuDNN 9.19.0, float32": what decides the bits of MakeModel's models on this
// machine.
std::string ComputeFingerprint(const ComputeConfig& compute);

}  // namespace parapet

#endif  // PARAPET_WORKER_MODEL_H_
