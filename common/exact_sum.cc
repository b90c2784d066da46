#include "common/exact_sum.h"

#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

constexpr int kLimbBits = 32;
constexpr int64_t kLimbMask = 0xFFFFFFFF;
// Bits of the largest sum: 2^30 doubles below 2^1024, in units of 2^-1074.
constexpr int kSumBits = 1024 + 1074 + 30;
constexpr int kFraction = 52;  // stored bits of a double's significand
constexpr int kExponents = 0x7FF;
constexpr size_t kNotFinite = 255;  // where a compact sum has its first limb

void AppendLittleEndian(uint64_t value, std::string& out) {
  for (int byte = 0; byte < 8; ++byte)
    out.push_back(static_cast<char>(value >> (8 * byte)));
}

uint64_t ReadLittleEndian(const std::byte* from) {
  uint64_t value = 0;
  for (int byte = 7; byte >= 0; --byte)
    value = value << 8 | std::to_integer<uint64_t>(from[byte]);
  return value;
}

}  // namespace

void ExactSum::Add(double value) {
  if (!std::isfinite(value)) {
    nan_ = nan_ || std::isnan(value);
    (value > 0 ? positive_infinity_ : negative_infinity_) |= std::isinf(value);
    return;
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> kFraction) & kExponents;
  uint64_t significand = bits & ((uint64_t{1} << kFraction) - 1);
  if (exponent > 0) significand |= uint64_t{1} << kFraction;
  // The value is significand * 2^shift units: at most 53 + 31 bits from limb
  // shift / 32 on.
  const int shift = exponent > 0 ? exponent - 1 : 0;
  const int offset = shift % kLimbBits;
  const uint64_t low = significand << offset;
  const uint64_t high = offset == 0 ? 0 : significand >> (64 - offset);
  const int64_t sign = value < 0 ? -1 : 1;
  int64_t* limb = &limbs_[static_cast<size_t>(shift / kLimbBits)];
  limb[0] += sign * static_cast<int64_t>(low & kLimbMask);
  limb[1] += sign * static_cast<int64_t>(low >> kLimbBits);
  limb[2] += sign * static_cast<int64_t>(high);
}

void ExactSum::Merge(const ExactSum& other) {
  for (size_t i = 0; i < limbs_.size(); ++i) limbs_[i] += other.limbs_[i];
  nan_ |= other.nan_;
  positive_infinity_ |= other.positive_infinity_;
  negative_infinity_ |= other.negative_infinity_;
}

// Afterwards every limb but the last is in [0, 2^32), and the last holds the
// sign: one form for each sum. A sum that is not finite has no value and keeps
// limbs of zero.
void ExactSum::Normalize() {
  if (positive_infinity_ && negative_infinity_) nan_ = true;
  if (nan_) positive_infinity_ = negative_infinity_ = false;
  if (nan_ || positive_infinity_ || negative_infinity_) limbs_.fill(0);
  for (size_t i = 0; i + 1 < limbs_.size(); ++i) {
    limbs_[i + 1] +=
        limbs_[i] >> kLimbBits;  // rounds down, so what stays is not negative
    limbs_[i] &= kLimbMask;
  }
}

double ExactSum::Round() const {
  ExactSum sum = *this;
  sum.Normalize();
  if (sum.nan_) return std::numeric_limits<double>::quiet_NaN();
  if (sum.positive_infinity_) return std::numeric_limits<double>::infinity();
  if (sum.negative_infinity_) return -std::numeric_limits<double>::infinity();
  const bool negative = sum.limbs_.back() < 0;
  if (negative) {
    for (int64_t& limb : sum.limbs_) limb = -limb;
    sum.Normalize();
  }
  const double magnitude = sum.RoundMagnitude();
  return negative ? -magnitude : magnitude;
}

// Of a sum that is normalized, finite and not negative.
double ExactSum::RoundMagnitude() const {
  int top = kLimbs - 1;
  while (top > 0 && limbs_[static_cast<size_t>(top)] == 0) --top;
  const auto limb = [this](int i) {
    return i < 0 ? uint64_t{0}
                 : static_cast<uint64_t>(limbs_[static_cast<size_t>(i)]);
  };
  // The top 64 bits from the highest one on, then whether anything follows.
  const int zeros = std::countl_zero(static_cast<uint32_t>(limb(top)));
  if (zeros == kLimbBits) return 0;
  uint64_t bits = (limb(top) << kLimbBits | limb(top - 1)) << zeros;
  const uint64_t rest = limb(top - 2) << zeros;
  bits |= rest >> kLimbBits;
  bool sticky = (rest & kLimbMask) != 0;
  for (int i = top - 3; i >= 0; --i) sticky |= limb(i) != 0;
  const int unit =
      kLimbBits * (top - 1) - zeros;  // `bits` counts units of 2^(unit - 1074)
  // 53 bits stay. No sum has bits below 2^-1074, so a subnormal is not rounded
  // at all.
  constexpr int kDropped = 63 - kFraction;
  constexpr uint64_t kHalf = uint64_t{1} << (kDropped - 1);
  const uint64_t dropped = bits & (2 * kHalf - 1);
  uint64_t kept = bits >> kDropped;
  if (dropped > kHalf || (dropped == kHalf && (sticky || (kept & 1) != 0)))
    ++kept;
  return std::ldexp(static_cast<double>(kept), unit + kDropped - 1074);
}

