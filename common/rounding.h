#ifndef PARAPET_COMMON_ROUNDING_H_
#define PARAPET_COMMON_ROUNDING_H_

#include <cstddef>

namespace parapet {

// The least multiple of `unit` that is not below `bytes`.
constexpr size_t RoundedUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace parapet

#endif  // PARAPET_COMMON_ROUNDING_H_
