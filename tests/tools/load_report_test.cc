#include "tools/load_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/load_plot.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two players, 100 rounds of 1 MiB in 2 s, of 10 to 1009 ms.
LoadReport MakeReport() {
  LoadReport report;
  report.flags.players = 2;
  report.flags.common.job.workers = report.flags.attack.workers = 2;
  report.flags.parameters = 1 << 18;
  LoadStats& stats = report.stats;
  stats.began = absl::FromUnixSeconds(10);
  stats.ended = absl::FromUnixSeconds(12);
  for (int i = 0; i < 200; ++i) {
    const absl::Duration took = absl::Milliseconds(10 + 5 * i);
    for (LoadHistogram* histogram : {&stats.push_ack, &stats.first_weights,
                                     &stats.last_weights, &stats.round})
      histogram->Add(took);
    stats.timeline.Add(absl::Milliseconds(10 * i), took, 1000);
    ++stats.rounds;
  }
  stats.all_rounds = 220;
  stats.pushed_bytes = stats.received_bytes = uint64_t{1} << 30;
  report.player_cpu_seconds = 3;
  report.servers = {{1.5, 100 << 20, 30 << 20, 0, {}}};
  return report;
}

TEST(LoadReportTest, HasItsNumbers) {
  const nlohmann::json json = LoadJson(MakeReport());
  EXPECT_DOUBLE_EQ(json["rounds"], 100);
  EXPECT_DOUBLE_EQ(json["rounds_per_second"], 50);
  const double goodput = 2 * 100 * 1048576 / 2.0 / 1e9;
  EXPECT_DOUBLE_EQ(json["goodput_gbytes_per_second"]["push"], goodput);
  EXPECT_DOUBLE_EQ(json["goodput_gbytes_per_second"]["weights"], goodput);
  for (const char* what :
       {"push_ack", "first_weights", "last_weights", "round"}) {
    const nlohmann::json& latency = json["latency_ms"][what];
    EXPECT_EQ(latency["count"], 200);
    EXPECT_NEAR(latency["p50"], 505, 505 * 0.004);
    EXPECT_NEAR(latency["p99"], 995, 995 * 0.004);
    EXPECT_EQ(latency["max"], 1005);
    EXPECT_TRUE(latency.contains("p90") && latency.contains("p99.9"));
  }
  EXPECT_DOUBLE_EQ(json["players"]["cpu_seconds_per_gib"], 1.5);
  EXPECT_DOUBLE_EQ(json["servers"][0]["cpu_seconds_per_gib"], 0.75);
  EXPECT_EQ(json["servers"][0]["peak_bytes"], 100 << 20);
  EXPECT_EQ(json["checks"]["wrong"], 0);
  EXPECT_THAT(json["complaints"], IsEmpty());
}

TEST(LoadReportTest, SaysWhatDidNotHold) {
  LoadReport report = MakeReport();
  EXPECT_THAT(LoadComplaints(report), IsEmpty());
  report.flags.max_p99 = absl::Seconds(1);
  report.flags.min_goodput = 0.1;
  EXPECT_THAT(LoadComplaints(report), IsEmpty());
  report.flags.max_p99 = absl::Milliseconds(900);
  report.flags.min_goodput = 0.2;
  report.stats.torn = 3;
  EXPECT_THAT(LoadComplaints(report),
              ElementsAre(HasSubstr("3 chunks of weights were torn"),
                          HasSubstr("--max_p99=900ms"),
                          HasSubstr("--min_goodput=0.2")));
}

TEST(LoadReportTest, FailuresOfManyPlayersAreNotManyLines) {
  LoadReport report = MakeReport();
  for (int i = 0; i < 100; ++i)
    report.stats.failures["reason " + std::to_string(i)] = i == 0 ? 7 : 1;
  EXPECT_THAT(
      LoadComplaints(report),
      ElementsAre("7 players: reason 0", "a player: reason 1",
                  "a player: reason 10", "97 more players ended likewise"));
}

TEST(LoadReportTest, RepeatsAreFineAfterAReconnection) {
  LoadReport report = MakeReport();
  report.stats.repeated = 2;
  EXPECT_THAT(LoadComplaints(report), ElementsAre(HasSubstr("repeated")));
  report.stats.retries = 1;
  EXPECT_THAT(LoadComplaints(report), IsEmpty());
}

TEST(LoadReportTest, NothingMeasuredIsNoDivisionByZero) {
  LoadReport report;
  report.flags.max_p99 = absl::Seconds(1);
  const std::string text = LoadJson(report).dump() + LoadTable(report);
  EXPECT_THAT(text, Not(HasSubstr(" nan")));
  EXPECT_THAT(text, Not(HasSubstr("-nan")));
  EXPECT_THAT(text, Not(HasSubstr("null")));
}

