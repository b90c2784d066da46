#include "kernels/cpu/targets.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hwy/highway.h"

namespace parapet {

absl::Status UseCpuVectors(absl::string_view name) {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
    if (names.back() != name) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no instruction set '", name, "' here; there are ",
                   absl::StrJoin(names, ", ")));
}

}  // namespace parapet
