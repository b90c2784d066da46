#include "tests/sim/scenario.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "server/rules/chain.h"

namespace parapet::sim {
namespace {

int64_t Between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(
                   random.Below(static_cast<uint64_t>(high - low + 1)));
}

bool Chance(Random& random, double probability) {
  return random.Uniform() < probability;
}

// Odd sizes, with an empty tensor and a scalar now and then.
std::vector<TensorSpec> MakeTensors(Random& random) {
  std::vector<TensorSpec> tensors;
  const int64_t count = Between(random, 1, 5);
  for (int64_t i = 0; i < count; ++i) {
    TensorSpec spec;
    spec.name = absl::StrCat("t", i);
    spec.init = {Initializer::Kind::kUniform, 0.5};
    if (i > 0 && Chance(random, 0.1)) {
      spec.shape = {0, 7};
    } else if (Chance(random, 0.1)) {
      spec.init.kind = Initializer::Kind::kZero;
    } else {
      spec.shape = {Between(random, 1, 13), Between(random, 1, 17)};
    }
    tensors.push_back(std::move(spec));
  }
  return tensors;
}

void ChooseOptimizer(Random& random, JobConfig* job) {
  job->optimizer.kind = static_cast<OptimizerKind>(random.Below(5));
  if (Chance(random, 0.3)) job->optimizer.weight_decay = 0.01;
  job->schedule.lr = 0.02;
  job->schedule.kind = static_cast<ScheduleKind>(random.Below(3));
  job->schedule.warmup = Between(random, 0, 2);
  job->schedule.scale_lr = Chance(random, 0.3);
  if (Chance(random, 0.3)) job->clip_norm = 0.5 + random.Uniform();
  if (Chance(random, 0.2)) job->worker_momentum = 0.9;
}

void ChooseWire(Random& random, JobConfig* job) {
  const double pick = random.Uniform();
  job->wire = pick < 0.6    ? DType::kFloat32
              : pick < 0.85 ? DType::kBFloat16
                            : DType::kFloat16;
  job->wire_scale = 64;
  job->leaf = 16;
  // Now and then one chunk for all: some servers have none.
  job->chunk = 16 * (Chance(random, 0.1) ? 64 : Between(random, 1, 5));
  job->connections = static_cast<int>(Between(random, 1, 3));
}

void ChooseData(Random& random, Scenario* scenario) {
  JobConfig& job = scenario->job;
  job.batch = Between(random, 1, 6);
  // Small enough that the last round of an epoch has fewer samples than
  // workers, so that some abstain.
  scenario->samples = static_cast<uint64_t>(
      Between(random, 1, 4 * job.batch * job.workers + 3));
  if (Chance(random, 0.15)) {
    job.data_split = "own";
    for (int i = 0; i < job.workers; ++i) {
      scenario->own_samples.push_back(
          static_cast<uint64_t>(Between(random, 1, 5 * job.batch)));
    }
  }
  if (Chance(random, 0.7)) {
    job.rounds = Between(random, 5, 12);
  } else {
    job.epochs = Between(random, 1, 2);
  }
}

void ChooseSize(Random& random, Scenario* scenario) {
  JobConfig& job = scenario->job;
  job.servers = static_cast<int>(Between(random, 1, 5));
  const bool many = Chance(random, 0.2);
  job.workers =
      static_cast<int>(many ? Between(random, 7, 20) : Between(random, 1, 6));
  scenario->tensors = MakeTensors(random);
}

Scenario MakePlain(uint64_t seed, Random& random) {
  Scenario scenario;
  scenario.seed = MixKey(seed, 1);
  scenario.job.seed = MixKey(seed, 2);
  ChooseSize(random, &scenario);
  ChooseOptimizer(random, &scenario.job);
  ChooseWire(random, &scenario.job);
  ChooseData(random, &scenario);
  scenario.job.evaluators = Chance(random, 0.4) ? 1 : 0;
  scenario.job.hash_every = Between(random, 0, 3);
  if (Chance(random, 0.5)) scenario.credit_window = Between(random, 1, 5);
  if (Chance(random, 0.3)) {
    scenario.snapshot.dir = "/snapshots";
    scenario.snapshot.every = Between(random, 0, 3);
    scenario.snapshot.keep = 2;
  }
  scenario.late_work = Chance(random, 0.5);
  scenario.linger = Chance(random, 0.5);
  scenario.network.seed = MixKey(seed, 3);
  scenario.network.connect_timeout = absl::Seconds(1);
  if (Chance(random, 0.3)) {
    scenario.network.max_delay = absl::Milliseconds(20);
  }
  scenario.patience.start_timeout = absl::Seconds(30);
  scenario.patience.patience = absl::Seconds(2);
  return scenario;
}

void AddBreaks(Random& random, Scenario* scenario) {
  scenario->breaks_per_second = 1 + 19 * random.Uniform();
  if (Chance(random, 0.5)) scenario->cuts_per_second = random.Uniform();
  // Long enough that plenty breaks.
  scenario->longest_work = absl::Milliseconds(Between(random, 50, 500));
}

// Leaves at least one worker alone.
void AddFaults(Random& random, bool hostile, Scenario* scenario) {
  scenario->job.workers = std::max(scenario->job.workers, 2);
  scenario->own_samples.resize(
      scenario->own_samples.empty() ? 0 : scenario->job.workers, 3);
  const auto workers = static_cast<uint32_t>(scenario->job.workers);
  const int64_t count = Between(random, 1, std::max(1u, workers / 3));
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t worker =
        1 + static_cast<uint32_t>(random.Below(workers - 1));
    Fault fault;
    fault.behaviour =
        hostile ? Behaviour::kHostile : static_cast<Behaviour>(random.Below(4));
    fault.from_round = random.Below(6);
    scenario->faults[worker] = fault;
  }
  scenario->patience.round_deadline = absl::Seconds(2);
  scenario->patience.dead_after = absl::Seconds(4);
  scenario->patience.insufficient_for = absl::Seconds(20);
}

