#ifndef PARAPET_COMMON_DTYPE_H_
#define PARAPET_COMMON_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parapet {

// Element types of a payload on the wire. Arithmetic is float32, sums float64,
// whatever the wire. The values are part of the protocol.
enum class DType : uint8_t { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2 };

constexpr int64_t SizeOf(DType type) { return type == DType::kFloat32 ? 4 : 2; }
constexpr absl::string_view NameOf(DType type) {
  return type == DType::kFloat32    ? "float32"
         : type == DType::kBFloat16 ? "bfloat16"
                                    : "float16";
}
// "float32", "bfloat16" or "float16"; anything else is InvalidArgument.
absl::StatusOr<DType> ParseDType(absl::string_view name);

}  // namespace parapet

#endif  // PARAPET_COMMON_DTYPE_H_
