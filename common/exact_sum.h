#ifndef PARAPET_COMMON_EXACT_SUM_H_
#define PARAPET_COMMON_EXACT_SUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace parapet {

// A sum of doubles without any rounding: a fixed-point number wide enough for
// every finite double (a long accumulator after Kulisch; U. Kulisch and V.
// Snyder, "The exact dot product as basic tool for long interval arithmetic",
// Computing 91, 2011). The order and grouping of additions cannot change it, so
// servers can add up parts of a sum and get the same bits for any number of
// servers.
class ExactSum {
 public:
  // Up to 2^30 additions and merges in all. A value that is not finite makes
  // the sum not finite.
  void Add(double value);
  void Merge(const ExactSum& other);
  // The sum rounded once, to nearest even; infinity past the largest double;
  // NaN if any was NaN or infinities of both signs met.
  double Round() const;

  // A fixed-length byte string, the same for equal sums. Parse refuses other
  // lengths and bits that no sum can have.
  static constexpr size_t kBytes = 568;
  std::string Serialize() const;
  static absl::StatusOr<ExactSum> Parse(absl::Span<const std::byte> bytes);

  // A shorter string, for a sum that is not below 0: a sum of squares of
  // float32 takes under 100 bytes. ReadCompact takes it off the front of
  // `bytes` and refuses all but what AppendCompact writes.
  void AppendCompact(std::string* out) const;
  static absl::StatusOr<ExactSum> ReadCompact(
      absl::Span<const std::byte>* bytes);

 private:
  // Limb i counts units of 2^(32 i - 1074). Signed, with room for 2^30
  // additions between carries.
  static constexpr int kLimbs = 70;
  void Normalize();
  double RoundMagnitude() const;
  bool IsPossible(bool finite) const;
  bool SetFlags(uint64_t flags);
  uint64_t Flags() const;

  std::array<int64_t, kLimbs> limbs_{};
  bool nan_ = false, positive_infinity_ = false, negative_infinity_ = false;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_EXACT_SUM_H_
