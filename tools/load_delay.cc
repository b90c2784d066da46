#include "tools/load_delay.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/rng.h"
#include "worker/attacks.h"

namespace parapet {
namespace {

constexpr uint64_t kShare = 0x7368617265;
constexpr double kSigma = 1, kAlpha = 1.5;

constexpr std::pair<const char*, DelayShape> kShapes[] = {
    {"exponential", DelayShape::kExponential},
    {"constant", DelayShape::kConstant},
    {"uniform", DelayShape::kUniform},
    {"lognormal", DelayShape::kLogNormal},
    {"pareto", DelayShape::kPareto}};

// Uniform over (0, 1).
double UniformOf(uint64_t key, uint64_t a, uint64_t b) {
  const uint64_t bits = MixKey(MixKey(key, a), b) >> 12;
  return (static_cast<double>(bits) + 0.5) / static_cast<double>(1ull << 52);
}

// A value of mean 1, from one that is uniform.
double Shaped(DelayShape shape, double u) {
  switch (shape) {
    case DelayShape::kConstant:
      return 1;
    case DelayShape::kUniform:
      return 2 * u;
    case DelayShape::kLogNormal:
      return std::exp(kSigma * NormalQuantile(u) - kSigma * kSigma / 2);
    case DelayShape::kPareto:
      return (kAlpha - 1) / kAlpha * std::pow(u, -1 / kAlpha);
    case DelayShape::kExponential:
      break;
  }
  return -std::log(u);
}

std::optional<DelayShape> ShapeOf(const std::string& name) {
  for (const auto& [known, shape] : kShapes) {
    if (name == known) return shape;
  }
  return std::nullopt;
}

}  // namespace

absl::Duration LoadDelay::At(uint64_t key, int worker, uint64_t round) const {
  const double u = UniformOf(key, static_cast<uint64_t>(worker), round);
  return mean * std::min(Shaped(shape, u), kLongest);
}

absl::StatusOr<LoadDelay> ParseLoadDelay(const std::string& text,
                                         absl::Duration most, bool shapes) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  LoadDelay delay;
  const bool shaped = shapes && parts.size() == 3;
  std::optional<DelayShape> shape = delay.shape;
  if (shaped) shape = ShapeOf(parts[2]);
  if ((parts.size() == 2 || shaped) && shape.has_value() &&
      absl::SimpleAtod(parts[0], &delay.share) &&
      absl::ParseDuration(parts[1], &delay.mean) && delay.share >= 0 &&
      delay.share <= 1 && delay.mean >= absl::ZeroDuration() &&
      delay.mean <= most) {
    delay.shape = *shape;
    return delay;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "must be a share of the players from 0 to 1 and a delay of up to ",
      absl::FormatDuration(most), ", as in 0.1,20ms",
      shapes ? ", and maybe one of exponential, constant, uniform, lognormal "
               "and pareto, as in 0.1,20ms,pareto"
             : ""));
}

// The first of all workers in an order that the seed makes.
bool IsHeldUp(const LoadDelay& delay, uint64_t seed, int worker, int workers) {
  const auto many =
      static_cast<int>(std::lround(delay.share * static_cast<double>(workers)));
  const uint64_t key = MixKey(seed, kShare);
  const uint64_t mine = MixKey(key, static_cast<uint64_t>(worker));
  int before = 0;
  for (int other = 0; other < workers && before < many; ++other)
    before += MixKey(key, static_cast<uint64_t>(other)) < mine ? 1 : 0;
  return before < many;
}

}  // namespace parapet
