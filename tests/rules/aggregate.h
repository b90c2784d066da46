#ifndef PARAPET_TESTS_RULES_AGGREGATE_H_
#define PARAPET_TESTS_RULES_AGGREGATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rules/local_round.h"

namespace parapet::rules {

using Rows = std::vector<std::vector<float>>;

// One round as a test describes it.
struct Round {
  std::string rule;
  Rows rows;
  int f = 0;
  std::vector<float> prev = {};   // empty: 0
  std::vector<int> workers = {};  // empty: 0, 1, ...
  std::vector<int> permutation =
      {};  // for bucketing; empty: drawn from a secret
  int shards = 1;
  int64_t leaf = 16 * 1024;
};

// The device of every test.
const Device& Cpu();

using Outcome = LocalOutcome;

// What the servers and the lead make of it together.
absl::StatusOr<Outcome> Aggregate(const Round& round);

// The same for tests that expect an answer: fails the test with the error's
// words otherwise.
Outcome MustAggregate(const Round& round);

std::vector<const float*> Pointers(const Rows& rows, int64_t offset = 0);

// n vectors of d independent N(0, 1) values from a seed.
Rows NormalRows(int n, int d, uint64_t seed);

}  // namespace parapet::rules

#endif  // PARAPET_TESTS_RULES_AGGREGATE_H_
