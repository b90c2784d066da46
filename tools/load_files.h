#ifndef PARAPET_TOOLS_LOAD_FILES_H_
#define PARAPET_TOOLS_LOAD_FILES_H_

#include <cstdint>

#include "absl/status/status.h"

namespace parapet {

// How many files `players` have open with (1 + connections) connections to each
// server, at most.
int64_t LoadOpenFiles(int players, int servers, int connections);

// Raises this process's limit on open files as far as it may, so that `needed`
// can be opened; its children inherit it. ResourceExhausted in words if that
// does not suffice.
absl::Status RaiseOpenFiles(int64_t needed);

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_FILES_H_
