#ifndef PARAPET_WORKER_CHECK_BATCH_H_
#define PARAPET_WORKER_CHECK_BATCH_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/model_spec.h"
#include "worker/model.h"

namespace parapet {

// Whether a model for `input` can take a batch: its size, and its labels.
// InvalidArgument in words.
inline absl::Status CheckBatch(const Batch& batch, const InputShape& input,
                               int64_t most) {
  if (batch.count < 1 || batch.count > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch has 1 to ", most, " samples, not ", batch.count));
  }
  for (int64_t s = 0; s < batch.count; ++s) {
    if (batch.labels[s] >= 0 && batch.labels[s] < input.classes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("label ", batch.labels[s], " of sample ", s,
                     " is not one of ", input.classes, " classes"));
  }
  return absl::OkStatus();
}

}  // namespace parapet

#endif  // PARAPET_WORKER_CHECK_BATCH_H_
