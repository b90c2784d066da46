#include "tools/audit_report.h"

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/memory_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/audit_writer.h"
#include "tests/common/temp_dir.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Reason = RoundRecord::Reason;

RoundRecord RoundOf(uint64_t round, std::vector<uint32_t> participants,
                    std::vector<double> weights = {}) {
  RoundRecord record;
  record.round = round;
  record.rule = "krum";
  record.participants = std::move(participants);
  record.weights = std::move(weights);
  return record;
}

class AuditReportTest : public ::testing::Test {
 protected:
  void Write(const std::string& end, const std::vector<RoundRecord>& records) {
    std::ofstream out(path_ + end);
    for (const RoundRecord& record : records) out << AuditLine(record) << "\n";
  }
  int Run(const std::vector<std::string>& flags) {
    std::vector<std::string> args = {path_};
    args.insert(args.end(), flags.begin(), flags.end());
    out_.str("");
    err_.str("");
    return RunAudit(args, out_, err_);
  }
  nlohmann::json Json() {
    EXPECT_EQ(Run({"--json"}), 0) << err_.str();
    return nlohmann::json::parse(out_.str());
  }

  const TempDir dir_;
  const std::string path_ = dir_ / "audit.jsonl";
  std::ostringstream out_, err_;
};

TEST_F(AuditReportTest, CountsByReasonAndInWords) {
  RoundRecord first = RoundOf(0, {0, 1}, {1, 0});
  first.left_out = {{2, Reason::kMissing, "late"},
                    {3, Reason::kNotFinite, "a NaN"}};
  first.suspicion = {{0, 0.1}, {2, 0.2}};
  RoundRecord second = RoundOf(1, {0, 2}, {0.5, 0.5});
  second.left_out = {{3, Reason::kNotFinite, "an infinity"}};
  second.abstained = {1};
  second.bad_values = {{0, 7}};
  second.suspicion = {{2, 0.3}};
  Write("", {first, second});
  const nlohmann::json all = Json();
  EXPECT_EQ(all["rounds"], 2);
  EXPECT_EQ(all["last_round"], 1);
  const nlohmann::json& w = all["workers"];
  ASSERT_EQ(w.size(), 4u);
  EXPECT_EQ(w[0]["in"], 2);
  EXPECT_EQ(w[0]["mean_weight"], 0.75);
  EXPECT_EQ(w[0]["bad_values"], 7);
  EXPECT_EQ(w[1]["unused"], 1);
  EXPECT_EQ(w[1]["abstained"], 1);
  EXPECT_EQ(w[2]["reasons"], nlohmann::json({{"missing", 1}}));
  EXPECT_EQ(w[2]["suspicion"], 0.3);
  EXPECT_EQ(w[3]["left_out"], 2);
  EXPECT_EQ(w[3]["words"], nlohmann::json({{"a NaN", 1}, {"an infinity", 1}}));
  EXPECT_FALSE(w[3].contains("mean_weight"));
}

