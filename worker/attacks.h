#ifndef PARAPET_WORKER_ATTACKS_H_
#define PARAPET_WORKER_ATTACKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parapet {

// What a worker that attacks sends instead of its gradient: for tests, demos
// and load tests only. mu and sigma are the mean and standard deviation (ddof =
// 1) of the honest vectors that it knows.
enum class AttackKind : uint8_t {
  kNone,
  // Other vectors, made by MakeAttack.
  kSignFlip,  // -s x_i
  kIpm,       // -tau mu: Xie, Koyejo, Gupta, "Fall of empires", UAI 2019
  kAlie,      // mu - z sigma: Baruch, Baruch, Goldberg, "A little is enough",
              // NeurIPS 2019
  kGaussian,  // noise of a standard deviation
  kMimic,  // the vector of one honest worker: Karimireddy, He, Jaggi, ICLR 2022
  kZero,
  kNan,
  kInf,
  kScale,   // s x_i
  kMinMax,  // mu - gamma sigma, as far as no honest pair is apart: Shejwalkar,
            // Houmansadr, NDSS 2021
  kMinSum,  // the same, for the sum of squared distances
  // Other conduct: whoever trains, or sends, does it.
  kLabelFlip,   // trains with label C-1-y
  kEquivocate,  // other gradients to other shards, and the same chunk twice
                // with other bytes
  kPartial,     // leaves out one shard
  kSilent,      // sends nothing
  kReplay,      // sends an old round
  kFlood,       // pushes far more than its credits
};

// How many rounds ahead of its credit a flood pushes in each round.
inline constexpr uint64_t kFloodRounds = 8;

struct Attack {
  AttackKind kind = AttackKind::kNone;
  double strength = 0;     // s, tau, z or the deviation
  bool automatic = false;  // alie(auto): z from n and f
  int target = 0;          // mimic: a worker's id

  // Whether MakeAttack makes its vectors.
  bool makes_vector() const {
    return kind != AttackKind::kNone && kind < AttackKind::kLabelFlip;
  }
  // Whether it needs the vectors of honest workers.
  bool needs_honest() const;
};

// "none", "sign_flip", "ipm(0.5)", "alie(auto)", ...: defaults are
// sign_flip(10), ipm(10), alie(1.5), gaussian(1), mimic(0), scale(100).
// InvalidArgument says what was expected.
absl::StatusOr<Attack> ParseAttack(absl::string_view text);

// The z of alie(auto) with n workers of whom f attack: the largest with which
// the attackers and the honest workers beyond it are a majority.
// FailedPrecondition unless it is above 0.
absl::StatusOr<double> AlieZ(int n, int f);

// The quantile function of the standard normal distribution, 0 < p < 1.
double NormalQuantile(double p);

// What one attacker knows in a round.
struct AttackView {
  absl::Span<const float* const>
      honest;  // at least one vector, if the attack needs any
  absl::Span<const int> honest_ids;  // whose they are (mimic)
  const float* own = nullptr;        // its own honest vector
  int64_t elements = 0;
  int n = 0, f = 0;  // alie(auto)
  uint64_t key = 0;  // of the noise: from the seed and the round alone, so
                     // colluders send the same
};

// label_flip: y becomes classes - 1 - y.
void FlipLabels(int64_t classes, absl::Span<int32_t> labels);

// Writes the attacker's vector to `out` (view.elements values; may be
// view.own). mimic of a worker that is not among the honest is its own.
// FailedPrecondition if alie(auto) makes no sense for n and f.
absl::Status MakeAttack(const Attack& attack, const AttackView& view,
                        float* out);

}  // namespace parapet

#endif  // PARAPET_WORKER_ATTACKS_H_
