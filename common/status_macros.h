#ifndef PARAPET_COMMON_STATUS_MACROS_H_
#define PARAPET_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the function if `expression` is a status that is not OK.
#define PARAPET_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    absl::Status parapet_status_ = (expression);       \
    if (!parapet_status_.ok()) return parapet_status_; \
  } while (false)

// Declares or assigns `target` from a StatusOr, or returns its status.
#define PARAPET_ASSIGN_OR_RETURN(target, expression)                        \
  PARAPET_ASSIGN_OR_RETURN_(PARAPET_CONCAT_(parapet_or_, __LINE__), target, \
                            expression)
#define PARAPET_ASSIGN_OR_RETURN_(holder, target, expression) \
  auto holder = (expression);                                 \
  if (!holder.ok()) return std::move(holder).status();        \
  target = *std::move(holder)
#define PARAPET_CONCAT_(a, b) PARAPET_CONCAT2_(a, b)
#define PARAPET_CONCAT2_(a, b) a##b

#endif  // PARAPET_COMMON_STATUS_MACROS_H_
