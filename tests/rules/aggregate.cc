#include "tests/rules/aggregate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/rng.h"

namespace parapet::rules {
namespace {

int64_t Elements(const Round& round) {
  return round.rows.empty() ? 0 : static_cast<int64_t>(round.rows[0].size());
}

const float* Prev(const Round& round, int64_t begin) {
  return round.prev.empty() ? nullptr : round.prev.data() + begin;
}

PartialDistances Measure(const Round& round) {
  const int n = static_cast<int>(round.rows.size());
  std::vector<PartialDistances> parts(round.shards, PartialDistances(n));
  for (int64_t begin = 0, leaf = 0; begin < Elements(round);
       begin += round.leaf, ++leaf) {
    const int64_t count = std::min(round.leaf, Elements(round) - begin);
    parts[leaf % round.shards].AddLeaf(Pointers(round.rows, begin),
                                       Prev(round, begin), count);
  }
  // In an order of its own: it must not matter.
  PartialDistances sum(n);
  for (int shard = round.shards - 1; shard >= 0; --shard)
    sum.Merge(parts[shard]);
  return sum;
}

void Apply(const Round& round, Outcome& outcome) {
  outcome.values.resize(Elements(round));
  for (int64_t begin = 0; begin < Elements(round); begin += round.leaf) {
    const std::vector<const float*> rows = Pointers(round.rows, begin);
    const int64_t count = std::min(round.leaf, Elements(round) - begin);
    const Shard shard{rows, {}, Prev(round, begin), count};
    outcome.report =
        ApplyPlan(outcome.plan, shard, outcome.values.data() + begin);
  }
}

}  // namespace

std::vector<const float*> Pointers(const Rows& rows, int64_t offset) {
  std::vector<const float*> pointers;
  for (const std::vector<float>& row : rows)
    pointers.push_back(row.data() + offset);
  return pointers;
}

absl::StatusOr<Outcome> Aggregate(const Round& round) {
  absl::StatusOr<Chain> chain = Chain::Parse(round.rule);
  if (!chain.ok()) return chain.status();
  RoundFacts facts;
  facts.workers = round.workers;
  if (facts.workers.empty()) {
    facts.workers.resize(round.rows.size());
    std::iota(facts.workers.begin(), facts.workers.end(), 0);
  }
  facts.f = round.f;
  facts.shuffle = SecretShuffle(1234, 5);
  if (!round.permutation.empty()) {
    facts.shuffle = [&](int stage, int n) { return round.permutation; };
  }
  const PartialDistances measured = Measure(round);
  const Distances distances = measured.Round();
  facts.finite = measured.finite();
  if (chain->needs_distances()) facts.distances = &distances;
  absl::StatusOr<Plan> plan = MakePlan(*chain, facts);
  if (!plan.ok()) return plan.status();
  Outcome outcome{*std::move(plan), {}, {}};
  Apply(round, outcome);
  return outcome;
}

Outcome MustAggregate(const Round& round) {
  absl::StatusOr<Outcome> outcome = Aggregate(round);
  EXPECT_TRUE(outcome.ok()) << round.rule << ": " << outcome.status();
  return outcome.ok() ? *std::move(outcome) : Outcome{};
}

Rows NormalRows(int n, int d, uint64_t seed) {
  Random random(seed);
  Rows rows(n, std::vector<float>(d));
  for (std::vector<float>& row : rows) {
    for (float& value : row) value = static_cast<float>(random.Normal());
  }
  return rows;
}

}  // namespace parapet::rules