TEST_F(AuditReportTest, TheTableBeginsWithWhoWasLeftOutMost) {
  RoundRecord record = RoundOf(4, {0});
  record.left_out = {{7, Reason::kAbsurd, "far away"}};
  record.why_bad = "x";
  Write("", {record});
  ASSERT_EQ(Run({}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("1 rounds, 4 to 4; 1 bad\n"));
  EXPECT_LT(out_.str().find("\n     7 "), out_.str().find("\n     0 "));
  EXPECT_THAT(out_.str(), HasSubstr("absurd 1\n"));
}

TEST_F(AuditReportTest, ValuesThatAreNotFiniteAreAReason) {
  RoundRecord first = RoundOf(0, {0, 1, 2});
  first.bad_values = {{1, 7}, {2, 1}};
  RoundRecord second = RoundOf(1, {1});
  second.left_out = {{2, Reason::kMissing, "late"}};
  second.bad_values = {{1, 5}};
  Write("", {first, second});
  ASSERT_EQ(Run({}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("  not finite at 12 coordinates\n"));
  EXPECT_THAT(out_.str(), HasSubstr("missing 1, not finite at 1 coordinate\n"));
}

AuditJob JobFrom(uint64_t version, const std::string& id = "j") {
  return {id, version, "krum", 1, 5};
}

TEST_F(AuditReportTest, OnlyTheLastJobCounts) {
  std::ofstream(path_ + ".3") << AuditLine(RoundOf(0, {7})) << "\n";
  std::ofstream(path_ + ".2") << AuditJobLine(JobFrom(0)) << "\n"
                              << AuditLine(RoundOf(0, {8})) << "\n"
                              << AuditLostLine(3) << "\n";
  std::ofstream(path_ + ".1") << AuditJobLine(JobFrom(0)) << "\n"
                              << AuditLine(RoundOf(0, {1})) << "\n"
                              << AuditLine(RoundOf(1, {1})) << "\n";
  std::ofstream(path_) << AuditJobLine(JobFrom(1)) << "\n"
                       << AuditLine(RoundOf(1, {1})) << "\n"
                       << AuditLine(RoundOf(2, {1})) << "\n";
  const nlohmann::json all = Json();
  EXPECT_EQ(all["earlier_jobs"], 2);
  EXPECT_EQ(all["rounds"], 4) << "before the resume, and after it";
  EXPECT_EQ(all["again"], 1);
  EXPECT_EQ(all["lost"], 0);
  ASSERT_EQ(all["workers"].size(), 1u);
  EXPECT_EQ(all["workers"][0]["worker"], 1);
  EXPECT_EQ(all["job"], "j");
  ASSERT_EQ(Run({}), 0);
  EXPECT_THAT(out_.str(),
              HasSubstr("job j: krum, f=1, 5 workers\n4 rounds, 0 to 2; 1 done "
                        "twice; 2 earlier jobs left out\n"));
}

TEST_F(AuditReportTest, AResumeOfAnotherJobIsAnotherJob) {
  std::ofstream(path_) << AuditJobLine(JobFrom(0, "a")) << "\n"
                       << AuditLine(RoundOf(0, {1})) << "\n"
                       << AuditJobLine(JobFrom(9, "b")) << "\n"
                       << AuditLine(RoundOf(9, {2})) << "\n";
  const nlohmann::json all = Json();
  EXPECT_EQ(all["earlier_jobs"], 1);
  EXPECT_EQ(all["first_round"], 9);
}

TEST_F(AuditReportTest, AJobThatHasJustBegun) {
  std::ofstream(path_) << AuditJobLine(JobFrom(0)) << "\n";
  ASSERT_EQ(Run({}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("5 workers\n0 rounds\n"));
}

// Krum uses one worker a round: the others are no worse for that.
TEST_F(AuditReportTest, WhoLiedComesBeforeWhoWasNotChosen) {
  std::vector<RoundRecord> records;
  for (uint64_t round = 0; round < 3; ++round) {
    records.push_back(RoundOf(round, {0, 1, 2, 3, 4}, {0, 0, 0, 0, 1}));
    records[round].suspicion = {{0, 0.7}, {1, 0.7}, {2, 0.9}, {3, 0.7}, {4, 0}};
  }
  records[1].bad_values = {{1, 1}};
  records.push_back(RoundOf(3, {4}, {1}));
  records[3].left_out = {{3, Reason::kAbsurd, "far away"}};
  Write("", records);
  ASSERT_EQ(Run({}), 0);
  std::vector<std::string> order;
  for (absl::string_view line : absl::StrSplit(out_.str(), '\n')) {
    if (line.size() > 6 && absl::ascii_isdigit(line[5]) && line[0] == ' ')
      order.emplace_back(line.substr(5, 1));
  }
  EXPECT_THAT(order, ElementsAre("3", "1", "2", "0", "4"));
}

TEST_F(AuditReportTest, ReadsWhatWasRotatedFirst) {
  Write(".2", {RoundOf(0, {0}), RoundOf(1, {0})});
  Write(".1", {RoundOf(2, {0})});
  Write("", {RoundOf(2, {0}), RoundOf(3, {0})});  // resumed
  const nlohmann::json all = Json();
  EXPECT_EQ(all["rounds"], 5);
  EXPECT_EQ(all["first_round"], 0);
  EXPECT_EQ(all["again"], 1);
}

TEST_F(AuditReportTest, LostRoundsAndACutLine) {
  std::ofstream(path_) << AuditLine(RoundOf(0, {0})) << "\n"
                       << AuditLostLine(9) << "\n{\"round\": 10, \"ru";
  const nlohmann::json all = Json();
  EXPECT_EQ(all["rounds"], 1);
  EXPECT_EQ(all["lost"], 9);
}

TEST_F(AuditReportTest, LinesThatCannotBeReadAreCounted) {
  std::ofstream(path_) << AuditLine(RoundOf(0, {0})) << "\nrubbish\n\n"
                       << AuditLine(RoundOf(1, {0})) << "\n";
  const nlohmann::json all = Json();
  EXPECT_EQ(all["rounds"], 2);
  EXPECT_EQ(all["cut"], 1) << "an empty line is none";
  ASSERT_EQ(Run({}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("2 rounds, 0 to 1; 1 line cut\n"));
}

TEST_F(AuditReportTest, AFileWithNothingOfAnAccountIsRefused) {
  for (const char* text : {"", "\n", "rubbish\n{}\n", "no end"}) {
    std::ofstream(path_) << text;
    EXPECT_EQ(Run({}), 1) << text;
    EXPECT_THAT(err_.str(), HasSubstr(path_ + " has no line as --audit writes"))
        << text;
  }
}

// What the writer leaves when the disk is full in the middle of a line, or at
// its beginning, and has room again later.
TEST_F(AuditReportTest, ReadsWhatAFullDiskLeft) {
  const int64_t whole = static_cast<int64_t>(AuditLine(RoundOf(0, {0})).size());
  for (int64_t more : {int64_t{0}, int64_t{9}, whole}) {
    MemoryDisk disk;
    const auto writer =
        AuditWriter::Create({.path = "/audit"}, &disk, MakeInlineExecutor(),
                            [](const std::string&) {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    disk.SetCapacity(whole + 1 + more);
    for (uint64_t round = 0; round < 4; ++round) {
      if (round == 3) disk.SetCapacity(1 << 20);
      (*writer)->Add(AuditLine(RoundOf(round, {0})));
      for (int i = 0; i < 5; ++i) (*writer)->Turn();
    }
    std::istringstream text(*ReadWholeFile(disk, "/audit", 1 << 20));
    AuditReport report;
    // Rounds 0 and 3, and the line that says how many were lost; if only the
    // end of a line did not fit, that line too.
    const uint64_t rounds = more == whole ? 3 : 2;
    EXPECT_EQ(ReadAudit(text, &report), rounds + 1) << more;
    EXPECT_EQ(report.rounds, rounds) << more;
    EXPECT_EQ(report.last_round, 3u) << more;
    EXPECT_EQ(report.lost, 2u) << more;
    EXPECT_EQ(report.cut, more == 9 ? 1u : 0u) << more;
  }
}

TEST_F(AuditReportTest, NoFile) {
  EXPECT_EQ(Run({}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("no file "));
  EXPECT_EQ(RunAudit({}, out_, err_), 2);
}

TEST_F(AuditReportTest, WordsAreKeptUpToALimit) {
  AuditReport report;
  for (int i = 0; i < 100; ++i) {
    RoundRecord record = RoundOf(i, {});
    record.left_out = {{0, Reason::kAbsurd, "norm " + std::to_string(i)}};
    report.Add(record);
  }
  EXPECT_EQ(report.workers[0].out(), 100u);
  EXPECT_EQ(report.workers[0].words.size(), 21u);
  EXPECT_EQ(report.workers[0].words["other words"], 80u);
}

}  // namespace
}  // namespace parapet
