#ifndef PARAPET_TOOLS_AGGREGATE_H_
#define PARAPET_TOOLS_AGGREGATE_H_

#include <ostream>
#include <string>
#include <vector>

#include "common/disk.h"

namespace parapet {

// `parapet aggregate`: what a rule makes of the rows of a NumPy file, by the
// code that servers run (server/rules/local_round.h).
//
//   aggregate --input=x.npy --rule="nnm + trimmed_mean" --byzantine=2
//
// Prints the aggregate, one value a line with 9 significant digits, or writes
// it with --output as float32 .npy; --explain adds one line of JSON on standard
// output, the last one. Rows that are left out are named on `err`. Returns the
// exit code: 0 (also for a bad round, whose aggregate is 0), 2 for wrong usage
// or limits that do not hold, 4 if they no longer hold for the rows that are
// left, 5 for a file that is missing or not as it must be, 1 if something else
// failed. `args` are the words after "aggregate".
int RunAggregate(Disk& disk, const std::vector<std::string>& args,
                 std::ostream& out, std::ostream& err);

// The same with the real disk and the standard streams. argv[0] is skipped.
int RunAggregate(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_AGGREGATE_H_
