#include "server/progress.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/json_parse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Lead::Progress Some() {
  Lead::Progress progress;
  progress.version = 120;
  progress.total = 2345;
  progress.epoch = 0;
  progress.loss = 0.43119;
  progress.samples_per_second = 31200.4;
  progress.accuracy = 0.862;
  progress.members = 4;
  progress.left_out = {3};
  return progress;
}

TEST(ProgressTest, StylesHaveNames) {
  for (bool terminal : {false, true}) {
    EXPECT_EQ(ParseProgressStyle("none", terminal), ProgressStyle::kNone);
    EXPECT_EQ(ParseProgressStyle("json", terminal), ProgressStyle::kJson);
    EXPECT_EQ(ParseProgressStyle("plain", terminal), ProgressStyle::kPlain);
    EXPECT_EQ(ParseProgressStyle("terminal", terminal),
              ProgressStyle::kTerminal);
    for (const char* other : {"auto", "", "x"}) {
      EXPECT_EQ(ParseProgressStyle(other, terminal),
                terminal ? ProgressStyle::kTerminal : ProgressStyle::kPlain);
    }
  }
}

TEST(ProgressTest, ALineSaysHowFarTheJobIs) {
  EXPECT_EQ(ProgressLine(Some()),
            "round 120/2345  epoch 1  loss 0.4312  accuracy 86.20 %  "
            "31200 samples/s  left out: worker 3");
  Lead::Progress unknown = Some();
  unknown.total = 0;
  unknown.accuracy.reset();
  unknown.left_out = {1, 2};
  EXPECT_EQ(ProgressLine(unknown),
            "round 120  epoch 1  loss 0.4312  31200 samples/s  "
            "left out: worker 1, 2");
  unknown.left_out = {};
  EXPECT_THAT(ProgressLine(unknown), Not(HasSubstr("left out")));
}

TEST(ProgressTest, ALineNamesSuspects) {
  Lead::Progress progress = Some();
  progress.suspects = {{7, 0.981}, {3, 0.5}};
  EXPECT_THAT(ProgressLine(progress),
              testing::EndsWith("  left out: worker 3  suspect: "
                                "worker 7 (98 %), worker 3 (50 %)"));
  EXPECT_EQ(ProgressJson(progress)["suspects"]["7"], 0.981);
  EXPECT_TRUE(ProgressJson(Some())["suspects"].empty());
}

TEST(ProgressTest, TheSummarySaysWhoWasStruckAndSuspect) {
  JobSummary summary;
  summary.strikes[4] = 12;
  summary.suspicion[4] = 0.75;
  const nlohmann::json json = SummaryJson(summary);
  EXPECT_EQ(json["strikes"]["4"], 12);
  EXPECT_EQ(json["suspicion"]["4"], 0.75);
}

// Words may come from a peer, and a file's name from anywhere.
TEST(ProgressTest, WordsThatAreNoTextAreStillASummary) {
  JobSummary summary;
  summary.words = "worker 1 left: \xff\xc0 bye";
  const std::string text = JsonText(SummaryJson(summary));
  const auto back = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(back.is_object());
  EXPECT_THAT(back["words"].get<std::string>(), HasSubstr("bye"));
}

TEST(ProgressTest, JsonSaysTheSame) {
  const nlohmann::json json = ProgressJson(Some());
  EXPECT_EQ(json["round"], 120);
  EXPECT_EQ(json["rounds"], 2345);
  EXPECT_EQ(json["members"], 4);
  EXPECT_EQ(json["test_accuracy"], 0.862);
  EXPECT_EQ(json["left_out"], nlohmann::json({3}));
  Lead::Progress unknown = Some();
  unknown.accuracy.reset();
  unknown.loss = std::nan("");
  EXPECT_FALSE(ProgressJson(unknown).contains("test_accuracy"));
  // A loss that is no number is null, which every reader understands.
  EXPECT_THAT(ProgressJson(unknown).dump(), HasSubstr("\"loss\":null"));
}

std::string ShownBy(ProgressStyle style, int times, absl::Duration every) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  ProgressPrinter printer(style);
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < times; ++i, now += every) printer.Show(Some(), now);
  printer.End();
  const std::string out = testing::internal::GetCapturedStdout();
  return testing::internal::GetCapturedStderr() + out;
}

int LinesIn(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(ProgressPrinterTest, PrintsALineEveryFewSeconds) {
  const std::string text =
      ShownBy(ProgressStyle::kPlain, 101, absl::Milliseconds(100));
  EXPECT_EQ(LinesIn(text), 3);  // at 0, 5 and 10 s
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(ProgressPrinterTest, WritesOverTheLineOnATerminal) {
  const std::string text =
      ShownBy(ProgressStyle::kTerminal, 21, absl::Milliseconds(100));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 11);
  EXPECT_EQ(LinesIn(text), 1);  // only the end
}

TEST(ProgressPrinterTest, JsonLinesAreJson) {
  const std::string text = ShownBy(ProgressStyle::kJson, 2, absl::Seconds(5));
  EXPECT_EQ(LinesIn(text), 2);
  EXPECT_TRUE(nlohmann::json::accept(text.substr(0, text.find('\n'))));
}

TEST(ProgressPrinterTest, NothingIsNothing) {
  EXPECT_EQ(ShownBy(ProgressStyle::kNone, 9, absl::Seconds(5)), "");
}

TEST(ProgressPrinterTest, AnEvaluationHasALineOfItsOwn) {
  testing::internal::CaptureStderr();
  ProgressPrinter printer(ProgressStyle::kTerminal);
  printer.Show(Some(), absl::UnixEpoch());
  printer.ShowEvaluation({40, 30, 90, 100, 1.25}, true);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("\nversion 40 (the last): test accuracy 90.00 %, "
                        "test loss 0.3000 (100 samples, 1.2 s)\n"));
}

TEST(SummaryTest, HasEveryNumber) {
  JobSummary summary;
  summary.complete = true;
  summary.final_loss = 0.5;
  summary.rounds = 12;
  summary.samples = 96;
  summary.weights_hash = 0xab;
  summary.phases[2] = 1.5;
  summary.left_out = {{3, 2}};
  nlohmann::json json = SummaryJson(summary);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["final_loss"], 0.5);
  EXPECT_EQ(json["rounds"], 12);
  EXPECT_EQ(json["samples"], 96);
  EXPECT_EQ(json["weights_hash"], "00000000000000ab");
  EXPECT_EQ(json["phases"]["forward"], 1.5);
  EXPECT_EQ(json["left_out"]["3"], 2);
  EXPECT_TRUE(json["test_accuracy"].is_null());
  summary.test_accuracy = 0.9;
  summary.test_loss = 0.3;
  json = SummaryJson(summary);
  EXPECT_EQ(json["test_accuracy"], 0.9);
  EXPECT_EQ(json["test_loss"], 0.3);
}

}  // namespace
}  // namespace parapet
