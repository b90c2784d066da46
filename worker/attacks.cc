#include "worker/attacks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/options.h"
#include "common/rng.h"

namespace parapet {
namespace {

using Kind = AttackKind;

struct AttackInfo {
  std::string name;
  Kind kind;
  std::vector<OptionSpec> options = {};
  double strength = 0;
};

std::vector<AttackInfo> AllAttacks() {
  const OptionSpec s{.name = "s"}, tau{.name = "tau"};
  const OptionSpec z{.name = "z", .words = {"auto"}};
  const OptionSpec deviation{.name = "deviation", .least = 0};
  const OptionSpec worker{
      .name = "i", .kind = OptionSpec::Kind::kInteger, .least = 0};
  return {{"none", Kind::kNone},
          {"sign_flip", Kind::kSignFlip, {s}, 10},
          {"ipm", Kind::kIpm, {tau}, 10},
          {"alie", Kind::kAlie, {z}, 1.5},
          {"gaussian", Kind::kGaussian, {deviation}, 1},
          {"mimic", Kind::kMimic, {worker}},
          {"zero", Kind::kZero},
          {"nan", Kind::kNan},
          {"inf", Kind::kInf},
          {"scale", Kind::kScale, {s}, 100},
          {"min_max", Kind::kMinMax},
          {"min_sum", Kind::kMinSum},
          {"label_flip", Kind::kLabelFlip},
          {"equivocate", Kind::kEquivocate},
          {"partial", Kind::kPartial},
          {"silent", Kind::kSilent},
          {"replay", Kind::kReplay},
          {"flood", Kind::kFlood}};
}

absl::Status UnknownAttack(absl::string_view name,
                           const std::vector<AttackInfo>& attacks) {
  return absl::InvalidArgumentError(
      absl::StrCat("there is no attack '", name, "'; expected one of ",
                   absl::StrJoin(attacks, ", ",
                                 [](std::string* out, const AttackInfo& info) {
                                   absl::StrAppend(out, info.name);
                                 })));
}

// Mean and standard deviation of the honest vectors, and what min_max and
// min_sum make of them.
class Crowd {
 public:
  explicit Crowd(const AttackView& view)
      : view_(view),
        h_(static_cast<double>(view.honest.size())),
        mu_(view.elements),
        sigma_(view.elements) {
    for (int64_t j = 0; j < view.elements; ++j) Describe(j);
  }

  const std::vector<double>& mu() const { return mu_; }

  // mu - z sigma.
  void Write(double z, float* out) const {
    for (int64_t j = 0; j < view_.elements; ++j) {
      out[j] = static_cast<float>(mu_[j] - z * sigma_[j]);
    }
  }

  // The largest gamma with which the vector is no farther from any honest one
  // than the honest vectors are from each other.
  double MinMaxGamma() const {
    double diameter = 0;
    for (size_t i = 0; i < view_.honest.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        diameter = std::max(diameter,
                            SquaredDistance(view_.honest[i], view_.honest[j]));
      }
    }
    double gamma = std::numeric_limits<double>::infinity();
    for (const float* x : view_.honest) {
      const Offset offset = OffsetOf(x);
      gamma = std::min(gamma, Solve(offset.along, diameter - offset.square));
    }
    return gamma;
  }

  // The same for the sum of squared distances to the honest.
  double MinSumGamma() const {
    double most = 0, along = 0, square = 0;
    for (const float* a : view_.honest) {
      double sum = 0;
      for (const float* b : view_.honest) sum += SquaredDistance(a, b);
      most = std::max(most, sum);
      const Offset offset = OffsetOf(a);
      along += offset.along / h_;
      square += offset.square / h_;
    }
    return Solve(along, most / h_ - square);
  }

 private:
  struct Offset {
    double along = 0;   // (mu - x).sigma
    double square = 0;  // ||mu - x||^2
  };

  void Describe(int64_t j) {
    double sum = 0, squares = 0;
    for (const float* x : view_.honest) sum += x[j];
    mu_[j] = sum / h_;
    for (const float* x : view_.honest)
      squares += (x[j] - mu_[j]) * (x[j] - mu_[j]);
    sigma_[j] = h_ > 1 ? std::sqrt(squares / (h_ - 1)) : 0;
  }

  double SquaredDistance(const float* a, const float* b) const {
    double sum = 0;
    for (int64_t j = 0; j < view_.elements; ++j) {
      const double difference = static_cast<double>(a[j]) - b[j];
      sum += difference * difference;
    }
    return sum;
  }

  Offset OffsetOf(const float* x) const {
    Offset offset;
    for (int64_t j = 0; j < view_.elements; ++j) {
      offset.along += (mu_[j] - x[j]) * sigma_[j];
      offset.square += (mu_[j] - x[j]) * (mu_[j] - x[j]);
    }
    return offset;
  }

  // The larger root gamma of S gamma^2 - 2 along gamma - room = 0; 0 if the
  // honest all agree.
  double Solve(double along, double room) const {
    const double s =
        std::inner_product(sigma_.begin(), sigma_.end(), sigma_.begin(), 0.0);
    if (s == 0) return 0;
    return (along + std::sqrt(std::max(0.0, along * along + s * room))) / s;
  }

