#include "server/rules/make_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/rng.h"

namespace parapet::rules {
namespace {

// Who stays in a round and who is left out of it.
struct Filtered {
  std::vector<int> kept;  // positions among the participants
  std::vector<LeftOut> left_out;
};

Filtered LeaveOutNotFinite(const RoundFacts& facts) {
  Filtered filtered;
  for (size_t i = 0; i < facts.workers.size(); ++i) {
    if (facts.finite.empty() || facts.finite[i]) {
      filtered.kept.push_back(static_cast<int>(i));
    } else {
      filtered.left_out.push_back({facts.workers[i], Fault::kNotFinite,
                                   "sent a value that is not finite"});
    }
  }
  return filtered;
}

// Those not finite count as the largest norms: `f` is what is left of f after
// them, so at least one of the f+1 largest is honest.
void LeaveOutAbsurd(const RoundFacts& facts, int f, Filtered& filtered) {
  if (f >= static_cast<int>(filtered.kept.size())) return;
  std::vector<double> norms;
  for (int row : filtered.kept) norms.push_back(facts.distances->Norm(row));
  std::vector<double> sorted = norms;
  std::nth_element(sorted.begin(), sorted.begin() + f, sorted.end(),
                   std::greater<>());
  const double most = kAbsurd * sorted[f];
  std::vector<int> kept;
  for (size_t k = 0; k < norms.size(); ++k) {
    if (norms[k] <= most) {
      kept.push_back(filtered.kept[k]);
      continue;
    }
    filtered.left_out.push_back(
        {facts.workers[filtered.kept[k]], Fault::kAbsurd,
         absl::StrFormat("sent a vector of norm %.3g, over 1e4 times %.3g, "
                         "number %d of the norms",
                         norms[k], sorted[f], f + 1)});
  }
  filtered.kept = std::move(kept);
}

bool TooMany(size_t left_out, int f, size_t n) {
  return f > 0 ? left_out > static_cast<size_t>(f) : 2 * left_out > n;
}

Filtered Filter(const RoundFacts& facts) {
  Filtered filtered = LeaveOutNotFinite(facts);
  const int faulty = static_cast<int>(filtered.left_out.size());
  if (!TooMany(faulty, facts.f, facts.workers.size())) {
    LeaveOutAbsurd(facts, std::max(0, facts.f - faulty), filtered);
  }
  std::sort(
      filtered.left_out.begin(), filtered.left_out.end(),
      [](const LeftOut& a, const LeftOut& b) { return a.worker < b.worker; });
  return filtered;
}

// Runs the stages of a chain one after the other on ever new rows.
class Runner {
 public:
  // `columns`: positions of the kept rows among the participants.
  Runner(const RoundFacts& facts, std::vector<int> columns, int f)
      : shuffle_(facts.shuffle),
        base_(facts.distances->Keep(columns)),
        current_(base_),
        f_(f) {
    for (int column : columns) workers_.push_back(facts.workers[column]);
    rows_ = Mixing::Identity(base_.n());
  }

  absl::Status Run(const Chain& chain, Plan& plan) {
    const int stages = static_cast<int>(chain.links().size());
    for (int position = 0; position < stages; ++position) {
      const Chain::Link& link = chain.links()[position];
      const View view{current_, f_, workers_, position, shuffle_};
      absl::StatusOr<Decision> decision = link.stage->Decide(view);
      if (!decision.ok()) return decision.status();
      plan.notes.push_back(Note(link, *decision));
      if (link.stage->merges()) workers_.clear();
      Apply(*decision, position + 1 < stages);
      plan.coordinate = decision->coordinate;
    }
    return absl::OkStatus();
  }

  const Mixing& rows() const { return rows_; }

 private:
  StageNote Note(const Chain::Link& link, const Decision& decision) const {
    StageNote note{link.text,       workers_, workers_.empty(),
                   decision.scores, {},       decision.trust};
    if (note.buckets) {
      note.rows.resize(current_.n());
      std::iota(note.rows.begin(), note.rows.end(), 0);
    }
    for (int row : decision.selected) note.selected.push_back(note.rows[row]);
    return note;
  }

  void Apply(const Decision& decision, bool more) {
    if (decision.mixing.rows == 0) return;
    rows_ = Compose(decision.mixing, rows_);
    if (!more) return;
    current_ = MixedDistances(base_, rows_);
  }

