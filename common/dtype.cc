#include "common/dtype.h"

#include "absl/strings/str_cat.h"

namespace parapet {

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name == NameOf(type)) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' is not a wire type; use float32, bfloat16 or float16"));
}

}  // namespace parapet
