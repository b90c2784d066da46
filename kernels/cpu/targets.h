#ifndef PARAPET_KERNELS_CPU_TARGETS_H_
#define PARAPET_KERNELS_CPU_TARGETS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parapet {

// Makes every CPU device of this process use one instruction set, by Highway's
// name ("AVX2"), instead of the best: to compare them. To be called before any
// other thread uses a device. InvalidArgument: this machine has none of that
// name.
absl::Status UseCpuVectors(absl::string_view name);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_TARGETS_H_