std::string ExactSum::Serialize() const {
  ExactSum sum = *this;
  sum.Normalize();
  std::string out;
  out.reserve(kBytes);
  for (int64_t limb : sum.limbs_)
    AppendLittleEndian(static_cast<uint64_t>(limb), out);
  AppendLittleEndian(sum.Flags(), out);
  return out;
}

uint64_t ExactSum::Flags() const {
  return (nan_ ? 1u : 0u) | (positive_infinity_ ? 2u : 0u) |
         (negative_infinity_ ? 4u : 0u);
}

// Of a normalized sum: at most one flag. False if there are no such flags.
bool ExactSum::SetFlags(uint64_t flags) {
  nan_ = flags == 1;
  positive_infinity_ = flags == 2;
  negative_infinity_ = flags == 4;
  return Flags() == flags;
}

absl::StatusOr<ExactSum> ExactSum::Parse(absl::Span<const std::byte> bytes) {
  if (bytes.size() != kBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an exact sum has ", kBytes, " bytes, not ", bytes.size()));
  }
  ExactSum sum;
  for (size_t i = 0; i < sum.limbs_.size(); ++i) {
    sum.limbs_[i] =
        static_cast<int64_t>(ReadLittleEndian(bytes.data() + 8 * i));
  }
  const uint64_t flags = ReadLittleEndian(bytes.data() + 8 * kLimbs);
  const bool finite = flags == 0;
  if (!sum.SetFlags(flags)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an exact sum has no flags ", flags));
  }
  if (!sum.IsPossible(finite))
    return absl::InvalidArgumentError("bits that no exact sum has");
  return sum;
}

// One byte with the number of the lowest limb that is not 0 (kNotFinite: the
// next byte has the flags), one with how many follow up to the highest, and 4
// for each of them. The sum 0 is two bytes of 0.
void ExactSum::AppendCompact(std::string* out) const {
  ExactSum sum = *this;
  sum.Normalize();
  if (const uint64_t flags = sum.Flags(); flags != 0) {
    out->push_back(static_cast<char>(kNotFinite));
    out->push_back(static_cast<char>(flags));
    return;
  }
  size_t first = 0, end = sum.limbs_.size();
  while (end > 0 && sum.limbs_[end - 1] == 0) --end;
  while (first < end && sum.limbs_[first] == 0) ++first;
  if (end == 0) first = 0;
  out->push_back(static_cast<char>(first));
  out->push_back(static_cast<char>(end - first));
  for (size_t i = first; i < end; ++i) {
    for (int byte = 0; byte < 4; ++byte)
      out->push_back(static_cast<char>(sum.limbs_[i] >> (8 * byte)));
  }
}

absl::StatusOr<ExactSum> ExactSum::ReadCompact(
    absl::Span<const std::byte>* bytes) {
  const absl::Status bad =
      absl::InvalidArgumentError("bytes that are no compact exact sum");
  if (bytes->size() < 2) return bad;
  const auto first = std::to_integer<size_t>((*bytes)[0]);
  const auto count = std::to_integer<size_t>((*bytes)[1]);
  bytes->remove_prefix(2);
  ExactSum sum;
  if (first == kNotFinite) {
    if (count == 0 || !sum.SetFlags(count)) return bad;
    return sum;
  }
  if (first + count > sum.limbs_.size() || bytes->size() < 4 * count ||
      (count == 0 && first > 0)) {
    return bad;
  }
  for (size_t i = 0; i < 4 * count; ++i) {
    sum.limbs_[first + i / 4] |= std::to_integer<int64_t>((*bytes)[i])
                                 << (8 * (i % 4));
  }
  bytes->remove_prefix(4 * count);
  const bool shortest = count == 0 || (sum.limbs_[first] != 0 &&
                                       sum.limbs_[first + count - 1] != 0);
  if (!shortest || sum.limbs_.back() != 0 || !sum.IsPossible(true)) return bad;
  return sum;
}

// Whether the limbs are as Normalize leaves them, and not beyond what 2^30
// doubles can add up to.
bool ExactSum::IsPossible(bool finite) const {
  constexpr int kTop = kSumBits / kLimbBits;
  const int64_t sign = limbs_.back();
  if (sign != 0 && sign != -1) return false;
  const int64_t fill = sign & kLimbMask;
  for (int i = 0; i + 1 < kLimbs; ++i) {
    const int64_t limb = limbs_[static_cast<size_t>(i)];
    if ((limb & ~kLimbMask) != 0 || (!finite && limb != 0)) return false;
    if (i > kTop && limb != fill) return false;
    if (i == kTop && (limb ^ fill) >> (kSumBits % kLimbBits) != 0) return false;
  }
  return finite || sign == 0;
}

}  // namespace parapet
