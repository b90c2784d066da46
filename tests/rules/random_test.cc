// Every rule and chain against the naive float64 reference, for n from 1 to 40,
// odd d, and every f that the limits allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "server/rules/chain.h"
#include "tests/rules/aggregate.h"
#include "tests/rules/reference.h"

namespace parapet::rules {
namespace {

struct Step {
  std::string name;  // in the reference
  double option = 0;
  std::string text = "";  // in the grammar; empty: the name
  std::string Text() const { return text.empty() ? name : text; }
  friend void PrintTo(const Step& step, std::ostream* out) {
    *out << step.Text();
  }
};

std::string ChainText(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps)
    absl::StrAppend(&text, text.empty() ? "" : " + ", step.Text());
  return text;
}

// Each value times 1 + noise * a number in [-1, 1).
reference::Matrix Disturbed(reference::Matrix x, double noise, Random& random) {
  for (reference::Vector& row : x) {
    for (double& value : row) value *= 1 + noise * (2 * random.Uniform() - 1);
  }
  return x;
}

// What the reference makes of a round, with noise on the rows before every
// step.
reference::Vector Expected(const std::vector<Step>& steps, const Round& round,
                           double noise = 0, uint64_t seed = 0) {
  Random random(seed);
  reference::Matrix x;
  for (const auto& row : round.rows) x.emplace_back(row.begin(), row.end());
  const reference::Vector prev(round.prev.begin(), round.prev.end());
  for (size_t k = 0; k + 1 < steps.size(); ++k) {
    x = reference::Mix(steps[k].name, Disturbed(x, noise, random), round.f,
                       steps[k].option);
  }
  x = Disturbed(x, noise, random);
  return reference::Rule(steps.back().name, x, round.f, steps.back().option,
                         prev);
}

double Largest(const Round& round) {
  double most = 0;
  for (const auto& row : round.rows) {
    for (float value : row)
      most = std::max(most, std::abs(static_cast<double>(value)));
  }
  return most;
}

// Distances are sums of squares in float32 of 16 terms a lane, so good to about
// 16 * 2^-24 = 1e-6 at the worst, and rules that weight by them carry that to
// the result, in units of the rows.
constexpr double kTolerance = 4e-6;

double Difference(const Outcome& outcome, const reference::Vector& expected) {
  double most = 0;
  for (size_t j = 0; j < expected.size(); ++j) {
    most = std::max(most, std::abs(outcome.values[j] - expected[j]));
  }
  return most;
}

// A choice can hang on less than a rounding (nnm makes rows that are equally
// far apart). Then one of the answers that the reference gives when its rows
// move in their last digits must do.
bool AgreesOnATie(const std::vector<Step>& steps, const Round& round,
                  const Outcome& outcome, double tolerance) {
  for (uint64_t seed = 0; seed < 64; ++seed) {
    if (Difference(outcome, Expected(steps, round, 1e-7, seed)) <= tolerance)
      return true;
  }
  return false;
}

// Counts in `ties` the rounds that hang on one; where `exact` there is none.
void Compare(const std::vector<Step>& steps, Round round, bool exact,
             int& ties) {
  round.rule = ChainText(steps);
  const Outcome outcome = MustAggregate(round);
  const reference::Vector expected = Expected(steps, round);
  ASSERT_EQ(outcome.values.size(), expected.size());
  // Below the least normal number float32 itself is coarse.
  const double tolerance = std::max(kTolerance * Largest(round), 1e-45);
  const double difference = Difference(outcome, expected);
  if (difference <= tolerance) return;
  ASSERT_TRUE(!exact && AgreesOnATie(steps, round, outcome, tolerance))
      << round.rule << " n=" << round.rows.size() << " f=" << round.f
      << " d=" << expected.size() << ": differs by " << difference << ", over "
      << tolerance;
  ++ties;
}

// Small whole numbers: distances are exact everywhere, so ties are ties.
Rows WholeRows(int n, int d, uint64_t seed) {
  Random random(seed);
  Rows rows(n, std::vector<float>(d));
  for (auto& row : rows) {
    for (float& value : row) value = static_cast<float>(random.Below(5)) - 2;
  }
  return rows;
}

using MakeRows = Rows (*)(int n, int d, uint64_t seed);

// f liars, far away or close by.
void Corrupt(Round& round, uint64_t seed) {
  Random random(seed);
  const uint64_t first = random.Below(round.rows.size());
  for (int k = 0; k < round.f; ++k) {
    auto& row = round.rows[(first + 2 * k) % round.rows.size()];
    const float factor = random.Below(2) == 0 ? -30.0f : 3.0f;
    for (float& value : row) value *= factor;
  }
}

bool Affordable(const std::vector<Step>& steps, int n, int f) {
  const std::string& rule = steps.back().name;
  return (rule != "smea" && rule != "mda") ||
         reference::Subsets(n, f) <= (rule == "mda" ? 5000 : 300);
}

constexpr uint64_t kSeed = 20240611;

std::vector<int> EveryN() {
  std::vector<int> all(40);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

// Every f of these n; d in turn 1, 3, 5, 7 (the reference's covariance is
// d x d). Where `sparse`, some f only, for time.
void CompareAll(const std::vector<Step>& steps, MakeRows make, bool exact,
                const std::vector<int>& ns = EveryN(), bool sparse = false) {
  const Chain chain = *Chain::Parse(ChainText(steps));
  int ties = 0, tried = 0;
  for (int n : ns) {
    for (int f = 0; 2 * f < n; ++f) {
      if (sparse && n > 12 && f > 1 && f % 4 != n % 4 && 2 * f + 2 < n)
        continue;
      if (!chain.CheckJob(n, f).ok() || !Affordable(steps, n, f)) continue;
      const uint64_t seed = MixKey(kSeed, n * 100 + f);
      const int d = 1 + 2 * static_cast<int>(seed % 4);
      Round round{"", make(n, d, seed), f};
      round.prev = make(1, d, seed + 1)[0];
      Corrupt(round, seed);
      round.permutation.resize(n);
      for (int i = 0; i < n; ++i)
        round.permutation[i] = i;  // the reference's order
      SCOPED_TRACE(absl::StrCat("seed ", seed));
      Compare(steps, round, exact, ties);
      if (testing::Test::HasFatalFailure()) return;
      ++tried;
    }
  }
  EXPECT_GE(tried, 20) << ChainText(steps);
  EXPECT_LE(ties, tried / 10) << ChainText(steps) << " of " << tried;
}

const Step kNnm{"nnm"}, kArc{"arc"}, kClip{"clip", 2, "clip(2.0)"},
    kBuckets{"bucketing", 2, "bucketing(2)"};
const Step kWeiszfeld{"geometric_median", 0,
                      "geometric_median(nu=0.1, iterations=3)"};
const Step kCenteredClip{"centered_clip", 2, "centered_clip(tau=2)"};

class RuleTest : public testing::TestWithParam<Step> {};

TEST_P(RuleTest, RealNumbers) { CompareAll({GetParam()}, NormalRows, false); }

// A few n will do for what has nothing to do with n.
const std::vector<int> kSomeN = {1, 2, 3, 5, 7, 8, 11, 13, 16, 23, 31, 40};

// Up to 2.7e38, with the liars' factor of 30: squares and sums of them are far
// beyond float32.
Rows HugeRows(int n, int d, uint64_t seed) {
  Rows rows = NormalRows(n, d, seed);
  for (auto& row : rows) {
    for (float& value : row) value = std::fmod(value, 3.0f) * 3e36f;
  }
  return rows;
}

// About the least normal number: many are below it.
Rows TinyRows(int n, int d, uint64_t seed) {
  Rows rows = NormalRows(n, d, seed);
  for (auto& row : rows) {
    for (float& value : row) value *= 1e-38f;
  }
  return rows;
}

// Each row twice.
Rows DuplicateRows(int n, int d, uint64_t seed) {
  Rows rows = NormalRows(n, d, seed);
  for (int i = 1; i < n; i += 2) rows[i] = rows[i - 1];
  return rows;
}

TEST_P(RuleTest, HugeValues) {
  CompareAll({GetParam()}, HugeRows, false, kSomeN);
}
TEST_P(RuleTest, TinyValues) {
  CompareAll({GetParam()}, TinyRows, false, kSomeN);
}
// (Under caf a rounding decides whether of two equal rows, the farthest, one
// keeps a weight of 1e-16, and with it the next pass: that is nobody's to say.)
TEST_P(RuleTest, Duplicates) {
  if (GetParam().name != "caf")
    CompareAll({GetParam()}, DuplicateRows, false, kSomeN);
}

INSTANTIATE_TEST_SUITE_P(
    All, RuleTest,
    testing::Values(Step{"mean"}, Step{"median"}, Step{"trimmed_mean"},
                    Step{"meamed"}, Step{"phocas"}, Step{"sign_vote"},
                    Step{"krum"}, Step{"multi_krum"},
                    Step{"multi_krum", 3, "multi_krum(m=3)"}, Step{"bulyan"},
                    Step{"mda"}, Step{"smea"}, kWeiszfeld, kCenteredClip,
                    Step{"cge"}, Step{"faba"}, Step{"caf"},
                    Step{"monna", 0, "monna(0)"},
                    Step{"fltrust", 0, "fltrust(0)"}, Step{"dnc"}),
    [](const auto& parameter) {
      return absl::StrCat(
          parameter.param.name,
          parameter.param.name == "multi_krum" ? parameter.param.option : 0);
    });

// Ties go to the lowest worker; duplicates are neighbours of each other.
// (phocas, caf, dnc and smea compare numbers that are rounded even for whole
// rows: what ties there is nobody's to say.)
class TieTest : public testing::TestWithParam<Step> {};

TEST_P(TieTest, WholeNumbers) { CompareAll({GetParam()}, WholeRows, true); }

INSTANTIATE_TEST_SUITE_P(
    All, TieTest,
    testing::Values(Step{"mean"}, Step{"median"}, Step{"trimmed_mean"},
                    Step{"meamed"}, Step{"sign_vote"}, Step{"krum"},
                    Step{"multi_krum"}, Step{"bulyan"}, Step{"mda"}, kWeiszfeld,
                    kCenteredClip, Step{"cge"}, Step{"faba"},
                    Step{"monna", 0, "monna(0)"},
                    Step{"fltrust", 0, "fltrust(0)"}),
    [](const auto& parameter) { return parameter.param.name; });

class ChainTest : public testing::TestWithParam<std::vector<Step>> {};

TEST_P(ChainTest, RealNumbers) {
  CompareAll(GetParam(), NormalRows, false, EveryN(), /*sparse=*/true);
}

std::vector<std::vector<Step>> Chains() {
  std::vector<std::vector<Step>> chains;
  const std::vector<Step> last = {
      {"mean"}, {"median"},     {"trimmed_mean"}, {"meamed"}, {"phocas"},
      {"krum"}, {"multi_krum"}, {"bulyan"},       {"cge"},    {"mda"},
      {"caf"},  kWeiszfeld,     kCenteredClip};
  for (const Step& before : {kNnm, kArc, kClip, kBuckets}) {
    for (const Step& rule : last) {
      // Clipped rows all have one norm: which cge keeps is a tie broken by
      // rounding.
      const bool clips = before.name == "clip" || before.name == "arc";
      if (!clips || rule.name != "cge") chains.push_back({before, rule});
    }
  }
  chains.push_back({kClip, kNnm, {"trimmed_mean"}});
  chains.push_back({kArc, kNnm, {"median"}});
  chains.push_back({kBuckets, kNnm, {"krum"}});
  chains.push_back({kNnm, kClip, {"monna", 0, "monna(0)"}});
  chains.push_back({kArc, {"fltrust", 0, "fltrust(0)"}});
  return chains;
}

INSTANTIATE_TEST_SUITE_P(All, ChainTest, testing::ValuesIn(Chains()),
                         [](const auto& parameter) {
                           std::string name;
                           for (const Step& step : parameter.param)
                             absl::StrAppend(&name, name.empty() ? "" : "_",
                                             step.name);
                           return name;
                         });

// More coordinates than a tile of sums, a tile of columns and a leaf, and none
// a multiple of another.
TEST(LongVectorTest, AgreesWithTheReference) {
  int ties = 0;
  for (const Step& step : {Step{"krum"}, Step{"trimmed_mean"}, Step{"phocas"},
                           kWeiszfeld, kCenteredClip}) {
    Round round{"", NormalRows(9, 1031, kSeed), 2};
    round.prev = NormalRows(1, 1031, kSeed + 1)[0];
    round.leaf = 300;
    round.shards = 2;
    Compare({step}, round, true, ties);
    Compare({kNnm, step}, round, true, ties);
  }
}

}  // namespace
}  // namespace parapet::rules
