#include "server/rules/local_round.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace parapet::rules {
namespace {

// A leaf's place in the vector, with pointers to each row's part of it.
struct Leaf {
  int64_t begin = 0;
  int64_t elements = 0;
  std::vector<const float*> rows;
  const float* prev = nullptr;
};

// Calls `what` for each leaf of a shard, in order.
template <typename What>
void ForLeaves(const LocalRound& round, int shard, const What& what) {
  Leaf leaf;
  leaf.rows.resize(round.rows.size());
  const int64_t step = round.leaf * round.shards;
  for (leaf.begin = shard * round.leaf; leaf.begin < round.elements;
       leaf.begin += step) {
    leaf.elements = std::min(round.leaf, round.elements - leaf.begin);
    for (size_t i = 0; i < leaf.rows.size(); ++i) {
      // A row may be null where a plan does not read it.
      leaf.rows[i] =
          round.rows[i] == nullptr ? nullptr : round.rows[i] + leaf.begin;
    }
    leaf.prev = round.prev == nullptr ? nullptr : round.prev + leaf.begin;
    what(leaf);
  }
}

// Adds what was met in a range that begins at `begin`.
void AddReport(const ReduceReport& part, int64_t begin, ReduceReport& whole) {
  if (!part.bad_values.empty()) whole.bad_values.resize(part.bad_values.size());
  for (size_t i = 0; i < part.bad_values.size(); ++i)
    whole.bad_values[i] += part.bad_values[i];
  whole.bad_coordinates += part.bad_coordinates;
  if (part.first_bad < 0) return;
  const int64_t first = begin + part.first_bad;
  whole.first_bad =
      whole.first_bad < 0 ? first : std::min(whole.first_bad, first);
}

}  // namespace

PartialDistances MeasureShard(const LocalRound& round, int shard) {
  PartialDistances partial(static_cast<int>(round.rows.size()));
  ForLeaves(round, shard, [&](const Leaf& leaf) {
    partial.AddLeaf(*round.device, leaf.rows, leaf.prev, leaf.elements);
  });
  return partial;
}

Plan PlanLocally(const Chain& chain, const LocalRound& round,
                 const PartialDistances& sum) {
  const int n = static_cast<int>(round.rows.size());
  RoundFacts facts;
  facts.workers = round.workers;
  if (facts.workers.empty()) {
    facts.workers.resize(n);
    std::iota(facts.workers.begin(), facts.workers.end(), 0);
  }
  facts.f = round.f;
  facts.shuffle = round.shuffle;
  if (!chain.needs_distances()) return MakePlan(chain, facts);
  const Distances distances = sum.Round();
  facts.finite = sum.finite();
  facts.distances = &distances;
  return MakePlan(chain, facts);
}

ReduceReport ApplyShard(const Plan& plan, const LocalRound& round, int shard,
                        float* out) {
  ReduceReport report;
  ForLeaves(round, shard, [&](const Leaf& leaf) {
    const Shard part{leaf.rows, {}, leaf.prev, leaf.elements};
    AddReport(ApplyPlan(*round.device, plan, part, out + leaf.begin),
              leaf.begin, report);
  });
  return report;
}

LocalOutcome RunLocally(const Chain& chain, const LocalRound& round) {
  PartialDistances sum(static_cast<int>(round.rows.size()));
  for (int shard = 0; shard < round.shards && chain.needs_distances(); ++shard)
    sum.Merge(MeasureShard(round, shard));
  LocalOutcome outcome{PlanLocally(chain, round, sum), {}, {}};
  outcome.values.resize(round.elements);
  for (int shard = 0; shard < round.shards; ++shard) {
    AddReport(ApplyShard(outcome.plan, round, shard, outcome.values.data()), 0,
              outcome.report);
  }
  return outcome;
}

}  // namespace parapet::rules
