#include "common/trace.h"

#include <string>
#include <thread>
#include <vector>

#include "common/memory_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace parapet {
namespace {

std::string Content(MemoryDisk& disk, const std::string& path) {
  auto text = ReadWholeFile(disk, path, 1 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

nlohmann::json Written(const Trace& trace) {
  MemoryDisk disk;
  const absl::Status status = trace.Write(disk, "trace.json");
  EXPECT_TRUE(status.ok()) << status;
  return nlohmann::json::parse(Content(disk, "trace.json"));
}

absl::Time At(double microseconds) {
  return absl::UnixEpoch() + absl::Microseconds(microseconds);
}

TEST(TraceTest, NamesItsProcess) {
  const nlohmann::json json = Written(Trace("worker 3", 7, 10));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["ph"], "M");
  EXPECT_EQ(json[0]["name"], "process_name");
  EXPECT_EQ(json[0]["pid"], 7);
  EXPECT_EQ(json[0]["args"]["name"], "worker 3");
}

TEST(TraceTest, ASpanHasItsNameItsThreadAndItsTime) {
  Trace trace("server 0", 1, 10);
  trace.Span("reduce", 12, 2, At(1000.5), At(1250));
  const nlohmann::json json = Written(trace);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["name"], "reduce 12");
  EXPECT_EQ(json[1]["ph"], "X");
  EXPECT_EQ(json[1]["pid"], 1);
  EXPECT_EQ(json[1]["tid"], 2);
  EXPECT_DOUBLE_EQ(json[1]["ts"].get<double>(), 1000.5);
  EXPECT_DOUBLE_EQ(json[1]["dur"].get<double>(), 249.5);
}

// After a month a microsecond still counts.
TEST(TraceTest, LateTimesAreExact) {
  Trace trace("server 0", 1, 10);
  const double late = 30.0 * 24 * 3600 * 1e6;
  trace.Span("reduce", 0, 0, At(late), At(late + 1));
  const nlohmann::json json = Written(trace);
  EXPECT_DOUBLE_EQ(json[1]["ts"].get<double>(), late);
  EXPECT_DOUBLE_EQ(json[1]["dur"].get<double>(), 1);
}

TEST(TraceTest, KeepsTheFirstEvents) {
  Trace trace("server 0", 1, 3);
  for (int i = 0; i < 100; ++i) trace.Span("step", i, 0, At(i), At(i + 1));
  const nlohmann::json json = Written(trace);
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[3]["name"], "step 2");
}

TEST(TraceTest, ThreadsMayWrite) {
  Trace trace("server 0", 1, 10000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&trace, t] {
      for (int i = 0; i < 500; ++i) trace.Span("step", i, t, At(i), At(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Written(trace).size(), 2001u);
}

TEST(TraceTest, ADiskThatFailsIsAnError) {
  MemoryDisk disk;
  disk.FailAfter(0);
  EXPECT_FALSE(Trace("server 0", 1, 1).Write(disk, "trace.json").ok());
}

}  // namespace
}  // namespace parapet
