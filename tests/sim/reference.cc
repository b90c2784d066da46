#include "tests/sim/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/exact_sum.h"
#include "common/hash.h"
#include "server/rules/apply_plan.h"
#include "server/rules/pairwise.h"

namespace parapet::sim {

Reference::Reference(const Scenario& scenario, const Device& device)
    : job_(scenario.job),
      chain_(*rules::Chain::Parse(scenario.job.rule)),
      secret_(scenario.rule_secret),
      device_(device) {
  const Layout layout = scenario.MakeLayout();
  previous_.resize(layout.elements());
  weights_.resize(layout.elements());
  moment1_.resize(layout.elements());
  moment2_.resize(layout.elements());
  Initialize(layout, job_.seed, {0, layout.elements()}, weights_.data());
}

std::vector<std::string> Reference::Follow(const Ledger& ledger,
                                           const ShardMap& map) {
  std::vector<std::string> complaints;
  Compare(ledger, &complaints);
  for (const RoundRecord& record : ledger.records) {
    if (record.round != version_) {
      complaints.push_back(absl::StrCat(
          "round ", record.round, " is recorded where ", version_, " is due"));
      return complaints;
    }
    Round(record, ledger, map, &complaints);
    ++version_;
    Compare(ledger, &complaints);
  }
  if (!ledger.held.empty() && ledger.held.rbegin()->first > version_) {
    complaints.push_back(absl::StrCat("somebody holds version ",
                                      ledger.held.rbegin()->first,
                                      " of which there is no record"));
  }
  return complaints;
}

Reference::Entered Reference::WhoEntered(const RoundRecord& record,
                                         const ShardMap& map) {
  std::vector<uint32_t> workers = record.participants;
  // Who was left out by the rule was there for it to judge.
  for (const RoundRecord::LeftOut& left : record.left_out) {
    if (left.reason != RoundRecord::Reason::kMissing)
      workers.push_back(left.worker);
  }
  std::sort(workers.begin(), workers.end());
  Entered entered(map.chunks(), workers);
  for (const RoundRecord::Exception& e : record.exceptions) {
    for (uint64_t t = e.what.first_turn; t <= e.what.last_turn; ++t) {
      const int64_t local = map.LocalAtTurn(e.shard, static_cast<int64_t>(t));
      entered.at(map.ChunkOf(e.shard, local)).push_back(e.what.worker);
    }
  }
  for (std::vector<uint32_t>& chunk : entered)
    std::sort(chunk.begin(), chunk.end());
  return entered;
}

void Reference::Round(const RoundRecord& record, const Ledger& ledger,
                      const ShardMap& map,
                      std::vector<std::string>* complaints) {
  const auto known = ledger.facts.find(record.round);
  if (known == ledger.facts.end()) {
    complaints->push_back(absl::StrCat("no lease for round ", record.round));
    return;
  }
  const RoundFacts& facts = known->second;
  const Entered entered = WhoEntered(record, map);
  const std::vector<float> aggregate =
      Aggregate(record, entered, ledger, map, complaints);
  if (!entered.empty() && !entered[0].empty()) previous_ = aggregate;
  StepFacts step{facts.lr, facts.bias1, facts.bias2, 1};
  if (job_.clip_norm > 0) step.gradient_scale = ScaleOf(aggregate);
  const auto nobody = [](const auto& workers) { return workers.empty(); };
  if (std::none_of(entered.begin(), entered.end(), nobody)) {
    return Step({0, map.elements()}, step, aggregate.data());
  }
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    if (entered[chunk].empty()) continue;
    const Range range = map.ChunkRange(chunk);
    Step(range, step, aggregate.data() + range.begin);
  }
}

