// What must hold whatever the numbers are: for distances, for shards and for
// every rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "common/rng.h"
#include "server/rules/mda.h"
#include "server/rules/registry.h"
#include "server/rules/vertex_cover.h"
#include "tests/rules/aggregate.h"
#include "tests/rules/reference.h"

namespace parapet::rules {
namespace {

const std::vector<std::string> kRules = {"mean",
                                         "median",
                                         "trimmed_mean",
                                         "meamed",
                                         "phocas",
                                         "sign_vote",
                                         "krum",
                                         "multi_krum",
                                         "bulyan",
                                         "mda",
                                         "geometric_median",
                                         "centered_clip",
                                         "cge",
                                         "faba",
                                         "smea",
                                         "caf",
                                         "monna(0)",
                                         "fltrust(0)",
                                         "dnc",
                                         "nnm + trimmed_mean",
                                         "nnm + krum",
                                         "clip(3) + nnm + median",
                                         "arc + bulyan",
                                         "bucketing(2) + median",
                                         "clip(1) + mean",
                                         "nnm + geometric_median"};

double Square(const float* a, const float* b, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j)
    sum += (double{a[j]} - b[j]) * (double{a[j]} - b[j]);
  return sum;
}

Distances Measure(const Rows& rows) {
  PartialDistances partial(static_cast<int>(rows.size()));
  partial.AddLeaf(Cpu(), Pointers(rows), nullptr,
                  static_cast<int64_t>(rows[0].size()));
  return partial.Round();
}

// 16 float32 additions a lane and 4 between lanes: 20 * 2^-24 of the sum at the
// worst.
constexpr double kDistanceError = 1.3e-6;

TEST(PairwiseTest, AgreesWithFloat64AtEveryScale) {
  for (float scale : {1.0f, 1e38f, 1e-20f, 1e-38f, 1e-44f}) {
    for (int d : {1, 15, 17, 255, 257, 1000}) {
      Rows rows = NormalRows(5, d, d);
      for (auto& row : rows) {
        for (float& value : row) value = std::fmod(value, 3.0f) * scale;
      }
      const Distances distances = Measure(rows);
      const std::vector<float> zero(d);
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(distances(i, i), 0);
        for (int j = 0; j < 5; ++j) {
          const double expected = Square(rows[i].data(), rows[j].data(), d);
          EXPECT_NEAR(distances(i, j), expected, kDistanceError * expected)
              << scale << " " << d;
        }
        const double norm = Square(rows[i].data(), zero.data(), d);
        EXPECT_NEAR(distances(i, distances.zero()), norm,
                    kDistanceError * norm);
        EXPECT_EQ(distances(i, distances.prev()),
                  distances(i, distances.zero()));
      }
    }
  }
}

// The lists above and below say what holds for "every rule".
TEST(RulesTest, EveryNameOfTheRegistryIsTested) {
  for (const StageInfo& info : AllStages()) {
    EXPECT_TRUE(std::any_of(kRules.begin(), kRules.end(),
                            [&](const std::string& rule) {
                              return rule.find(info.name) != std::string::npos;
                            }))
        << info.name;
  }
}

// The partial sums of any grouping into shards have the same bits, and so has
// all that follows.
TEST(ShardTest, SameBitsForEveryNumberOfServers) {
  Round round{"", NormalRows(11, 5000, 42), 2};
  for (float& value : round.rows[4]) value *= 1e3f;
  round.prev = NormalRows(1, 5000, 43)[0];
  round.leaf = 256;
  for (const std::string& rule : kRules) {
    round.rule = rule;
    round.shards = 1;
    const Outcome whole = MustAggregate(round);
    for (int shards : {2, 3, 7}) {
      round.shards = shards;
      const Outcome parts = MustAggregate(round);
      EXPECT_EQ(parts.plan.mixing.weights, whole.plan.mixing.weights)
          << rule << " " << shards;
      EXPECT_EQ(parts.values, whole.values) << rule << " " << shards;
    }
  }
}

// What is not finite on one shard is left out on all, and the rest is a round
// of n - 1 workers of whom f - 1 may lie.
TEST(ShardTest, NotFiniteOnOneShardIsLeftOutOnAll) {
  Round round{"", NormalRows(11, 900, 44), 2};
  round.prev = NormalRows(1, 900, 45)[0];
  round.leaf = 100;
  round.shards = 3;
  Round rest = round;
  round.rows[7][505] = std::numeric_limits<float>::infinity();
  rest.rows.erase(rest.rows.begin() + 7);
  rest.workers = {0, 1, 2, 3, 4, 5, 6, 8, 9, 10};
  rest.f = 1;
  for (const std::string& rule : kRules) {
    if (!Chain::Parse(rule)->needs_distances()) continue;
    round.rule = rest.rule = rule;
    const Outcome with = MustAggregate(round), without = MustAggregate(rest);
    ASSERT_EQ(with.plan.left_out.size(), 1u) << rule;
    EXPECT_EQ(with.plan.left_out[0].worker, 7) << rule;
    EXPECT_EQ(WorkerWeights(with.plan)[7], 0) << rule;
    EXPECT_EQ(with.values, without.values) << rule;
  }
}

