#ifndef PARAPET_TOOLS_BENCH_SCALE_H_
#define PARAPET_TOOLS_BENCH_SCALE_H_

#include <ostream>
#include <string>
#include <vector>

namespace parapet {

// `parapet bench scale`: the round time of a job with n workers and S servers,
// simulated with its own state machines up to some size and by a model of
// messages at any, beside the formulas of docs/plan.md and those of ring
// all-reduce; and from how many servers on the job wins. Nothing is measured:
// the same flags print the same.
//
// `args` are the words after "scale". Returns the exit code.
int RunBenchScale(const std::vector<std::string>& args, std::ostream& out,
                  std::ostream& err);

// The same with the standard streams. argv[0] is skipped.
int RunBenchScale(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_BENCH_SCALE_H_
