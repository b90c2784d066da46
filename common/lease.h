#ifndef PARAPET_COMMON_LEASE_H_
#define PARAPET_COMMON_LEASE_H_

#include <cstdint>
#include <vector>

namespace parapet {

// A worker or evaluator as the lead admitted it.
struct Member {
  uint32_t id = 0;
  uint64_t session = 0;  // the token of this life of its process; never 0
  friend bool operator==(const Member&, const Member&) = default;
};

// What the lead computed once for a round, so that everyone uses the same bits.
struct RoundFacts {
  uint64_t epoch = 0;     // from 0
  uint64_t position = 0;  // samples of the epoch taken before this round
  uint64_t samples = 0;   // samples of this round, over all members
  double lr = 0;
  double bias1 = 1;  // Adam: 1 - beta1^step; 1 for other optimizers
  double bias2 = 1;  // Adam: 1 - beta2^step
  friend bool operator==(const RoundFacts&, const RoundFacts&) = default;
};

struct Mark {
  enum class Kind : uint8_t {
    kSnapshot = 0,
    kEvaluate = 1,
    kStop = 2,
    kHash = 3
  };
  Kind kind = Kind::kSnapshot;
  uint64_t version =
      0;  // in (from, until], or `from` itself in a lease without rounds
  friend bool operator==(const Mark&, const Mark&) = default;
};

// The lead's word on the rounds [from, until): who takes part, and what happens
// at which version. Leases follow one another without gap: from = the until of
// the lease before. One with from == until adds marks to that version only (the
// job stops there).
struct Lease {
  uint64_t term = 0;
  uint64_t from = 0;
  uint64_t until = 0;
  std::vector<Member> members;     // by ascending id
  std::vector<Member> evaluators;  // by ascending id
  std::vector<RoundFacts> facts;   // until - from of them
  std::vector<Mark> marks;
  friend bool operator==(const Lease&, const Lease&) = default;

  bool HasMark(Mark::Kind kind, uint64_t version) const {
    for (const Mark& mark : marks) {
      if (mark.kind == kind && mark.version == version) return true;
    }
    return false;
  }
};

}  // namespace parapet

#endif  // PARAPET_COMMON_LEASE_H_
