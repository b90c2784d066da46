#ifndef PARAPET_TOOLS_SCALE_MODEL_H_
#define PARAPET_TOOLS_SCALE_MODEL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tools/plan_model.h"

namespace parapet {

// A model message by message: every chunk of every worker takes its turn
// on the worker's link, the server's link, the server's memory and the links
// back, in the order in which a job sends them (docs/architecture.md, "The
// round"). A link serves what has come first, ties by worker and server; what
// waits for one does not hold up others, as in a network with large buffers.
// Headers, processors and loss are left out.
//
// Deterministic. Takes about 16 bytes and a microsecond for each of the
// workers x chunks messages one way.

inline constexpr int64_t kMostScaleMessages = 20'000'000;

// Seconds from the first push to the last weights when all workers begin at
// once. InvalidArgument if there are more messages than the limit above, or as
// ShapeOf.
absl::StatusOr<double> SimulateRound(const PlanJob& job,
                                     const PlanHosts& hosts);

}  // namespace parapet

#endif  // PARAPET_TOOLS_SCALE_MODEL_H_
