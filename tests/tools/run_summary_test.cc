#include "tools/run_summary.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunSummaryTest, SaysWhoWasLeftOutOrIsSuspect) {
  const std::string table =
      SummaryTable({{"left_out", {{"10", 3}, {"2", 1}, {"4", 12}}},
                    {"strikes", {{"4", 12}}},
                    {"suspicion", {{"2", 0.5}, {"4", 0.981}, {"10", 0.6}}}});
  EXPECT_EQ(
      table,
      "summary\n"
      "  left out         worker 4: 12 rounds, worker 10: 3 rounds, worker "
      "2: 1 round\n"
      "  proven faulty    worker 4: 12 rounds\n"
      "  suspicion        worker 4: 98.10 %, worker 10: 60.00 %\n");
}

TEST(RunSummaryTest, NothingToSayOfAnyWorkerTakesNoRow) {
  EXPECT_EQ(SummaryTable({{"left_out", json::object()},
                          {"strikes", {{"1", 0}, {"2", nullptr}}},
                          {"suspicion", {{"1", 0.2}}}}),
            "summary\n");
  EXPECT_EQ(SummaryTable({{"left_out", 3}, {"suspicion", nullptr}}),
            "summary\n");
}

TEST(RunSummaryTest, AFewAreNamedAndTheOthersCounted) {
  json suspicion;
  for (int id = 0; id < 9; ++id) suspicion[std::to_string(id)] = 0.9;
  suspicion["8"] = 1.0;
  const std::string table = SummaryTable({{"suspicion", suspicion}});
  EXPECT_THAT(table, HasSubstr("worker 8: 100.00 %, worker 0: 90.00 %"));
  EXPECT_THAT(table, HasSubstr("worker 3: 90.00 %, 4 more\n"));
  EXPECT_THAT(table, Not(HasSubstr("worker 4")));
}

}  // namespace
}  // namespace parapet
