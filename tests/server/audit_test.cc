#include "server/audit.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RoundRecord Some() {
  RoundRecord record;
  record.round = 12;
  record.rule = "nnm + krum";
  record.f = 2;
  record.participants = {0, 1, 3};
  record.left_out = {{2, RoundRecord::Reason::kAbsurd, "sent a vector"},
                     {5, RoundRecord::Reason::kMissing, "late"}};
  record.abstained = {6};
  record.exceptions = {{1, {5, 2, 3}}};
  record.bad_values = {{1, uint64_t{1} << 40}};
  record.strikes = {{1, Code::kEquivocation, 2}, {4, Code::kStopped, 1}};
  record.bad_coordinates = 7;
  record.carried = true;
  record.why_bad = "two of three";
  record.weights = {0.1, 1.0 / 3, 0};
  record.stages = {{"nnm", {0, 1, 3}, false, {}, {}, {}},
                   {"krum", {0, 1}, true, {1.5, 0.25}, {1}, {0.5, 1}}};
  record.suspicion = {{0, 0.125}, {2, 1}};
  return record;
}

TEST(AuditTest, ALineSaysAllThatIsKnownOfARound) {
  const std::string line = AuditLine(Some());
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const auto entry = ParseAuditLine(line);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->lost, 0u);
  const RoundRecord& r = entry->record;
  EXPECT_EQ(r.round, 12u);
  EXPECT_EQ(r.rule, "nnm + krum");
  EXPECT_EQ(r.f, 2);
  EXPECT_EQ(r.participants, Some().participants);
  ASSERT_EQ(r.left_out.size(), 2u);
  EXPECT_EQ(r.left_out[0].worker, 2u);
  EXPECT_EQ(r.left_out[0].reason, RoundRecord::Reason::kAbsurd);
  EXPECT_EQ(r.left_out[0].why, "sent a vector");
  EXPECT_EQ(r.left_out[1].reason, RoundRecord::Reason::kMissing);
  EXPECT_EQ(r.abstained, Some().abstained);
  ASSERT_EQ(r.exceptions.size(), 1u);
  EXPECT_EQ(r.exceptions[0].shard, 1);
  EXPECT_EQ(r.exceptions[0].what.worker, 5u);
  EXPECT_EQ(r.exceptions[0].what.first_turn, 2u);
  EXPECT_EQ(r.exceptions[0].what.last_turn, 3u);
  ASSERT_EQ(r.bad_values.size(), 1u);
  EXPECT_EQ(r.bad_values[0].values, uint64_t{1} << 40);
  ASSERT_EQ(r.strikes.size(), 2u);
  EXPECT_EQ(r.strikes[0].worker, 1u);
  EXPECT_EQ(r.strikes[0].code, Code::kEquivocation);
  EXPECT_EQ(r.strikes[0].count, 2u);
  EXPECT_EQ(r.strikes[1].code, Code::kStopped);
  EXPECT_EQ(r.bad_coordinates, 7u);
  EXPECT_TRUE(r.carried);
  EXPECT_EQ(r.why_bad, "two of three");
  EXPECT_EQ(r.weights, Some().weights) << "numbers read back exactly";
  ASSERT_EQ(r.stages.size(), 2u);
  EXPECT_EQ(r.stages[1].stage, "krum");
  EXPECT_EQ(r.stages[1].rows, Some().stages[1].rows);
  EXPECT_TRUE(r.stages[1].buckets);
  EXPECT_EQ(r.stages[1].scores, Some().stages[1].scores);
  EXPECT_EQ(r.stages[1].selected, Some().stages[1].selected);
  EXPECT_EQ(r.stages[1].trust, Some().stages[1].trust);
  ASSERT_EQ(r.suspicion.size(), 2u);
  EXPECT_EQ(r.suspicion[1].worker, 2u);
  EXPECT_EQ(r.suspicion[1].rate, 1);
}

TEST(AuditTest, WhatIsNoNumberOrNoTextIsStillALine) {
  RoundRecord record = Some();
  record.stages[1].scores = {std::numeric_limits<double>::infinity(), 2};
  record.left_out[0].why = "\xff\xfe said worker 2";
  const auto entry = ParseAuditLine(AuditLine(record));
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_TRUE(std::isnan(entry->record.stages[1].scores[0]));
  EXPECT_EQ(entry->record.stages[1].scores[1], 2);
  EXPECT_THAT(entry->record.left_out[0].why, HasSubstr("said worker 2"));
}

TEST(AuditTest, StrikesMayBeMissingButNotUnknown) {
  std::string line = AuditLine(Some());
  const auto replace = [](std::string text, const std::string& what,
                          const std::string& with) {
    return text.replace(text.find(what), what.size(), with);
  };
  const auto entry =
      ParseAuditLine(replace(line, "\"strikes\":", "\"other\":"));
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_TRUE(entry->record.strikes.empty());
  for (const char* other : {"\"ok\"", "\"unknown\"", "7"}) {
    EXPECT_FALSE(ParseAuditLine(replace(line, "\"equivocation\"", other)).ok())
        << other;
  }
  EXPECT_FALSE(
      ParseAuditLine(replace(line, "\"strikes\":[", "\"strikes\":[7,")).ok());
}

TEST(AuditTest, LostRoundsAreCounted) {
  const auto entry = ParseAuditLine(AuditLostLine(7));
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->lost, 7u);
}

TEST(AuditTest, AJobIsNamed) {
  const std::string line = AuditJobLine({"a \"b\" c", 7, "nnm + krum", 2, 9});
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const auto entry = ParseAuditLine(line);
  ASSERT_TRUE(entry.ok()) << entry.status();
  ASSERT_TRUE(entry->job);
  EXPECT_EQ(entry->job->job, "a \"b\" c");
  EXPECT_EQ(entry->job->from, 7u);
  EXPECT_EQ(entry->job->rule, "nnm + krum");
  EXPECT_EQ(entry->job->f, 2);
  EXPECT_EQ(entry->job->workers, 9);
  EXPECT_FALSE(ParseAuditLine(AuditLine(Some()))->job);
  for (const char* other :
       {R"({"job":1,"from":0,"rule":"m","f":0,"workers":1})",
        R"({"job":"j","from":-1,"rule":"m","f":0,"workers":1})",
        R"({"job":"j","from":0,"f":0,"workers":1})",
        R"({"job":"j","from":0,"rule":"m","f":4294967296,"workers":1})",
        R"({"job":"j","from":0,"rule":"m","f":0})"}) {
    EXPECT_FALSE(ParseAuditLine(other).ok()) << other;
  }
}

// Every line cut short, and every member missing or of another kind, is
// refused without a crash.
TEST(AuditTest, OtherLinesAreRefused) {
  const std::string line = AuditLine(Some());
  for (size_t size = 0; size < line.size(); ++size) {
    EXPECT_FALSE(ParseAuditLine(line.substr(0, size)).ok()) << size;
  }
  for (const char* other :
       {"", "[]", "7", "null", "{}", "{\"lost\":0}", "{\"lost\":-1}"}) {
    EXPECT_FALSE(ParseAuditLine(other).ok()) << other;
  }
  for (const char* key :
       {"round", "rule", "f", "participants", "left_out", "abstained",
        "exceptions", "bad_values", "bad_coordinates", "carried", "why_bad",
        "weights", "stages", "suspicion"}) {
    std::string renamed = line;
    const std::string quoted = absl::StrCat("\"", key, "\":");
    renamed.replace(renamed.find(quoted), 2, "\"_");
    EXPECT_FALSE(ParseAuditLine(renamed).ok()) << key;
  }
}

}  // namespace
}  // namespace parapet
