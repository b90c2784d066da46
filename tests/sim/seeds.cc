#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace parapet::sim {
namespace {

constexpr int kFailuresShown = 3;
constexpr size_t kComplaintsShown = 12;

// How much of a failing run's log is printed: PARAPET_SIM_LOG=all for all.
size_t LinesShown(size_t lines) {
  const char* value = std::getenv("PARAPET_SIM_LOG");
  return value == nullptr ? std::min<size_t>(lines, 25) : lines;
}

std::string HowToReplay(uint64_t seed) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat("PARAPET_SIM_SEED=", seed, " sim_test --gtest_filter=",
                      info->test_suite_name(), ".", info->name());
}

}  // namespace

void ForSeeds(uint64_t count, const std::function<void(uint64_t)>& test) {
  uint64_t first = 1, last = count, seed = 0;
  const char* chosen = std::getenv("PARAPET_SIM_SEED");
  if (chosen != nullptr && absl::SimpleAtoi(chosen, &seed)) first = last = seed;
  int failures = 0;
  for (seed = first; seed <= last && failures < kFailuresShown; ++seed) {
    const bool failed_before = ::testing::Test::HasFailure();
    const int parts = ::testing::UnitTest::GetInstance()
                          ->current_test_info()
                          ->result()
                          ->total_part_count();
    test(seed);
    const bool failed = ::testing::UnitTest::GetInstance()
                                ->current_test_info()
                                ->result()
                                ->total_part_count() > parts ||
                        (!failed_before && ::testing::Test::HasFailure());
    if (!failed) continue;
    ++failures;
    std::printf("replay: %s\n", HowToReplay(seed).c_str());
  }
}

void Report(const std::vector<std::string>& complaints,
            const Scenario& scenario, const RunResult& result) {
  if (complaints.empty()) return;
  const size_t shown = std::min(complaints.size(), kComplaintsShown);
  const size_t lines = LinesShown(result.log.size());
  ADD_FAILURE() << absl::StrJoin(complaints.begin(), complaints.begin() + shown,
                                 "\n")
                << (shown < complaints.size() ? "\n..." : "")
                << "\nafter " << absl::FormatDuration(result.took) << " with "
                << scenario.Describe() << "\nits log:\n"
                << absl::StrJoin(result.log.end() - lines, result.log.end(),
                                 "\n");
}

}  // namespace parapet::sim
