#ifndef PARAPET_TESTS_SIM_SEEDS_H_
#define PARAPET_TESTS_SIM_SEEDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace parapet::sim {

// Runs a test for seeds 1 to `count`; for the one in PARAPET_SIM_SEED alone; or
// for as many as PARAPET_SIM_SEEDS says. After a failure it prints how to run
// that seed again, and goes on unless several have failed. Returns whether
// there were `count` seeds or more: enough for everything to have happened.
bool ForSeeds(uint64_t count, const std::function<void(uint64_t)>& test);

// Fails the test with the complaints, if any, and the end of the run's log.
void Report(const std::vector<std::string>& complaints,
            const Scenario& scenario, const RunResult& result);

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_SEEDS_H_
