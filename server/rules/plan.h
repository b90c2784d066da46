#ifndef PARAPET_SERVER_RULES_PLAN_H_
#define PARAPET_SERVER_RULES_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "server/rules/distances.h"

namespace parapet::rules {

using parapet::CoordinateOp;

struct Coordinate {
  CoordinateOp op = CoordinateOp::kMean;
  int f = 0;
  double scale = 1;       // kSignVote
  bool weighted = false;  // kMean: by the samples that workers report
};

// Why a worker's contribution was left out of a whole round. Either proves it
// faulty.
enum class Fault : uint8_t { kNotFinite, kAbsurd };

struct LeftOut {
  int worker = 0;
  Fault fault = Fault::kNotFinite;
  std::string why;  // in words
};

// What one stage of a chain saw and decided. `rows` names the rows it saw:
// worker ids, or the numbers of buckets if `buckets`.
struct StageNote {
  std::string stage;
  std::vector<int> rows;
  bool buckets = false;
  std::vector<double>
      scores;  // one for each of `rows`, the better the lower; empty: none
  std::vector<int>
      selected;  // of `rows`, in the order of selection; empty: no selection
  std::vector<double> trust;  // one for each of `rows`; empty: none
};

// What a rule decided for one round, the same for every shard: the aggregate is
// coordinate(mixing * X), X the participants' vectors in worker-id order, then
// prev, then zero.
struct Plan {
  std::vector<int> workers;  // ids of the participants: the columns of `mixing`
                             // but the last two
  bool bad = false;          // the aggregate is 0
  // Why it is bad: the limits do not hold for who is there and was not left
  // out, or the trusted worker is not among them.
  bool limits_failed = false;
  // False: `mixing` is empty and stands for the identity on the participants,
  // of whom each coordinate leaves out what is not finite. True: columns of
  // weight 0 are never read.
  bool mixes = false;
  Mixing mixing;
  Coordinate coordinate;

  // For the account. If it `blames`, each worker in `left_out` earns a strike.
  std::vector<LeftOut> left_out;
  std::vector<StageNote> notes;  // none if bad
  std::string why_bad;

  // False where so many were left out that something else must be wrong.
  bool blames() const { return !bad || limits_failed; }

  int rows() const {
    return mixes ? mixing.rows : static_cast<int>(workers.size());
  }
};

// How much of each participant is in the plan's rows: the mean of its column
// over the rows. For a rule that ends in a mean it is the participant's weight
// in the aggregate.
std::vector<double> WorkerWeights(const Plan& plan);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_PLAN_H_
