#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace parapet::sim {
namespace {

constexpr int kFailuresShown = 3;
constexpr size_t kComplaintsShown = 12;

// The environment is read here and nowhere else.
std::optional<uint64_t> Number(const char* name) {
  const char* value = std::getenv(name);
  uint64_t number = 0;
  if (value == nullptr || !absl::SimpleAtoi(value, &number)) return {};
  return number;
}

// How much of a failing run's log is printed: as many lines as
// PARAPET_SIM_LOG says.
size_t LinesShown(size_t lines) {
  return std::min<size_t>(lines, Number("PARAPET_SIM_LOG").value_or(25));
}

const ::testing::TestInfo* CurrentTest() {
  return ::testing::UnitTest::GetInstance()->current_test_info();
}

int FailuresSoFar() { return CurrentTest()->result()->total_part_count(); }

std::string HowToReplay(uint64_t seed) {
  return absl::StrCat("PARAPET_SIM_SEED=", seed, " sim_test --gtest_filter=",
                      CurrentTest()->test_suite_name(), ".",
                      CurrentTest()->name());
}

}  // namespace

bool ForSeeds(uint64_t count, const std::function<void(uint64_t)>& test) {
  const std::optional<uint64_t> one = Number("PARAPET_SIM_SEED");
  const uint64_t first = one.value_or(1);
  const uint64_t last =
      one.value_or(Number("PARAPET_SIM_SEEDS").value_or(count));
  int failures = 0;
  for (uint64_t seed = first; seed <= last && failures < kFailuresShown;
       ++seed) {
    const int before = FailuresSoFar();
    test(seed);
    if (FailuresSoFar() == before) continue;
    ++failures;
    std::printf("replay: %s\n", HowToReplay(seed).c_str());
  }
  return !one && last >= count;
}

void Report(const std::vector<std::string>& complaints,
            const Scenario& scenario, const RunResult& result) {
  if (complaints.empty()) return;
  const size_t shown = std::min(complaints.size(), kComplaintsShown);
  const size_t lines = LinesShown(result.log.size());
  ADD_FAILURE() << absl::StrJoin(complaints.begin(), complaints.begin() + shown,
                                 "\n")
                << (shown < complaints.size() ? "\n..." : "") << "\nafter "
                << absl::FormatDuration(result.took) << " with "
                << scenario.Describe() << "\nits log:\n"
                << absl::StrJoin(result.log.end() - lines, result.log.end(),
                                 "\n");
}

}  // namespace parapet::sim
