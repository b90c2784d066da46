#ifndef PARAPET_SERVER_RULES_MAKE_PLAN_H_
#define PARAPET_SERVER_RULES_MAKE_PLAN_H_

#include <cstdint>
#include <vector>

#include "server/rules/chain.h"
#include "server/rules/plan.h"

namespace parapet::rules {

// A contribution with a norm above this many times the (f+1)-th largest is left
// out as absurd.
inline constexpr double kAbsurd = 1e4;

// The permutation that bucketing uses: from the servers' secret and the round,
// since a worker that knew it could choose its bucket.
Shuffle SecretShuffle(uint64_t secret, uint64_t round);

// What is known of a round when its plan is made.
struct RoundFacts {
  std::vector<int> workers;       // ids of the participants, ascending
  std::vector<bool> finite = {};  // of each, over all shards; empty: all are
  // Of the participants in that order; not read under a chain that needs none
  // (may be null). Rows of participants that are not finite may hold anything.
  // Without a previous aggregate its row is that of zero.
  const Distances* distances = nullptr;
  int f = 0;
  Shuffle shuffle = nullptr;  // called by bucketing only
};

// What the chain makes of a round: a pure function of its arguments.
//
// Under a chain on distances, contributions that are not finite or absurd are
// left out of the whole round; each is proven faulty, so n and f both fall by
// one (f not below 0). If more than f are left out this way (f = 0: more than
// half) the plan is `bad`.
//
// It is `bad` with `limits_failed` if the limits do not hold for who is left or
// the trusted worker is not among them; who was left out is named all the same.
Plan MakePlan(const Chain& chain, const RoundFacts& facts);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_MAKE_PLAN_H_
