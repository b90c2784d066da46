#ifndef PARAPET_WORKER_DATASET_H_
#define PARAPET_WORKER_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model_spec.h"

namespace parapet {

// Labelled samples in memory. Immutable; any thread may read it.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t samples() const = 0;
  virtual const InputShape& shape() const = 0;
  // Writes the inputs (normalised) and labels of the given samples, one after
  // another.
  virtual void Gather(absl::Span<const uint32_t> indices, float* inputs,
                      int32_t* labels) const = 0;
};

struct DataSplits {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

// `spec` is "fashion-mnist" (Debian's dataset-fashion-mnist), "idx:DIR"
// (MNIST's four files, plain or .gz) or "synthetic:FEATURES,CLASSES,SAMPLES" (a
// seeded mixture of Gaussians that is learnable, with SAMPLES / 5 further
// samples as test set). Inputs are normalised with the mean and deviation of
// the training images (fashion-mnist: 0.2860, 0.3530). Errors name the file and
// what is wrong with it: missing, bad magic, wrong sizes, truncated, trailing
// bytes, label out of range, images and labels of different counts.
// InvalidArgument: the spec; NotFound: a file; DataLoss: what is in it.
absl::StatusOr<DataSplits> LoadData(const std::string& spec, uint64_t seed);

}  // namespace parapet

#endif  // PARAPET_WORKER_DATASET_H_