  const Shuffle& shuffle_;
  Distances base_, current_;
  int f_;
  std::vector<int> workers_;
  Mixing rows_;
};

// Spreads columns of the kept participants over all, the others at weight 0.
Mixing Spread(const Mixing& rows, const std::vector<int>& columns, int n) {
  Mixing spread(rows.rows, n + 2);
  const int kept = static_cast<int>(columns.size());
  for (int r = 0; r < rows.rows; ++r) {
    for (int k = 0; k < kept; ++k) spread.at(r, columns[k]) = rows.at(r, k);
    spread.at(r, n) = rows.at(r, kept);
    spread.at(r, n + 1) = rows.at(r, kept + 1);
  }
  return spread;
}

Plan LimitsFailed(Plan plan, const absl::Status& why) {
  plan.bad = plan.limits_failed = true;
  plan.why_bad = std::string(why.message());
  plan.notes.clear();
  return plan;
}

Plan PlanByCoordinate(const Chain& chain, const RoundFacts& facts) {
  const int n = static_cast<int>(facts.workers.size());
  Plan plan;
  plan.workers = facts.workers;
  if (absl::Status s = chain.CheckLimits(n, facts.f, "round"); !s.ok())
    return LimitsFailed(std::move(plan), s);
  const Distances none(0);
  const View view{none, facts.f, facts.workers, 0, facts.shuffle};
  absl::StatusOr<Decision> decision = chain.links()[0].stage->Decide(view);
  if (!decision.ok()) return LimitsFailed(std::move(plan), decision.status());
  plan.coordinate = decision->coordinate;
  plan.notes.push_back(
      {chain.links()[0].text, facts.workers, false, {}, {}, {}});
  return plan;
}

Plan PlanByDistances(const Chain& chain, const RoundFacts& facts) {
  const int n = static_cast<int>(facts.workers.size());
  Filtered filtered = Filter(facts);
  Plan plan;
  plan.workers = facts.workers;
  plan.left_out = filtered.left_out;
  plan.mixes = true;
  if (TooMany(plan.left_out.size(), facts.f, n)) {
    plan.bad = true;
    plan.why_bad =
        absl::StrCat(plan.left_out.size(), " of ", n,
                     " contributions are not finite or absurd, more than ",
                     facts.f > 0 ? absl::StrCat("f=", facts.f) : "half");
    return plan;
  }
  const int f = std::max(0, facts.f - static_cast<int>(plan.left_out.size()));
  const int kept = static_cast<int>(filtered.kept.size());
  if (absl::Status s = chain.CheckLimits(kept, f, "round"); !s.ok())
    return LimitsFailed(std::move(plan), s);
  Runner runner(facts, filtered.kept, f);
  if (absl::Status s = runner.Run(chain, plan); !s.ok())
    return LimitsFailed(std::move(plan), s);
  plan.mixing = Spread(runner.rows(), filtered.kept, n);
  return plan;
}

}  // namespace

Shuffle SecretShuffle(uint64_t secret, uint64_t round) {
  return [key = MixKey(secret, round)](int stage, int n) {
    Random random(key, static_cast<uint64_t>(stage));
    std::vector<int> permutation(n);
    std::iota(permutation.begin(), permutation.end(), 0);
    for (int i = n - 1; i > 0; --i)
      std::swap(permutation[i], permutation[random.Below(i + 1)]);
    return permutation;
  };
}

Plan MakePlan(const Chain& chain, const RoundFacts& facts) {
  return chain.needs_distances() ? PlanByDistances(chain, facts)
                                 : PlanByCoordinate(chain, facts);
}

std::vector<double> WorkerWeights(const Plan& plan) {
  const size_t n = plan.workers.size();
  if (!plan.mixes)
    return std::vector<double>(n, n == 0 ? 0 : 1.0 / static_cast<double>(n));
  std::vector<double> weights(n);
  for (size_t c = 0; c < n; ++c) {
    for (int r = 0; r < plan.mixing.rows; ++r) {
      weights[c] += plan.mixing.at(r, static_cast<int>(c)) / plan.mixing.rows;
    }
  }
  return weights;
}

}  // namespace parapet::rules