// Worker 4 is near the others on the first half and far on the second. Krum on
// the whole vector never takes it; Krum on the first half by itself does.
TEST(ShardTest, PerShardKrumWouldBeFooled) {
  Rows rows = NormalRows(7, 512, 6);
  for (int j = 0; j < 256; ++j) {
    double sum = 0;
    for (int i = 0; i < 7; ++i) sum += i == 4 ? 0 : rows[i][j];
    rows[4][j] = static_cast<float>(sum / 6);
  }
  for (int j = 256; j < 512; ++j) rows[4][j] = 50;
  Rows first_half = rows;
  for (auto& row : first_half) row.resize(256);
  EXPECT_THAT(MustAggregate({"krum", first_half, 2}).plan.notes[0].selected,
              testing::ElementsAre(4));
  Round round{"krum", rows, 2};
  round.leaf = 256;
  round.shards = 2;
  const Outcome outcome = MustAggregate(round);
  EXPECT_NE(outcome.plan.notes[0].selected[0], 4);
  EXPECT_EQ(outcome.values, rows[outcome.plan.notes[0].selected[0]]);
}

TEST(CloseVectorsTest, KrumAgreesWithFloat64) {
  constexpr int kN = 10, kD = 20000, kTrials = 100;
  int agreed = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random(1000 + trial);
    std::vector<float> weights(kD);
    for (float& value : weights) value = static_cast<float>(random.Normal());
    Rows rows(kN, weights);
    for (auto& row : rows) {
      for (float& value : row)
        value += static_cast<float>(1e-4 * (2 * random.Uniform() - 1));
    }
    reference::Matrix x;
    for (const auto& row : rows) x.emplace_back(row.begin(), row.end());
    const reference::Vector expected = reference::Rule("krum", x, 2, 0, {});
    const Outcome outcome = MustAggregate({"krum", rows, 2});
    agreed +=
        std::equal(expected.begin(), expected.end(), outcome.values.begin());
  }
  EXPECT_EQ(agreed, kTrials);
}

TEST(CloseVectorsTest, AnOffsetSurvivesNnm) {
  Rows rows = NormalRows(9, 101, 12);
  for (auto& row : rows) {
    for (float& value : row) value = 1000.0f + 1e-4f * value;
  }
  for (float& value : rows[5]) value += 0.01f;  // the one to be left out
  reference::Matrix x;
  for (const auto& row : rows) x.emplace_back(row.begin(), row.end());
  for (const char* rule : {"krum", "trimmed_mean", "median"}) {
    const reference::Vector expected =
        reference::Rule(rule, reference::Mix("nnm", x, 2, 0), 2, 0, {});
    const Outcome outcome =
        MustAggregate({std::string("nnm + ") + rule, rows, 2});
    // One rounding to float32 at 1000: 2^-15 = 3.1e-5 at the most.
    for (int j = 0; j < 101; ++j)
      ASSERT_NEAR(outcome.values[j], expected[j], 3.1e-5) << rule;
  }
}

TEST(EdgeTest, IdenticalRowsGiveThemselves) {
  const Rows row = NormalRows(1, 33, 2);
  for (const std::string& rule : kRules) {
    if (rule == "sign_vote" || rule[0] == 'c')
      continue;  // clipping and signs change the row
    const Outcome outcome = MustAggregate({rule, Rows(11, row[0]), 2});
    EXPECT_EQ(outcome.values, row[0]) << rule;
  }
  EXPECT_EQ(MustAggregate({"caf", Rows(11, row[0]), 2}).values, row[0]);
}

TEST(EdgeTest, OneWorkerIsItselfOrRefused) {
  for (const std::string& rule : kRules) {
    const absl::StatusOr<Outcome> outcome =
        Aggregate({rule, {{0.5f, -0.25f}}, 0});
    const bool refused = rule.find("krum") != std::string::npos ||
                         rule.find("bulyan") != std::string::npos;
    ASSERT_EQ(outcome.ok(), !refused) << rule;
    if (refused || rule == "sign_vote") continue;
    EXPECT_EQ(outcome->values, (std::vector<float>{0.5f, -0.25f})) << rule;
  }
}

