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

}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
