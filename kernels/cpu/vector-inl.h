// Helpers of every vector kernel. Compiled once for each instruction set,
// inside a file that includes foreach_target.h; hence the unusual include
// guard.
#if defined(PARAPET_KERNELS_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARAPET_KERNELS_CPU_VECTOR_INL_H_
#undef PARAPET_KERNELS_CPU_VECTOR_INL_H_
#else
#define PARAPET_KERNELS_CPU_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using MaskFor = decltype(hn::Eq(hn::Zero(D()), hn::Zero(D())));

// Received payloads lie at any address, so no pointer to a wider type may be
// made of them.
template <class D>
HWY_INLINE hn::VFromD<D> LoadBytes(D d, const uint8_t* from) {
  if constexpr (MaxLanes(D()) == 1) {
    hn::TFromD<D> value;
    std::memcpy(&value, from, sizeof(value));
    return hn::Set(d, value);
  } else {
    return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
  }
}

template <class D>
HWY_INLINE void StoreBytes(hn::VFromD<D> v, D d, uint8_t* to) {
  if constexpr (MaxLanes(D()) == 1) {
    const hn::TFromD<D> value = hn::GetLane(v);
    std::memcpy(to, &value, sizeof(value));
  } else {
    const hn::Repartition<uint8_t, D> bytes;
    hn::StoreU(hn::BitCast(bytes, v), bytes, to);
  }
}

// Calls visit(tag, i) for whole vectors of type D, then for single elements at
// the end. An operation on each element by itself gets the same bits either
// way.
template <class D, class Visit>
HWY_INLINE void ForEach(D d, size_t n, const Visit& visit) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) visit(d, i);
  const hn::CappedTag<hn::TFromD<D>, 1> one;
  for (; i < n; ++i) visit(one, i);
}

// Rounds to the nearest float, infinity past the largest. Highway's emulated
// targets would stop at the largest float there, and a bad value would go
// unseen.
template <class DF, class V>
HWY_INLINE hn::VFromD<DF> RoundToFloat(DF df, V v) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  const hn::Rebind<double, DF> dd;
  double wide[MaxLanes(DF())];
  float narrow[MaxLanes(DF())];
  hn::StoreU(v, dd, wide);
  for (size_t i = 0; i < hn::Lanes(df); ++i)
    narrow[i] = static_cast<float>(wide[i]);
  return hn::LoadU(df, narrow);
#else
  return hn::DemoteTo(df, v);
#endif
}

// a * b + c, rounded once, without the instruction for it. The product is exact
// in float64; the sum is rounded there to odd, so that rounding it once more is
// harmless: S. Boldo and G. Melquiond, "Emulation of a FMA and correctly
// rounded sums: proved algorithms using rounding to odd", IEEE Transactions on
// Computers 57(4), 2008.
inline float FusedMulAddOfOne(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  double sum = product + c;
  if (!(sum - sum == 0)) return static_cast<float>(sum);
  const double added = sum - product;
  const double error = (product - (sum - added)) + (c - added);
  int64_t bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  if (error != 0 && (bits & 1) == 0) {
    bits += (error > 0) == (sum > 0) ? 1 : -1;
    std::memcpy(&sum, &bits, sizeof(bits));
  }
  return static_cast<float>(sum);
}

// a * b + c, rounded once on every target.
template <class DF, class V>
HWY_INLINE V FusedMulAdd(DF df, V a, V b, V c) {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
  return hn::MulAdd(a, b, c);
#else
  float x[MaxLanes(DF())], y[MaxLanes(DF())], z[MaxLanes(DF())];
  hn::StoreU(a, df, x);
  hn::StoreU(b, df, y);
  hn::StoreU(c, df, z);
  for (size_t i = 0; i < hn::Lanes(df); ++i)
    z[i] = FusedMulAddOfOne(x[i], y[i], z[i]);
  return hn::LoadU(df, z);
#endif
}

// Writes whole vectors past the caches where `stream` says so, `to` being
// aligned to a vector: for what nobody reads again before it is gone from them.
template <class D>
HWY_INLINE void StoreOrStream(hn::VFromD<D> v, D d, hn::TFromD<D>* to,
                              bool stream) {
  if (stream) {
    hn::Stream(v, d, to);
  } else {
    hn::StoreU(v, d, to);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
