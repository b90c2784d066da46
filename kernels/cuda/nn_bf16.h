#ifndef PARAPET_KERNELS_CUDA_NN_BF16_H_
#define PARAPET_KERNELS_CUDA_NN_BF16_H_

#include <cstdint>
#include <cstring>

#include "kernels/cuda/host_device.h"

namespace parapet::cuda {

// A bfloat16: the upper half of a float32.
using Bf16 = uint16_t;

// To nearest even. What is too large becomes infinite; a NaN stays one.
PARAPET_HD Bf16 ToBf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<Bf16>(bits >> 16 | 0x40u);
  return static_cast<Bf16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

PARAPET_HD float FromBf16(Bf16 value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float out;
  memcpy(&out, &bits, sizeof(out));
  return out;
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_BF16_H_
