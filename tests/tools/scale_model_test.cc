#include "tools/scale_model.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/bench_scale.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

// One element a byte would do: chunks of 16 Ki elements, 64 KiB, that a link
// of 64 KiB a second takes 1 s for.
constexpr int64_t kChunk = 16 * 1024;
constexpr double kLink = 4 * kChunk;

PlanHosts SlowLinks() {
  return {.worker_link = kLink,
          .server_link = kLink,
          .latency = 0,
          .memory_bandwidth = 1e18};
}

double Simulated(const PlanJob& job, const PlanHosts& hosts) {
  const auto seconds = SimulateRound(job, hosts);
  EXPECT_TRUE(seconds.ok()) << seconds.status();
  return seconds.value_or(0);
}

TEST(ScaleModelTest, ByHand) {
  PlanJob job{.parameters = kChunk, .workers = 1, .chunk = kChunk};
  // Out of the worker, into the server, and the same back.
  EXPECT_NEAR(Simulated(job, SlowLinks()), 4, 1e-9);
  PlanHosts far = SlowLinks();
  far.latency = 10;
  EXPECT_NEAR(Simulated(job, far), 24, 1e-9);
  // Three chunks follow each other through four stages.
  job.parameters = 3 * kChunk;
  EXPECT_NEAR(Simulated(job, SlowLinks()), 6, 1e-9);
  // A last chunk of half the size goes first: what follows waits for no one.
  job.parameters = kChunk * 5 / 2;
  EXPECT_NEAR(Simulated(job, SlowLinks()), 5.5, 1e-9);
  // Two workers: 1 s out, 2 s into the server, 2 s out of it, 1 s in.
  job.parameters = kChunk;
  job.workers = 2;
  EXPECT_NEAR(Simulated(job, SlowLinks()), 6, 1e-9);
  // Memory: two rows in, weights and a moment in and out, 4 bytes each.
  PlanHosts slow = SlowLinks();
  slow.memory_bandwidth = 24 * kChunk;
  EXPECT_NEAR(Simulated(job, slow), 7, 1e-9);
}

TEST(ScaleModelTest, ADecisionComesBetween) {
  PlanJob job{.parameters = 4 * kChunk,
              .workers = 1,
              .chunk = kChunk,
              .distances = true};
  PlanHosts hosts = SlowLinks();
  // In: 4 chunks and one more stage; out: the same; between: the report.
  EXPECT_NEAR(Simulated(job, hosts), 5 + ReportBytes(job) / kLink + 5, 1e-9);
}

// The formula forgets in what order chunks meet at a link.
TEST(ScaleModelTest, TheFormulaIsNear) {
  for (const bool distances : {false, true}) {
    for (const int workers : {1, 2, 5, 16, 64}) {
      for (const int servers : {1, 2, 4, 16}) {
        for (const double memory : {1e9, 1e11}) {
          PlanJob job{.parameters = 10'000'000,
                      .workers = workers,
                      .servers = servers,
                      .distances = distances};
          const PlanHosts hosts{.worker_link = 1e9,
                                .server_link = 1e9,
                                .latency = 1e-4,
                                .memory_bandwidth = memory};
          const double formula = TimeOf(job, *ShapeOf(job), hosts).seconds;
          const double simulated = Simulated(job, hosts);
          EXPECT_GT(simulated, 0.75 * formula)
              << workers << " " << servers << " " << memory << distances;
          EXPECT_LT(simulated, 1.25 * formula)
              << workers << " " << servers << " " << memory << distances;
        }
      }
    }
  }
}

TEST(ScaleModelTest, RefusesTooManyMessages) {
  const PlanJob job{.parameters = 7'000'000'000, .workers = 4096, .servers = 8};
  const auto seconds = SimulateRound(job, {});
  ASSERT_FALSE(seconds.ok());
  EXPECT_THAT(std::string(seconds.status().message()), HasSubstr("--chunk"));
}

TEST(BenchScaleTest, SaysTheSameTwice) {
  const auto print = [](std::vector<std::string> args) {
    std::ostringstream out, err;
    EXPECT_EQ(RunBenchScale(args, out, err), 0) << err.str();
    return out.str();
  };
  const std::vector<std::string> args = {"--workers=2,16", "--servers=1,16",
                                         "--json"};
  const std::string first = print(args);
  EXPECT_EQ(first, print(args));
  const auto json = nlohmann::json::parse(first);
  ASSERT_EQ(json["rounds"].size(), 4u);
  for (const auto& round : json["rounds"]) {
    EXPECT_GT(round["model"], 0);
    EXPECT_GT(round["simulated"], 0);
  }
  EXPECT_LT(json["largest_deviation"], 0.01);
  EXPECT_EQ(json["beats_ring_from"][1]["workers"], 16);
  EXPECT_THAT(print({"--workers=16", "--servers=16"}), HasSubstr("servers on"));
  // Too large for the machines.
  const auto large = nlohmann::json::parse(print(
      {"--workers=16", "--servers=16", "--simulate_up_to=100", "--json"}));
  EXPECT_TRUE(large["rounds"][0]["simulated"].is_null());
  EXPECT_TRUE(large["largest_deviation"].is_null());
}

}  // namespace
}  // namespace parapet
