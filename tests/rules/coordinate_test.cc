#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/rules/aggregate.h"

namespace parapet::rules {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Rows Column(const std::vector<float>& values) {
  Rows rows;
  for (float value : values) rows.push_back({value});
  return rows;
}

float One(const std::string& rule, const std::vector<float>& values, int f) {
  return MustAggregate({rule, Column(values), f}).values[0];
}

TEST(CoordinateTest, TiesTakeTheSmallerValue) {
  EXPECT_EQ(One("meamed", {1, 2, 3}, 1), 1.5f);
  EXPECT_EQ(One("phocas", {1, 2, 3}, 1), 1.5f);
  EXPECT_EQ(One("meamed", {3, 1, 2, 0, 4}, 2), 1 + 0.0f + 1.0f);  // 1, 2, 3
}

TEST(CoordinateTest, SignVote) {
  EXPECT_EQ(One("sign_vote", {3, -1, 2}, 1), 1);
  EXPECT_EQ(One("sign_vote(0.25)", {-3, -1, 2}, 1), -0.25f);
  EXPECT_EQ(One("sign_vote", {3, -1, 0}, 1), 0);
}

TEST(CoordinateTest, HugeAndTinyValues) {
  EXPECT_EQ(One("mean", {3e38f, 3e38f, 3e38f, 3e38f}, 0), 3e38f);
  for (const char* rule :
       {"mean", "median", "trimmed_mean", "meamed", "phocas", "krum",
        "nnm + trimmed_mean", "geometric_median", "mda"}) {
    EXPECT_EQ(One(rule, {3e38f, 3e38f, 3e38f, 3e38f, 3e38f}, 1), 3e38f) << rule;
    EXPECT_EQ(One(rule, {1e-38f, 1e-38f, 1e-38f, 1e-38f, 1e-38f}, 1), 1e-38f)
        << rule;
    EXPECT_EQ(One(rule, {-1e-45f, -1e-45f, -1e-45f, -1e-45f, -1e-45f}, 1),
              -1e-45f)
        << rule;
  }
}

TEST(CoordinateTest, ZeroIsPositive) {
  for (const char* rule :
       {"mean", "median", "trimmed_mean", "meamed", "sign_vote", "krum"}) {
    EXPECT_FALSE(std::signbit(One(rule, {-0.0f, 0.0f, -0.0f, -0.0f, 0.0f}, 1)))
        << rule;
  }
}

TEST(CoordinateTest, NotFiniteLowersNAndFThere) {
  // Without the NaN: n = 4, f = 0.
  EXPECT_EQ(One("trimmed_mean", {1, 2, kNan, 3, 6}, 1), 3);
  EXPECT_EQ(One("median", {1, kInf, 2, 4, 6}, 1), 3);
  EXPECT_EQ(One("meamed", {1, -kInf, 2, 4, 5}, 1), 3);
  EXPECT_EQ(One("mean", {1, kNan, 2, kInf, 6}, 0), 3);
}

TEST(CoordinateTest, TooFewFiniteGiveZero) {
  const Rows rows = {{1, 1}, {kNan, 2}, {kInf, 3}, {4, 4}, {5, kNan}};
  const Outcome outcome = MustAggregate({"median", rows, 1});
  EXPECT_EQ(outcome.values, (std::vector<float>{0, 2.5}));
  EXPECT_EQ(outcome.report.bad_coordinates, 1);
  EXPECT_EQ(outcome.report.first_bad, 0);
  EXPECT_EQ(outcome.report.bad_values, (std::vector<int64_t>{0, 1, 1, 0, 1}));
  EXPECT_EQ(One("mean", {kNan, kInf}, 0), 0);
  EXPECT_EQ(One("median", {1, 2, kNan}, 0), 0);  // fewer than n - 0 are finite
}

TEST(CoordinateTest, NeighboursKeepTheirBits) {
  const Rows clean = NormalRows(7, 300, 3);
  Rows dirty = clean;
  dirty[2][70] = kNan;
  dirty[4][200] = kInf;
  for (const char* rule :
       {"mean", "median", "trimmed_mean", "meamed", "phocas", "sign_vote"}) {
    const auto a = MustAggregate({rule, clean, 2}).values,
               b = MustAggregate({rule, dirty, 2}).values;
    for (int j = 0; j < 300; ++j) {
      if (j == 70 || j == 200) continue;
      ASSERT_EQ(a[j], b[j]) << rule << " " << j;
    }
    EXPECT_TRUE(std::isfinite(b[70]) && std::isfinite(b[200]));
  }
}

TEST(CoordinateTest, TheCutIntoRangesDoesNotMatter) {
  Round round{"", NormalRows(9, 1000, 5), 2};
  round.rows[3][411] = kNan;
  for (const char* rule :
       {"mean", "trimmed_mean", "phocas", "nnm + meamed", "geometric_median"}) {
    round.rule = rule;
    round.leaf = 1000;
    const auto whole = MustAggregate(round).values;
    // Distances are summed in leaves, so the plan of a distance rule is made
    // once.
    const Outcome outcome = MustAggregate(round);
    std::vector<float> cut(1000);
    for (int64_t begin = 0; begin < 1000; begin += 37) {
      const auto rows = Pointers(round.rows, begin);
      ApplyPlan(Cpu(), outcome.plan,
                {rows, {}, nullptr, std::min<int64_t>(37, 1000 - begin)},
                &cut[begin]);
    }
    EXPECT_EQ(whole, cut) << rule;
  }
}

TEST(CoordinateTest, SamplesWeightAMeanByItselfOnly) {
  const Rows rows = {{1}, {2}, {kNan}, {100}};
  const std::vector<double> samples = {3, 1, 8, 0};
  const auto apply = [&](const char* rule) {
    RoundFacts facts{{0, 1, 2, 3}};
    const Plan plan = MakePlan(*Chain::Parse(rule), facts);
    std::vector<const float*> pointers = Pointers(rows);
    float out = -1;
    ApplyPlan(Cpu(), plan, {pointers, samples, nullptr, 1}, &out);
    return out;
  };
  EXPECT_EQ(apply("mean"), 1.25f);
  EXPECT_EQ(apply("mean(unweighted)"), 103.0f / 3);
}

TEST(CoordinateTest, RowsOfNoWeightAreNotRead) {
  const Plan mean = MakePlan(*Chain::Parse("mean"), RoundFacts{{0, 1}});
  const float value = 7;
  const std::vector<const float*> rows = {nullptr, &value};
  const std::vector<double> samples = {0, 4};
  float out = 0;
  ApplyPlan(Cpu(), mean, {rows, samples, nullptr, 1}, &out);
  EXPECT_EQ(out, 7);
}

}  // namespace
}  // namespace parapet::rules