TEST(EdgeTest, NeverNaN) {
  for (const std::string& rule : kRules) {
    for (float value : {0.0f, 3e38f, 1e-45f}) {
      Rows rows(11, std::vector<float>(3, value));
      rows[3] = {-value, value, 0};
      rows[8] = {0, 0, 0};
      for (float result : MustAggregate({rule, rows, 2}).values) {
        EXPECT_TRUE(std::isfinite(result)) << rule << " " << value;
      }
    }
  }
}

// Rules that do not single out a worker or the order do not mind who is who.
TEST(PropertyTest, Permutation) {
  const Rows rows = NormalRows(11, 41, 31);
  const std::vector<int> order = SecretShuffle(3, 3)(0, 11);
  Rows permuted;
  for (int i : order) permuted.push_back(rows[i]);
  for (const std::string& rule : kRules) {
    if (rule.find('0') != std::string::npos || rule[0] == 'b')
      continue;  // a trusted worker; buckets
    const auto a = MustAggregate({rule, rows, 2}).values,
               b = MustAggregate({rule, permuted, 2}).values;
    // Sums in another order: 1e-12 or so before one rounding to float32.
    for (int j = 0; j < 41; ++j)
      ASSERT_NEAR(a[j], b[j], 3e-7 * (1 + std::abs(a[j]))) << rule;
  }
  EXPECT_EQ(MustAggregate({"bulyan", rows, 2}).values,
            MustAggregate({"bulyan", permuted, 2}).values);
}

// By a power of two nothing is rounded differently.
TEST(PropertyTest, Scale) {
  const Rows rows = NormalRows(11, 41, 32);
  Rows scaled = rows;
  for (auto& row : scaled) {
    for (float& value : row) value *= 64;
  }
  for (const std::string& rule : kRules) {
    if (rule[0] == 'c' && rule != "cge" && rule != "caf")
      continue;  // norms that do not scale
    if (rule == "sign_vote") continue;
    auto a = MustAggregate({rule, rows, 2}).values;
    const auto b = MustAggregate({rule, scaled, 2}).values;
    for (float& value : a) value *= 64;
    for (int j = 0; j < 41; ++j)
      ASSERT_NEAR(a[j], b[j], 1e-6 * (1 + std::abs(b[j]))) << rule;
  }
}

TEST(PropertyTest, Translation) {
  Rows rows = NormalRows(11, 41, 33);
  for (auto& row : rows) {
    for (float& value : row)
      value = std::round(value * 256) / 256;  // so that + 8 is exact
  }
  Rows moved = rows;
  for (auto& row : moved) {
    for (float& value : row) value += 8;
  }
  for (const char* rule :
       {"mean", "median", "trimmed_mean", "meamed", "krum", "multi_krum",
        "bulyan", "mda", "geometric_median", "faba", "smea", "caf", "monna(0)",
        "dnc", "nnm + trimmed_mean", "nnm + krum", "bucketing(2) + median"}) {
    const auto a = MustAggregate({rule, rows, 2}).values,
               b = MustAggregate({rule, moved, 2}).values;
    for (int j = 0; j < 41; ++j) ASSERT_NEAR(a[j] + 8, b[j], 2e-6) << rule;
  }
}

// The search's work, whatever machine it is on: 30 million subsets would be
// tried otherwise.
TEST(MdaTest, ThirtyWorkersTenLiarsTakeFewSteps) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Rows rows = NormalRows(30, 1 + 3 * static_cast<int>(seed), seed);
    const MdaSearch search = FindLeastDiameter(Measure(rows), 10);
    EXPECT_EQ(search.selected.size(), 20u);
    // 9 bisections and 30 vertices, each a tree of at most 1.47^10 = 47 leaves,
    // none deeper than 10.
    EXPECT_LE(search.steps, 39 * 47 * 10) << seed;
    EXPECT_GT(search.steps, 0) << seed;
  }
}

// Against trying every set of vertices.
TEST(VertexCoverTest, AgreesWithTryingAll) {
  for (int trial = 0; trial < 400; ++trial) {
    Random random(trial);
    const int n = 2 + static_cast<int>(random.Below(9));
    Graph graph(n);
    std::vector<int> edges;
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < a; ++b) {
        if (random.Below(3) != 0) continue;
        graph.Join(a, b);
        edges.push_back(1 << a | 1 << b);
      }
    }
    int least = n;
    for (int set = 0; set < 1 << n; ++set) {
      const bool covers = std::all_of(edges.begin(), edges.end(),
                                      [&](int edge) { return edge & set; });
      if (covers) least = std::min(least, __builtin_popcount(set));
    }
    for (int limit = 0; limit <= n; ++limit) {
      ASSERT_EQ(HasCover(graph, limit), limit >= least)
          << "trial " << trial << " limit " << limit;
    }
  }
}

}  // namespace
}  // namespace parapet::rules
