#ifndef PARAPET_TOOLS_LOAD_PLOT_H_
#define PARAPET_TOOLS_LOAD_PLOT_H_

#include <string>

#include "tools/load_stats.h"

namespace parapet {

// A plot as SVG: a round's latency at p50, p90, p99 and max (logarithmic), and
// below it throughput, over the time of the test. `title` is any text. An empty
// timeline gives a plot without lines; of a sparse one intervals are joined.
std::string LoadPlot(const LoadTimeline& timeline, const std::string& title);

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_PLOT_H_
