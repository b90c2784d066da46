#ifndef PARAPET_TESTS_SIM_CHECK_H_
#define PARAPET_TESTS_SIM_CHECK_H_

#include <string>
#include <vector>

#include "tests/sim/cluster.h"
#include "tests/sim/reference.h"
#include "tests/sim/scenario.h"

namespace parapet::sim {

// What is wrong with a run that should have ended well, in words: everyone
// ends as he should, every version has the bits of the reference (which goes
// on to the run's end), and the records say who took part and who did not.
std::vector<std::string> CheckRun(const Scenario& scenario,
                                  const RunResult& result,
                                  Reference* reference);

// Runs the job on the disk, checks it as above and reports what is wrong.
RunResult RunChecked(const Scenario& scenario, const Device& device, Disk* disk,
                     Reference* reference);

// Where the run had a snapshot folder: its end must be there, whole.
std::vector<std::string> CheckSnapshot(const Scenario& scenario, Disk& disk,
                                       const Reference& reference);

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_CHECK_H_