TEST(LoadReportTest, AddsUpWhatServersRefused) {
  LoadReport report = MakeReport();
  report.servers[0].refusals = {{"protocol", 3}, {"over_credit", 1}};
  report.servers.push_back({1, 1 << 20, 0, 0, {{{"protocol", 4}}}});
  EXPECT_THAT(LoadTable(report),
              HasSubstr("seen by players: none; counted by servers: "
                        "over_credit 1, protocol 7"));
  const nlohmann::json json = LoadJson(report);
  EXPECT_EQ(json["servers"][1]["refusals"]["protocol"], 4);
  // One that was killed has not said.
  report.servers[1].refusals.reset();
  EXPECT_TRUE(LoadJson(report)["servers"][1]["refusals"].is_null());
}

TEST(LoadReportTest, SharedMemoryIsToldByItself) {
  LoadReport report = MakeReport();
  EXPECT_THAT(LoadTable(report), HasSubstr("by formula"));
  report.flags.transport = "shm";
  EXPECT_THAT(LoadTable(report),
              HasSubstr("peak 100.0 MiB (30.0 MiB of it shared)"));
  EXPECT_TRUE(LoadJson(report)["servers"][0]["expected_bytes"].is_null());
}

TEST(LoadReportTest, TheTableHasARowForEach) {
  LoadReport report = MakeReport();
  report.malformed.sent = 7;
  report.malformed.refused[Code::kProtocol] = 5;
  report.malformed.cut_off = 2;
  report.stats.refusals[Code::kEquivocation] = 4;
  const std::string table = LoadTable(report);
  for (const char* words : {"50.00 rounds/s", "push_ack", "first_weights",
                            "last_weights", "server 0", "peak 100.0 MiB",
                            "equivocation 4", "protocol 5", "cut off 2"})
    EXPECT_THAT(table, HasSubstr(words));
}

TEST(LoadTimelineTest, JoinsNeighboursWhenThereAreTooMany) {
  LoadTimeline timeline(absl::Seconds(1));
  for (int second = 0; second < 3000; ++second)
    timeline.Add(absl::Seconds(second), absl::Milliseconds(1), 10);
  EXPECT_EQ(timeline.length(), absl::Seconds(16));
  EXPECT_EQ(timeline.intervals().size(), 188u);
  uint64_t bytes = 0, rounds = 0;
  for (const auto& interval : timeline.intervals()) {
    bytes += interval.bytes;
    rounds += interval.round.count();
  }
  EXPECT_EQ(bytes, 30000u);
  EXPECT_EQ(rounds, 3000u);
  LoadTimeline other(absl::Seconds(1));
  other.Add(absl::Seconds(17), absl::Milliseconds(1), 5);
  other.Merge(timeline);
  EXPECT_EQ(other.length(), absl::Seconds(16));
  EXPECT_EQ(other.intervals()[1].bytes, 165u);
}

size_t Count(const std::string& text, const std::string& words) {
  size_t count = 0;
  for (size_t at = text.find(words); at != std::string::npos;
       at = text.find(words, at + 1))
    ++count;
  return count;
}

TEST(LoadPlotTest, HasALineForEachPercentileAndOneForThroughput) {
  const std::string svg = LoadPlot(MakeReport().stats.timeline, "a < b & c");
  EXPECT_EQ(svg.find("<svg xmlns="), 0u);
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_EQ(Count(svg, "<polyline"), 5u);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  for (const char* name : {">p50<", ">p90<", ">p99<", ">max<", ">0.5<", ">2<",
                           "ms", "GB/s", "seconds since the start"})
    EXPECT_THAT(svg, HasSubstr(name));
  // Two seconds in tenths: so many points on each line.
  const size_t at = svg.find("points=\"");
  EXPECT_EQ(Count(svg.substr(at, svg.find("\"/>", at) - at), ","), 20u);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(LoadPlotTest, StallsAreSeenAndSparseRoundsAreJoined) {
  const auto points = [](const std::string& svg, size_t nth) {
    size_t at = 0;
    for (size_t i = 0; i <= nth; ++i) at = svg.find("points=\"", at + 1);
    return Count(svg.substr(at, svg.find("\"/>", at) - at), ",");
  };
  // 20 tenths of which 3 in a row had no round.
  LoadTimeline stalled;
  for (int tenth = 0; tenth < 20; ++tenth) {
    if (tenth < 8 || tenth > 10)
      stalled.Add(absl::Milliseconds(100 * tenth), absl::Milliseconds(90), 10);
  }
  const std::string svg = LoadPlot(stalled, "");
  EXPECT_EQ(points(svg, 0), 17u);  // latencies
  EXPECT_EQ(points(svg, 4), 20u);  // throughput
  // A round each 0.8 s.
  LoadTimeline sparse;
  for (int i = 0; i < 20; ++i)
    sparse.Add(absl::Milliseconds(800 * i), absl::Milliseconds(790), 10);
  EXPECT_EQ(points(LoadPlot(sparse, ""), 4), 20u);
}

TEST(LoadPlotTest, AnEmptyTimelineIsAPlotWithoutLines) {
  const std::string svg = LoadPlot(LoadTimeline(), "nothing");
  EXPECT_EQ(Count(svg, "points=\"\""), 5u);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace parapet
