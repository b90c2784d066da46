#ifndef PARAPET_KERNELS_CUDA_ELEMENTS_H_
#define PARAPET_KERNELS_CUDA_ELEMENTS_H_

#include <cstdint>

#include "kernels/cuda/numbers.h"
#include "kernels/cuda/report.h"

namespace parapet::cuda {

// What is done to each element by itself, see parapet::Device.

// A scale, and whether float32 does (it is a power of two).
struct Scale {
  double exact = 1;
  float rounded = 1;  // of Decode: the inverse
  bool in_float32 = true;
};
inline Scale ScaleToEncode(double scale) {
  return {scale, static_cast<float>(scale), DividesExactly(scale)};
}
inline Scale ScaleToDecode(double scale) {
  return {scale, static_cast<float>(1 / scale), DividesExactly(scale)};
}

PARAPET_HD bool IsFiniteAs(float value, Stored type) {
  if (type == Stored::kFloat32) return IsFinite(value);
  return type == Stored::kBFloat16 ? (NarrowBFloat16(value) & 0x7F80) != 0x7F80
                                   : (NarrowFloat16(value) & 0x7C00) != 0x7C00;
}

PARAPET_HD void EncodeAt(const float* values, int64_t j, Stored to,
                         const Scale& scale, void* out,
                         Report::Counter* overflows) {
  const float value = values[j];
  const float product =
      scale.in_float32
          ? value * scale.rounded
          : static_cast<float>(static_cast<double>(value) * scale.exact);
  Narrow(product, out, to, j);
  if (IsFinite(value) && !IsFiniteAs(product, to)) AddTo(overflows, 1);
}

PARAPET_HD void DecodeAt(const void* in, Stored from, const Scale& scale,
                         int64_t j, float* values) {
  const float stored = Widen(in, from, j);
  values[j] =
      scale.in_float32
          ? stored * scale.rounded
          : static_cast<float>(static_cast<double>(stored) / scale.exact);
}

PARAPET_HD void WorkerMomentumAt(float beta, float rest, const float* gradient,
                                 int64_t j, float* momentum) {
  momentum[j] = beta * momentum[j] + rest * gradient[j];
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_ELEMENTS_H_
