#ifndef PARAPET_KERNELS_CUDA_NUMBERS_H_
#define PARAPET_KERNELS_CUDA_NUMBERS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/host_device.h"

namespace parapet::cuda {

// How an element is stored. The values are those of parapet::DType.
enum class Stored : uint8_t { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2 };

PARAPET_HD int64_t SizeOf(Stored type) {
  return type == Stored::kFloat32 ? 4 : 2;
}

PARAPET_HD uint32_t BitsOf(float value) {
  return std::bit_cast<uint32_t>(value);
}
PARAPET_HD float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }

PARAPET_HD bool IsFinite(float value) {
  return (BitsOf(value) & 0x7F800000u) != 0x7F800000u;
}
PARAPET_HD bool IsFinite(double value) { return value - value == 0; }

PARAPET_HD float WidenBFloat16(uint16_t stored) {
  return FloatOf(uint32_t{stored} << 16);
}

// IEEE 754 binary16: 5 bits of exponent with bias 15, 10 of fraction. Exact;
// NaNs become quiet.
PARAPET_HD float WidenFloat16(uint16_t stored) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t magnitude = stored & 0x7FFFu;
  const uint32_t sign = (uint32_t{stored} ^ magnitude) << 16;
  const uint32_t normal = (magnitude << 13) + kRebias;
  if (magnitude < 0x400) {
    // A subnormal m 2^-24 is (2^-14 + m 2^-24) - 2^-14.
    const float raised = FloatOf(normal + (1u << 23));
    return FloatOf(BitsOf(raised - 0x1p-14f) | sign);
  }
  if (magnitude < 0x7C00) return FloatOf(normal | sign);
  const uint32_t quiet = magnitude > 0x7C00 ? 1u << 22 : 0;
  return FloatOf((normal + kRebias) | quiet | sign);
}

// To nearest even; NaNs keep their top bits and become quiet.
PARAPET_HD uint16_t NarrowBFloat16(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

PARAPET_HD uint16_t NarrowFloat16(float value) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t bits = BitsOf(value) & 0x7FFFFFFFu;
  const auto sign = static_cast<uint16_t>((BitsOf(value) >> 31) << 15);
  uint32_t result = 0;
  if (bits > 0x7F800000u) {
    result = 0x7E00u | ((bits >> 13) & 0x3FFu);
  } else if (bits >= 143u << 23) {
    result = 0x7C00;
  } else if (bits < 113u << 23) {
    // Adding 1/2 leaves the multiple of 2^-24 in the low bits, rounded by the
    // addition itself.
    result = BitsOf(FloatOf(bits) + 0.5f) - BitsOf(0.5f);
  } else {
    result = (bits - kRebias + 0xFFFu + ((bits >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(result | sign);
}

// The element `index` of stored numbers, which are aligned, as float32.
PARAPET_HD float Widen(const void* data, Stored type, int64_t index) {
  if (type == Stored::kFloat32) return static_cast<const float*>(data)[index];
  const uint16_t stored = static_cast<const uint16_t*>(data)[index];
  return type == Stored::kBFloat16 ? WidenBFloat16(stored)
                                   : WidenFloat16(stored);
}

// Stores a number, to nearest even.
PARAPET_HD void Narrow(float value, void* data, Stored type, int64_t index) {
  if (type == Stored::kFloat32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = type == Stored::kBFloat16
                                              ? NarrowBFloat16(value)
                                              : NarrowFloat16(value);
  }
}

// Whether a division by `scale` is a multiplication by its inverse, bit for
// bit. For the host.
inline bool DividesExactly(double scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5 && exponent > -125 &&
         exponent < 125;
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NUMBERS_H_
