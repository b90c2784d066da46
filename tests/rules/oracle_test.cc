// Results worked out elsewhere, by hand or by other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rules/aggregate.h"

namespace parapet::rules {
namespace {

// X[i][j] = ((37 i^2 + 11 i j + 5 j^2 + 3 i + 7 j) mod 101) / 10, then row 9
// times -10 and row 10 times 20; both also times `outliers`.
Rows Formula(double outliers = 1) {
  Rows rows(11, std::vector<float>(4));
  for (int i = 0; i < 11; ++i) {
    const double factor = i == 9 ? -10 * outliers : i == 10 ? 20 * outliers : 1;
    for (int j = 0; j < 4; ++j) {
      const int value =
          (37 * i * i + 11 * i * j + 5 * j * j + 3 * i + 7 * j) % 101;
      rows[i][j] = static_cast<float>(value / 10.0 * factor);
    }
  }
  return rows;
}

struct Oracle {
  std::string rule;
  std::vector<double> expected;
  std::vector<float> prev = {};
};

// Values up to 200 lie in float32, good to 6e-8 of themselves; distances are
// good to 1e-7 or so. The rules that weight rows by distances carry that to the
// result.
constexpr double kTolerance = 4e-6;

void Check(const Round& round, const std::vector<double>& expected) {
  const Outcome outcome = MustAggregate(round);
  ASSERT_EQ(outcome.values.size(), expected.size()) << round.rule;
  for (size_t j = 0; j < expected.size(); ++j) {
    EXPECT_NEAR(outcome.values[j], expected[j], kTolerance)
        << round.rule << " [" << j << "]";
  }
}

const std::vector<double> kMeanOfNine = {4.266666667, 5.377777778, 4.122222222,
                                         6.111111111};

TEST(OracleTest, RulesThatKeepRows0To8) {
  for (const char* rule : {"mda", "smea", "cge", "faba", "meamed", "phocas",
                           "dnc", "monna(0)", "multi_krum(m=9)", "nnm + krum",
                           "nnm + trimmed_mean", "nnm + median"}) {
    Check({rule, Formula(), 2}, kMeanOfNine);
  }
}

TEST(OracleTest, Formula) {
  const Rows rows = Formula();
  const std::vector<Oracle> oracles = {
      {"krum", {5.3, 8.7, 3, 8.4}},
      {"multi_krum(m=7)", {3.842857143, 6.085714286, 5, 6.357142857}},
      {"multi_krum", {3.842857143, 6.085714286, 5, 6.357142857}},
      {"multi_krum(m=4)", {4.825, 7.9, 6.925, 6.95}},
      {"median", {3.9, 6.3, 3.4, 6.6}},
      {"trimmed_mean", {4.071428571, 5.457142857, 3.914285714, 6.414285714}},
      {"bulyan", {3.866666667, 7.166666667, 3.4, 7.0}},
      {"geometric_median(nu=0.1, iterations=3, start=zero)",
       {4.031604087, 5.462312612, 4.253327075, 6.328589799}},
      {"geometric_median(nu=0.1, iterations=3, start=mean)",
       {4.408735026, 6.011560679, 4.522092165, 6.630269842}},
      {"geometric_median",
       {4.361243696, 6.003303021, 4.542868155, 6.561070417}},
      {"centered_clip(tau=5, iterations=3)",
       {3.082600871, 4.124313047, 3.285361023, 4.997047376}},
      {"centered_clip(tau=5, iterations=3)",
       {4.498319816, 6.069493323, 4.491513048, 6.704946277},
       rows[2]},
      {"nnm + centered_clip(tau=5, iterations=3)",
       {4.199610439, 5.401087319, 4.187632268, 6.188142309},
       rows[2]},
      {"caf", {4.256168299, 5.373852506, 4.120793456, 6.101479287}},
      {"fltrust(0)", {3.016540296, 2.821801675, 2.585486009, 4.583884049}},
      {"nnm + geometric_median(nu=0.1, iterations=3, start=zero)",
       {4.265061491, 5.378082036, 4.123626103, 6.112531273}},
      {"arc + trimmed_mean",
       {4.021395453, 4.383865796, 3.504877634, 6.332129783}},
      {"arc + nnm + median",
       {4.937500894, 5.339427111, 4.414904826, 6.991656498}},
      {"clip(5) + mean", {1.333188035, 1.777669266, 1.418394949, 2.170720498}},
      {"clip(5) + nnm + trimmed_mean",
       {1.894605469, 1.919457578, 1.698169162, 2.683407651}},
  };
  for (const Oracle& oracle : oracles)
    Check({oracle.rule, rows, 2, oracle.prev}, oracle.expected);
}

TEST(OracleTest, Bucketing) {
  Round round{"bucketing(2) + trimmed_mean", Formula(), 2};
  round.permutation = {3, 0, 10, 1, 4, 9, 7, 2, 8, 6, 5};
  Check(round, {3.275, 4.675, 3.75, 5.35});
}

TEST(OracleTest, KrumScoresAndOrder) {
  const Outcome outcome = MustAggregate({"multi_krum(m=9)", Formula(), 2});
  const std::vector<double> expected = {570.90, 544.30, 391.69, 611.44, 633.83,
                                        487.05, 632.72, 830.75, 475.55};
  const StageNote& note = outcome.plan.notes.back();
  ASSERT_EQ(note.scores.size(), 11u);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(note.scores[i], expected[i], 5e-4);
  EXPECT_LT(note.scores[9], note.scores[10]);
  EXPECT_THAT(note.selected, testing::ElementsAre(2, 8, 5, 1, 0, 3, 6, 4, 7));
}

TEST(OracleTest, BulyanPicks) {
  const Outcome outcome = MustAggregate({"bulyan", Formula(), 2});
  EXPECT_THAT(outcome.plan.notes.back().selected,
              testing::ElementsAre(2, 8, 0, 3, 5, 6, 1));
}

// The last row of a plan on rows, in float64.
std::vector<double> LastMixedRow(const Round& round) {
  const Outcome outcome = MustAggregate(round);
  const Mixing& mixing = outcome.plan.mixing;
  std::vector<double> mixed(round.rows[0].size());
  for (size_t i = 0; i < round.rows.size(); ++i) {
    const double weight = mixing.at(mixing.rows - 1, static_cast<int>(i));
    for (size_t j = 0; j < mixed.size(); ++j)
      mixed[j] += weight * round.rows[i][j];
  }
  return mixed;
}

void CheckLastRow(const Round& round, const std::vector<double>& expected) {
  const std::vector<double> mixed = LastMixedRow(round);
  for (size_t j = 0; j < expected.size(); ++j) {
    EXPECT_NEAR(mixed[j], expected[j], kTolerance * 4)
        << round.rule << " [" << j << "]";
  }
}

TEST(OracleTest, MixedRows) {
  CheckLastRow({"nnm + median", Formula(), 2},
               {24.977777778, 8.444444444, 14.1, 25.111111111});
  CheckLastRow({"clip(5) + median", Formula(), 2},
               {3.459906535, 0.515305229, 1.656338235, 3.165446405});
}

TEST(OracleTest, ThreeRows) {
  const Rows rows = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  Check({"geometric_median(nu=0.1, iterations=3, start=zero)", rows, 1},
        {3.78788764, 4.78788764, 5.78788764});
  CheckLastRow({"arc + median", rows, 1}, {4.41004009, 5.04004582, 5.67005155});
}

TEST(OracleTest, OneDimension) {
  // 6 or 1 would betray a wrong neighbour count or distances that are not
  // squared.
  Check({"krum", {{0}, {1}, {6}, {9}, {13}}, 1}, {9});
  Check({"trimmed_mean", {{0.9f}, {1}, {1.1f}, {1.2f}, {1e10f}}, 1}, {1.1});
  CheckLastRow({"nnm + median", {{0}, {1}, {10}}, 1}, {5.5});
  Check({"nnm + median", {{0}, {1}, {10}}, 1}, {0.5});
  Check({"mda", {{0}, {1}, {2}, {3}, {10}}, 2}, {1});
  Check({"mda", {{0}, {4}, {1}, {3}, {2}, {9}}, 2}, {1.5});
}

TEST(OracleTest, FewDimensions) {
  Check({"median", {{1, 2, 3}, {-1, 4, -1}, {2, 2, 3}, {3, 1, 3}}, 1},
        {1.5, 2, 3});
  Check({"meamed", {{-10, 0}, {1, 100}, {2, 2}, {3, -100}, {100, 1}}, 2},
        {2, 1});
  Check({"smea", {{0, 0}, {1, 0}, {0, 1}, {6, 6}}, 1}, {1.0 / 3, 1.0 / 3});
  const Rows rows = {{1, 2, 3}, {2, 1, 4},    {0, 3, 2.5},  {1, 1.5, 5},
                     {3, 2, 2}, {2, 4, 3.25}, {50, -40, 30}};
  Check({"caf", rows, 1}, {1.503845820, 2.245171176, 3.294508234});
}

TEST(OracleTest, AbsurdRowsAreLeftOut) {
  const Rows rows = Formula(1e30);
  Check({"clip(5) + krum", rows, 2},
        {2.202775924, 2.170851635, 2.458170233, 3.064731720});
  const Round round{"geometric_median(nu=0.1, iterations=100, start=zero)",
                    rows, 2};
  Check(round, {4.448364249, 5.998623149, 4.468760638, 6.467558700});
  const Outcome outcome = MustAggregate(round);
  ASSERT_EQ(outcome.plan.left_out.size(), 2u);
  EXPECT_EQ(outcome.plan.left_out[0].worker, 9);
  EXPECT_EQ(outcome.plan.left_out[1].worker, 10);
  EXPECT_EQ(outcome.plan.left_out[0].fault, Fault::kAbsurd);
  EXPECT_FALSE(outcome.plan.bad);
}

}  // namespace
}  // namespace parapet::rules
