#include "tests/rules/aggregate.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "common/rng.h"

namespace parapet::rules {

const Device& Cpu() {
  static const std::unique_ptr<Device>& cpu =
      *new std::unique_ptr<Device>(MakeCpuDevice());
  return *cpu;
}

std::vector<const float*> Pointers(const Rows& rows, int64_t offset) {
  std::vector<const float*> pointers;
  for (const std::vector<float>& row : rows)
    pointers.push_back(row.data() + offset);
  return pointers;
}

absl::StatusOr<Outcome> Aggregate(const Round& round) {
  absl::StatusOr<Chain> chain = Chain::Parse(round.rule);
  if (!chain.ok()) return chain.status();
  const std::vector<const float*> rows = Pointers(round.rows);
  LocalRound local{&Cpu(), rows};
  local.elements =
      rows.empty() ? 0 : static_cast<int64_t>(round.rows[0].size());
  local.prev = round.prev.empty() ? nullptr : round.prev.data();
  local.workers = round.workers;
  local.f = round.f;
  local.shuffle = SecretShuffle(1234, 5);
  if (!round.permutation.empty()) {
    local.shuffle = [&](int stage, int n) { return round.permutation; };
  }
  local.shards = round.shards;
  local.leaf = round.leaf;
  Outcome outcome = RunLocally(*chain, local);
  if (outcome.plan.limits_failed)
    return absl::FailedPreconditionError(outcome.plan.why_bad);
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
