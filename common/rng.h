#ifndef PARAPET_COMMON_RNG_H_
#define PARAPET_COMMON_RNG_H_

#include <array>
#include <cstdint>

namespace parapet {

// Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror, Shaw,
// "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. The block at (key,
// counter) is a pure function of both, so any process can make any element of a
// stream without making those before it.
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_high,
                               uint64_t counter_low);

// Mixes two 64-bit numbers into one (SplitMix64's finalizer): to derive one key
// from another.
uint64_t MixKey(uint64_t key, uint64_t value);

// A stream of numbers from Philox. Not thread-safe; copying one forks it.
class Random {
 public:
  explicit Random(uint64_t key, uint64_t stream = 0)
      : key_(key), stream_(stream) {}

  uint32_t Next32();
  uint64_t Next64();
  // Uniform over [0, bound), without bias. bound > 0.
  uint64_t Below(uint64_t bound);
  // Uniform over [0, 1), 53 bits.
  double Uniform();
  // Standard normal, by Box and Muller.
  double Normal();

 private:
  uint64_t key_, stream_, counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_RNG_H_
