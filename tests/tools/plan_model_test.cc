#include "tools/plan_model.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/plan.h"
#include "tools/rates.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

// 1000 Ki elements on one server in chunks of 64 Ki.
PlanJob SmallJob() {
  return {.parameters = 1000 * 1024, .workers = 4, .chunk = 64 * 1024};
}

TEST(RatesTest, BitsAndBytes) {
  EXPECT_EQ(*ParseRate("100Gbps"), 12.5e9);
  EXPECT_EQ(*ParseRate("12.5GB/s"), 12.5e9);
  EXPECT_EQ(*ParseRate("800bit/s"), 100);
  for (const char* wrong :
       {"", "100", "Gbps", "-1Gbps", "0B/s", "nanB/s", "1e999B/s", "1XB/s"}) {
    const auto rate = ParseRate(wrong);
    ASSERT_FALSE(rate.ok()) << wrong;
    EXPECT_THAT(std::string(rate.status().message()), HasSubstr("100Gbps"));
  }
  EXPECT_EQ(BytesInWords(3.25e9), "3.25 GB");
  EXPECT_EQ(SecondsInWords(0.017), "17.0 ms");
}

TEST(PlanModelTest, BytesAndPasses) {
  PlanJob job = SmallJob();
  EXPECT_EQ(BytesPushed(job), int64_t{4} * 4000 * 1024);
  // Mean and momentum: four rows in, weights and a moment in and out.
  EXPECT_EQ(PassesOf(job).measure, 0);
  EXPECT_EQ(PassesOf(job).step, 4 * 4 + 16);
  job.distances = true;
  EXPECT_EQ(PassesOf(job).measure, 16);
  EXPECT_EQ(PassesOf(job).step, 4 * 4 + 16);
  job.distances = false;
  job.clip_norm =
      true;  // the rows are read once, the aggregate goes out and in
  EXPECT_EQ(PassesOf(job).measure, 16 + 4);
  EXPECT_EQ(PassesOf(job).step, 16 + 4);
}

TEST(PlanModelTest, OneServerWaitsForItsLink) {
  const PlanJob job = SmallJob();
  PlanHosts hosts{.worker_link = 1e9,
                  .server_link = 1e9,
                  .latency = 0,
                  .memory_bandwidth = 1e15};
  const RoundTime time = TimeOf(job, *ShapeOf(job), hosts);
  EXPECT_EQ(time.parts[time.bottleneck].name, "servers' links, in");
  const double link = 4 * 4000 * 1024 / 1e9;
  EXPECT_GT(time.seconds, link);
  EXPECT_LT(time.seconds, 1.2 * link);  // in and out overlap but for a chunk
  PlanJob held = job;
  held.distances = true;
  EXPECT_GT(TimeOf(held, *ShapeOf(held), hosts).seconds, 2 * link);
}

TEST(PlanModelTest, RingAndCrossing) {
  PlanJob job{.parameters = 100'000'000, .workers = 2};
  PlanHosts hosts{.worker_link = 1e9, .server_link = 1e9, .latency = 0};
  EXPECT_DOUBLE_EQ(RingTime(job, hosts), 0.4);  // 2 (n - 1) / n M / B
  job.workers = 16;
  EXPECT_DOUBLE_EQ(RingTime(job, hosts), 0.75);
  // n M / S is below 2 (n - 1) / n M from S > n^2 / 2 (n - 1) = 8.5 on.
  const int servers = ServersToBeatRing(job, hosts, 16);
  EXPECT_GE(servers, 9);
  EXPECT_LE(servers, 11);
  hosts.server_link = 1e6;
  EXPECT_EQ(ServersToBeatRing(job, hosts, 16), 0);
}

std::string Printed(std::vector<std::string> args, int code = 0) {
  std::ostringstream out, err;
  EXPECT_EQ(ShowPlan(args, out, err), code) << err.str();
  return out.str() + err.str();
}

TEST(PlanTest, SaysWhatToChange) {
  const std::vector<std::string> args = {
      "--parameters=7e9", "--workers=32", "--servers=8",   "--optimizer=adam",
      "--wire=bfloat16",  "--rule=krum",  "--byzantine=4", "--link=100Gbps"};
  const std::string table = Printed(args);
  EXPECT_THAT(table, HasSubstr("bounded by the servers' links"));
  EXPECT_THAT(table,
              HasSubstr("16 servers would make a round 0.50 times as long"));
  EXPECT_THAT(table, HasSubstr("gradients held for the rule"));
  std::vector<std::string> as_json = args;
  as_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(Printed(as_json));
  EXPECT_EQ(json["bytes_pushed"], 448'000'000'000);
  // Twice n M / S at the link's rate: nothing goes out before the decision.
  EXPECT_NEAR(json["round"]["seconds"], 2 * 448e9 / 8 / 12.5e9, 0.05);
}

TEST(PlanTest, RefusesInWords) {
  EXPECT_THAT(Printed({"--parameters=1e6", "--workers=4", "--rule=krum",
                       "--byzantine=2"},
                      2),
              HasSubstr("krum"));
  EXPECT_THAT(Printed({"--parameters=1e6", "--workers=4", "--link=fast"}, 2),
              HasSubstr("100Gbps"));
  EXPECT_THAT(Printed({"--parameters=1e6", "--workers=4", "--chunk=7"}, 2),
              HasSubstr("chunk"));
  EXPECT_THAT(
      Printed({"--parameters=1e6", "--workers=4", "--optimizer=newton"}, 2),
      HasSubstr("adamw"));
}

}  // namespace
}  // namespace parapet
