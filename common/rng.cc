#include "common/rng.h"

#include <cmath>
#include <numbers>

namespace parapet {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

}  // namespace

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_high,
                               uint64_t counter_low) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low),
                               static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high),
                               static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key),
           k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c[0],
                   p1 = uint64_t{kMultiplier1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1,
         static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

uint64_t MixKey(uint64_t key, uint64_t value) {
  uint64_t x = key + 0x9E3779B97F4A7C15u * (value + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint32_t Random::Next32() {
  if (used_ == 4) {
    block_ = Philox(key_, stream_, counter_++);
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Random::Next64() {
  const uint64_t low = Next32();
  return low | uint64_t{Next32()} << 32;
}

uint64_t Random::Below(uint64_t bound) {
  // Numbers under 2^64 mod bound are thrown away, so that every remainder is
  // equally likely.
  const uint64_t reject = -bound % bound;
  uint64_t x = Next64();
  while (x < reject) x = Next64();
  return x % bound;
}

double Random::Uniform() {
  return static_cast<double>(Next64() >> 11) * 0x1p-53;
}

double Random::Normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * Uniform());
}

}  // namespace parapet
