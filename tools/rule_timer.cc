#include "tools/rule_timer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/clock.h"
#include "common/rng.h"
#include "server/rules/apply_plan.h"
#include "server/rules/make_plan.h"

namespace parapet {
namespace {

constexpr int kMostTimes = 5;    // a measurement is the best of so many,
constexpr double kEnough = 1.0;  // or of as many as begin within a second
constexpr int64_t kChunk = 256 * 1024;
constexpr int64_t kLeaf = 16 * 1024;
constexpr int64_t kLine = 16;  // elements

// An odd number of cache lines to the next row.
int64_t StrideOf(int64_t d) { return ((d + kLine - 1) / kLine | 1) * kLine; }

// Sums so many values at once that only the memory is waited for.
uint64_t SumOf(const float* values, int64_t elements) {
  constexpr int kSums = 8;
  uint64_t sums[kSums] = {};
  for (int64_t i = 0; i + 2 * kSums <= elements; i += 2 * kSums) {
    for (int k = 0; k < kSums; ++k) {
      uint64_t word;
      std::memcpy(&word, values + i + int64_t{2} * k, sizeof(word));
      sums[k] += word;
    }
  }
  return std::accumulate(sums, sums + kSums, uint64_t{0});
}

}  // namespace

RuleTimer::RuleTimer(int n, int64_t d, int threads)
    : n_(n),
      d_(d),
      stride_(StrideOf(d)),
      device_(MakeCpuDevice()),
      values_(n * stride_),
      aggregate_(d),
      team_(threads) {
  Random random(1);
  for (float& value : values_)
    value = static_cast<float>(random.Uniform() - 0.45);
}

double RuleTimer::BestSeconds(const std::function<void()>& work) {
  SteadyClock clock;
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (int time = 0; time < kMostTimes && sum < kEnough; ++time) {
    const absl::Time began = clock.Now();
    work();
    const double seconds = absl::ToDoubleSeconds(clock.Now() - began);
    best = std::min(best, seconds);
    sum += seconds;
  }
  return best;
}

void RuleTimer::ForChunks(
    const std::function<void(int, int64_t, int64_t)>& work) {
  team_.Run([&](int thread) {
    for (int64_t begin = thread * kChunk; begin < d_;
         begin += team_.size() * kChunk)
      work(thread, begin, std::min(kChunk, d_ - begin));
  });
}

std::vector<Row> RuleTimer::RowsFrom(int64_t begin) const {
  std::vector<Row> rows;
  for (int i = 0; i < n_; ++i)
    rows.push_back({.data = &values_[i * stride_ + begin]});
  return rows;
}

double RuleTimer::ReadSeconds() {
  std::vector<uint64_t> sums(team_.size());
  return BestSeconds([&] {
    ForChunks([&](int thread, int64_t begin, int64_t elements) {
      for (const Row& row : RowsFrom(begin))
        sums[thread] += SumOf(static_cast<const float*>(row.data), elements);
    });
    // The sums are wanted.
    volatile uint64_t total = std::accumulate(sums.begin(), sums.end(), 0ull);
    (void)total;
  });
}

double RuleTimer::CopySeconds() {
  std::vector<std::vector<float>> to(team_.size());
  for (auto& piece : to) piece.resize(16 * kChunk);
  return BestSeconds([&] {
    ForChunks([&](int thread, int64_t begin, int64_t elements) {
      int64_t place = 0;
      for (const Row& row : RowsFrom(begin)) {
        std::memcpy(&to[thread][place++ % 16 * kChunk], row.data,
                    static_cast<size_t>(elements) * sizeof(float));
      }
    });
  });
}

double RuleTimer::MeanStepSeconds() {
  std::vector<float> in(d_), out(d_), moment(d_);
  std::vector<uint16_t> publish(d_);
  OptimizerConfig optimizer;
  optimizer.kind = OptimizerKind::kMomentum;
  return BestSeconds([&] {
    ForChunks([&](int, int64_t begin, int64_t elements) {
      const StepTarget target = {.in = &in[begin],
                                 .out = &out[begin],
                                 .moment1 = &moment[begin],
                                 .publish = &publish[begin],
                                 .publish_dtype = DType::kBFloat16};
      device_->ReduceStep({}, RowsFrom(begin), nullptr, elements, optimizer,
                          {.lr = 0.1}, target);
    });
  });
}

rules::PartialDistances RuleTimer::Measure() {
  const auto pairs = PairCount(n_);
  std::vector<rules::PartialDistances> parts(team_.size(),
                                             rules::PartialDistances(n_));
  ForChunks([&](int thread, int64_t begin, int64_t elements) {
    const int64_t leaves = (elements + kLeaf - 1) / kLeaf;
    std::vector<double> sums(leaves * pairs);
    std::vector<uint8_t> finite(leaves * n_);
    device_->Distances(RowsFrom(begin), nullptr, elements, kLeaf, sums.data(),
                       finite.data());
    for (int64_t l = 0; l < leaves; ++l)
      parts[thread].AddSums(&sums[l * pairs], &finite[l * n_]);
  });
  for (int t = 1; t < team_.size(); ++t) parts[0].Merge(parts[t]);
  return parts[0];
}

double RuleTimer::DistancesSeconds() {
  return BestSeconds([&] { Measure(); });
}

absl::StatusOr<double> RuleTimer::RuleSeconds(const rules::Chain& chain,
                                              int f) {
  std::vector<int> workers(n_);
  std::iota(workers.begin(), workers.end(), 0);
  absl::Status failure;
  const double seconds = BestSeconds([&] {
    rules::RoundFacts facts;
    facts.workers = workers;
    facts.f = f;
    facts.shuffle = rules::SecretShuffle(1, 0);
    rules::Distances distances(n_);
    if (chain.needs_distances()) {
      const rules::PartialDistances sum = Measure();
      distances = sum.Round();
      facts.finite = sum.finite();
      facts.distances = &distances;
    }
    const rules::Plan plan = rules::MakePlan(chain, facts);
    if (plan.limits_failed) {
      failure = absl::FailedPreconditionError(plan.why_bad);
      return;
    }
    ForChunks([&](int, int64_t begin, int64_t elements) {
      const rules::PlanReduction reduction(plan, RowsFrom(begin));
      device_->Reduce(reduction.spec, reduction.rows, nullptr, elements,
                      &aggregate_[begin]);
    });
  });
  if (!failure.ok()) return failure;
  return seconds;
}

}  // namespace parapet