void AddQuorum(Random& random, Scenario* scenario) {
  scenario->job.workers = std::max(scenario->job.workers, 3);
  scenario->own_samples.resize(
      scenario->own_samples.empty() ? 0 : scenario->job.workers, 3);
  scenario->patience.quorum =
      static_cast<int>(Between(random, 1, scenario->job.workers - 1));
  scenario->patience.quorum_deadline = absl::Milliseconds(100);
  scenario->longest_work = absl::Milliseconds(400);
  scenario->may_lose_honest = true;
}

constexpr const char* kRules[] = {
    "median",
    "trimmed_mean",
    "meamed",
    "phocas",
    "sign_vote(0.01)",
    "mean(unweighted)",
    "krum",
    "multi_krum",
    "bulyan",
    "mda",
    "geometric_median",
    "centered_clip(tau=1)",
    "cge",
    "faba",
    "smea",
    "caf",
    "dnc",
    "monna(0)",
    "fltrust(0)",
    "nnm + trimmed_mean",
    "bucketing(2) + median",
    "bucketing(2) + geometric_median",
    "clip(2.0) + krum",
    "arc + nnm + median",
    "nnm + centered_clip(tau=2)",
};

// A rule that can do with the workers that may be left, when one is found.
void ChooseRule(Random& random, Scenario* scenario) {
  JobConfig& job = scenario->job;
  scenario->rule_secret = random.Next64();
  const int fewest =
      scenario->may_lose_honest
          ? 1
          : job.workers - static_cast<int>(scenario->faults.size());
  for (int tries = 0; tries < 20; ++tries) {
    const std::string rule = kRules[random.Below(std::size(kRules))];
    const auto f = static_cast<int>(Between(random, 0, (fewest - 1) / 2));
    const rules::Chain chain = *rules::Chain::Parse(rule);
    // Any worker may be lost, and another rule trusts one.
    const bool trusts = chain.links().back().stage->trusted() >= 0;
    if (trusts && scenario->may_lose_honest) continue;
    if (!chain.CheckLimits(fewest, f).ok() ||
        !chain.CheckLimits(job.workers, f).ok())
      continue;
    job.rule = rule;
    job.byzantine = f;
    // Workers who abstain can make many rounds bad.
    job.max_bad_rounds = 1000;
    break;
  }
  for (auto& [worker, fault] : scenario->faults) {
    if (fault.behaviour == Behaviour::kHostile && Chance(random, 0.25))
      fault.behaviour = Behaviour::kLiar;
  }
}

}  // namespace

std::vector<std::string> SomeRules() {
  return {std::begin(kRules), std::end(kRules)};
}

Scenario MakeScenario(uint64_t seed, Mood mood) {
  Random random(MixKey(seed, 4), static_cast<uint64_t>(mood));
  Scenario scenario =
      MakePlain(MixKey(seed, static_cast<uint64_t>(mood)), random);
  const bool mixed = mood == Mood::kMixed;
  if (mood == Mood::kBroken || mixed) AddBreaks(random, &scenario);
  if (mood == Mood::kMissing || mixed) AddFaults(random, false, &scenario);
  if (mood == Mood::kHostile || (mixed && Chance(random, 0.5))) {
    AddFaults(random, true, &scenario);
    scenario.stranger = true;
  }
  if (mood == Mood::kQuorum || (mixed && Chance(random, 0.3))) {
    AddQuorum(random, &scenario);
  }
  if (mixed) {
    // With short deadlines an unlucky worker misses rounds, and comes back.
    scenario.may_lose_honest = true;
    scenario.longest_cut = absl::Seconds(5);
  }
  Random rules(MixKey(seed, 9), static_cast<uint64_t>(mood));
  if (Chance(rules, 0.6)) ChooseRule(rules, &scenario);
  return scenario;
}

Layout Scenario::MakeLayout() const { return *Layout::Create(tensors); }

ShardMap Scenario::MakeMap() const {
  return *ShardMap::Create(MakeLayout().elements(), job.servers, job.chunk,
                           job.leaf);
}

std::string Scenario::Describe() const {
  std::string text = absl::StrCat(
      job.servers, " servers, ", job.workers, " workers, ", job.evaluators,
      " evaluators, ", MakeLayout().elements(), " elements, ",
      MakeMap().chunks(), " chunks, ", job.connections, " connections, wire ",
      NameOf(job.wire), ", optimizer ", NameOf(job.optimizer.kind), ", clip ",
      job.clip_norm, ", worker momentum ", job.worker_momentum, ", window ",
      credit_window, ", quorum ", patience.quorum, ", data ", job.data_split,
      ", late work ", late_work, ", breaks ", breaks_per_second, "/s, cuts ",
      cuts_per_second, "/s, links ", rates.out, " and ", rates.in,
      " bytes/s, rule ", job.rule, " f=", job.byzantine);
  for (const auto& [worker, fault] : faults) {
    static constexpr const char* kNames[] = {"silent", "partial", "crash",
                                             "leave",  "liar",    "hostile"};
    absl::StrAppend(&text, ", worker ", worker, " ",
                    kNames[static_cast<int>(fault.behaviour)], " from ",
                    fault.from_round);
  }
  return text;
}

}  // namespace parapet::sim
