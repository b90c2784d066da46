#ifndef PARAPET_TOOLS_PLAN_H_
#define PARAPET_TOOLS_PLAN_H_

#include <ostream>
#include <string>
#include <vector>

namespace parapet {

// `parapet plan`: what a job needs of memory by item, how long a round takes by
// part, what bounds it, and what to change. Computes, starts nothing; the
// formulas are in docs/plan.md.
//
// `args` are the words after "plan". Returns the exit code.
int ShowPlan(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err);

// The same with the standard streams. argv[0] is skipped.
int ShowPlan(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_PLAN_H_
