#ifndef PARAPET_COMMON_LOOPBACK_H_
#define PARAPET_COMMON_LOOPBACK_H_

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace parapet {

// Whether a host, by name or number, can only be this machine.
inline bool IsLoopbackHost(absl::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" ||
         (absl::StartsWith(host, "127.") &&
          host.find_first_not_of("0123456789.") == absl::string_view::npos);
}

}  // namespace parapet

#endif  // PARAPET_COMMON_LOOPBACK_H_