// Chunks that nobody entered stay 0: they do not count for the norm.
std::vector<float> Reference::Aggregate(
    const RoundRecord& record, const Entered& entered, const Ledger& ledger,
    const ShardMap& map, std::vector<std::string>* complaints) const {
  std::vector<float> aggregate(map.elements());
  int64_t bad = 0;
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    bool known = true;
    for (uint32_t worker : entered[chunk]) {
      if (ledger.pushed.contains({worker, record.round})) continue;
      known = false;
      complaints->push_back(absl::StrCat("worker ", worker,
                                         " is said to be in ", record.round,
                                         " and never pushed for it"));
    }
    if (!known) return aggregate;
    if (chain_.needs_distances() || entered[chunk].empty()) continue;
    const Range range = map.ChunkRange(chunk);
    const auto reduce =
        job_.rule == "mean" ? &Reference::Mean : &Reference::ByCoordinate;
    bad += (this->*reduce)(entered[chunk], record.round, chunk, range, ledger,
                           aggregate.data() + range.begin);
  }
  if (chain_.needs_distances() && !entered.empty() && !entered[0].empty()) {
    if (!record.exceptions.empty())
      complaints->push_back("exceptions under a rule on distances");
    aggregate = ByDistances(record, entered[0], ledger, map, complaints);
    // Overflows of what is mixed are not worked out here.
    bad = static_cast<int64_t>(record.bad_coordinates);
  }
  if (static_cast<int64_t>(record.bad_coordinates) != bad) {
    complaints->push_back(absl::StrCat("round ", record.round, " has ", bad,
                                       " bad coordinates, recorded are ",
                                       record.bad_coordinates));
  }
  return aggregate;
}

// The sample-weighted mean of what is finite, in float64 and in id order,
// rounded once. Returns the coordinates at which nothing was finite.
int64_t Reference::Mean(const std::vector<uint32_t>& workers, uint64_t round,
                        int64_t chunk, Range range, const Ledger& ledger,
                        float* out) const {
  std::vector<double> sums(range.size(), -0.0), totals(range.size(), 0.0);
  std::vector<float> values(range.size());
  const double scale = job_.wire == DType::kFloat16 ? job_.wire_scale : 1;
  for (uint32_t worker : workers) {
    const Ledger::Pushed& pushed = ledger.pushed.at({worker, round});
    const double weight = pushed.samples;
    device_.Decode(pushed.chunks[chunk].data(), job_.wire, 1, range.size(),
                   values.data());
    for (int64_t i = 0; i < range.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      sums[i] += weight * (static_cast<double>(values[i]) / scale);
      totals[i] += weight;
    }
  }
  int64_t bad = 0;
  for (int64_t i = 0; i < range.size(); ++i) {
    if (totals[i] == 0) ++bad;
    out[i] = totals[i] == 0 ? 0 : static_cast<float>(sums[i] / totals[i]);
  }
  return bad;
}

rules::RoundFacts Reference::FactsOf(const std::vector<uint32_t>& workers,
                                     uint64_t round) const {
  rules::RoundFacts facts;
  facts.workers.assign(workers.begin(), workers.end());
  facts.f = job_.byzantine;
  facts.shuffle = rules::SecretShuffle(secret_, round);
  return facts;
}

// One chunk of the workers in it. Returns the coordinates without a result: all
// of them if the rule's limits fail.
int64_t Reference::ByCoordinate(const std::vector<uint32_t>& workers,
                                uint64_t round, int64_t chunk, Range range,
                                const Ledger& ledger, float* out) const {
  const rules::Plan plan = rules::MakePlan(chain_, FactsOf(workers, round));
  if (plan.bad) return range.size();
  std::vector<std::vector<float>> rows;
  std::vector<const float*> pointers;
  for (uint32_t worker : workers) {
    const Ledger::Pushed& pushed = ledger.pushed.at({worker, round});
    rows.emplace_back(range.size());
    const double scale = job_.wire == DType::kFloat16 ? job_.wire_scale : 1;
    device_.Decode(pushed.chunks[chunk].data(), job_.wire, scale, range.size(),
                   rows.back().data());
  }
  for (const auto& row : rows) pointers.push_back(row.data());
  rules::Shard shard;
  shard.rows = pointers;
  shard.elements = range.size();
  return rules::ApplyPlan(device_, plan, shard, out).bad_coordinates;
}

std::vector<float> Reference::Decoded(const Ledger::Pushed& pushed,
                                      const ShardMap& map) const {
  std::vector<float> values(map.elements());
  const double scale = job_.wire == DType::kFloat16 ? job_.wire_scale : 1;
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    const Range range = map.ChunkRange(chunk);
    device_.Decode(pushed.chunks[chunk].data(), job_.wire, scale, range.size(),
                   values.data() + range.begin);
  }
  return values;
}