  const AttackView& view_;
  double h_;
  std::vector<double> mu_, sigma_;
};

void Scale(double factor, const AttackView& view, float* out) {
  for (int64_t j = 0; j < view.elements; ++j)
    out[j] = static_cast<float>(factor * view.own[j]);
}

void WriteNoise(double deviation, const AttackView& view, float* out) {
  Random random(view.key);
  for (int64_t j = 0; j < view.elements; ++j) {
    out[j] = static_cast<float>(deviation * random.Normal());
  }
}

void WriteMean(double factor, const AttackView& view, float* out) {
  const Crowd crowd(view);
  for (int64_t j = 0; j < view.elements; ++j)
    out[j] = static_cast<float>(factor * crowd.mu()[j]);
}

void WriteMimic(int target, const AttackView& view, float* out) {
  const auto found =
      std::find(view.honest_ids.begin(), view.honest_ids.end(), target);
  // One that has left, or has no sample, pushes nothing that could be copied.
  const float* row = found == view.honest_ids.end()
                         ? view.own
                         : view.honest[found - view.honest_ids.begin()];
  if (row != out) std::copy(row, row + view.elements, out);
}

absl::Status WriteAlie(const Attack& attack, const AttackView& view,
                       float* out) {
  double z = attack.strength;
  if (attack.automatic) {
    absl::StatusOr<double> chosen = AlieZ(view.n, view.f);
    if (!chosen.ok()) return chosen.status();
    z = *chosen;
  }
  Crowd(view).Write(z, out);
  return absl::OkStatus();
}

void WriteExtreme(const Attack& attack, const AttackView& view, float* out) {
  const Crowd crowd(view);
  crowd.Write(
      attack.kind == Kind::kMinMax ? crowd.MinMaxGamma() : crowd.MinSumGamma(),
      out);
}

// What some attacks put at every coordinate.
std::optional<float> EverywhereOf(Kind kind) {
  switch (kind) {
    case Kind::kZero:
      return 0.0f;
    case Kind::kNan:
      return std::numeric_limits<float>::quiet_NaN();
    case Kind::kInf:
      return std::numeric_limits<float>::infinity();
    default:
      return std::nullopt;
  }
}

}  // namespace

bool Attack::needs_honest() const {
  return kind == Kind::kIpm || kind == Kind::kAlie || kind == Kind::kMimic ||
         kind == Kind::kMinMax || kind == Kind::kMinSum;
}

absl::StatusOr<Attack> ParseAttack(absl::string_view text) {
  absl::StatusOr<std::vector<Call>> calls = ParseCalls(text);
  if (!calls.ok()) return calls.status();
  if (calls->size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected one attack, found '", text, "'"));
  }
  const Call& call = calls->front();
  const std::vector<AttackInfo> attacks = AllAttacks();
  const auto info = std::find_if(
      attacks.begin(), attacks.end(),
      [&](const AttackInfo& one) { return one.name == call.name; });
  if (info == attacks.end()) return UnknownAttack(call.name, attacks);
  absl::StatusOr<Options> options = Options::Create(call, info->options);
  if (!options.ok()) return options.status();
  Attack attack{info->kind, info->strength};
  attack.target = options->Integer("i", 0);
  attack.automatic = options->Word("z", "") == "auto";
  for (const OptionSpec& spec : info->options) {
    attack.strength = options->Number(spec.name, attack.strength);
  }
  return attack;
}

absl::StatusOr<double> AlieZ(int n, int f) {
  const int supporters = n / 2 + 1 - f, honest = n - f;
  const double p =
      honest > 0 ? static_cast<double>(honest - supporters) / honest : 0;
  if (supporters <= 0 || p <= 0.5) {
    return absl::FailedPreconditionError(
        absl::StrCat("alie(auto) with ", n, " workers and f=", f,
                     " has no z above 0; give one, as in alie(1.5)"));
  }
  return NormalQuantile(p);
}

double NormalQuantile(double p) {
  double low = -40, high = 40;
  for (int k = 0; k < 200; ++k) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

void FlipLabels(int64_t classes, absl::Span<int32_t> labels) {
  for (int32_t& label : labels)
    label = static_cast<int32_t>(classes) - 1 - label;
}

absl::Status MakeAttack(const Attack& attack, const AttackView& view,
                        float* out) {
  if (const std::optional<float> value = EverywhereOf(attack.kind)) {
    std::fill(out, out + view.elements, *value);
    return absl::OkStatus();
  }
  switch (attack.kind) {
    case Kind::kSignFlip:
      Scale(-attack.strength, view, out);
      break;
    case Kind::kScale:
      Scale(attack.strength, view, out);
      break;
    case Kind::kIpm:
      WriteMean(-attack.strength, view, out);
      break;
    case Kind::kAlie:
      return WriteAlie(attack, view, out);
    case Kind::kGaussian:
      WriteNoise(attack.strength, view, out);
      break;
    case Kind::kMimic:
      WriteMimic(attack.target, view, out);
      break;
    case Kind::kMinMax:
    case Kind::kMinSum:
      WriteExtreme(attack, view, out);
      break;
    default:
      return absl::InvalidArgumentError(
          "this attack is conduct: it makes no vector");
  }
  return absl::OkStatus();
}

}  // namespace parapet