// The rule on the whole vector at once, and whether the lead recorded the same
// selection.
std::vector<float> Reference::ByDistances(
    const RoundRecord& record, const std::vector<uint32_t>& workers,
    const Ledger& ledger, const ShardMap& map,
    std::vector<std::string>* complaints) const {
  std::vector<std::vector<float>> rows;
  std::vector<const float*> pointers;
  for (uint32_t worker : workers) {
    rows.push_back(Decoded(ledger.pushed.at({worker, record.round}), map));
  }
  for (const auto& row : rows) pointers.push_back(row.data());
  rules::PartialDistances sums(static_cast<int>(rows.size()));
  for (int64_t begin = 0; begin < map.elements(); begin += job_.leaf) {
    std::vector<const float*> leaf;
    for (const float* row : pointers) leaf.push_back(row + begin);
    sums.AddLeaf(device_, leaf, previous_.data() + begin,
                 std::min(job_.leaf, map.elements() - begin));
  }
  const rules::Distances distances = sums.Round();
  rules::RoundFacts facts = FactsOf(workers, record.round);
  facts.finite = sums.finite();
  facts.distances = &distances;
  std::vector<float> aggregate(map.elements());
  const rules::Plan plan = rules::MakePlan(chain_, facts);
  if (plan.bad != (!record.why_bad.empty() && record.bad_coordinates == 0)) {
    complaints->push_back(absl::StrCat("round ", record.round, " is recorded ",
                                       plan.bad ? "good" : "bad"));
  }
  if (plan.bad) return aggregate;
  std::vector<double> weights;
  const std::vector<double> all = rules::WorkerWeights(plan);
  for (size_t i = 0; i < workers.size(); ++i) {
    const bool left_out = std::any_of(
        plan.left_out.begin(), plan.left_out.end(), [&](const auto& left) {
          return left.worker == static_cast<int>(workers[i]);
        });
    if (!left_out) weights.push_back(all[i]);
  }
  if (weights != record.weights) {
    complaints->push_back(absl::StrCat("round ", record.round,
                                       " is recorded with other weights"));
  }
  rules::Shard shard;
  shard.rows = pointers;
  shard.prev = previous_.data();
  shard.elements = map.elements();
  rules::ApplyPlan(device_, plan, shard, aggregate.data());
  return aggregate;
}

double Reference::ScaleOf(const std::vector<float>& aggregate) const {
  const auto elements = static_cast<int64_t>(aggregate.size());
  std::vector<double> leaves((elements + job_.leaf - 1) / job_.leaf);
  device_.LeafSquares(aggregate.data(), elements, job_.leaf, leaves.data());
  ExactSum sum;
  for (double leaf : leaves) sum.Add(leaf);
  const double norm = std::sqrt(sum.Round());
  return norm > job_.clip_norm ? job_.clip_norm / norm : 1;
}

void Reference::Step(Range range, const StepFacts& facts,
                     const float* aggregate) {
  StepTarget target;
  target.in = weights_.data() + range.begin;
  target.out = weights_.data() + range.begin;
  target.moment1 = moment1_.data() + range.begin;
  target.moment2 = moment2_.data() + range.begin;
  device_.Step(job_.optimizer, facts, aggregate, range.size(), target);
}

// The weights as they are sent.
std::string Reference::Published() const {
  std::string bytes(weights_.size() * SizeOf(job_.wire), '\0');
  device_.Encode(weights_.data(), static_cast<int64_t>(weights_.size()),
                 job_.wire, 1, bytes.data());
  return bytes;
}

void Reference::Compare(const Ledger& ledger,
                        std::vector<std::string>* complaints) const {
  const auto held = ledger.held.find(version_);
  if (held == ledger.held.end()) return;
  const std::string right = Published();
  for (const Ledger::Held& copy : held->second) {
    if (copy.bytes == right) continue;
    const auto differ = std::mismatch(right.begin(), right.end(),
                                      copy.bytes.begin(), copy.bytes.end());
    complaints->push_back(absl::StrCat(
        "version ", version_, " is wrong from element ",
        (differ.first - right.begin()) / SizeOf(job_.wire), " on at ",
        absl::StrJoin(copy.by, ", ", [](std::string* out, const Peer& peer) {
          absl::StrAppend(out, NameOf(peer));
        })));
  }
}

uint64_t Reference::WeightsHash() const {
  return HashLeaves({reinterpret_cast<const std::byte*>(weights_.data()),
                     weights_.size() * sizeof(float)},
                    0, sizeof(float), job_.leaf);
}

}  // namespace parapet::sim
