// Vector conversions between float32 and the two 16-bit types. The integer code
// is the definition; F16C gives the same bits and is used where it is there.
#if defined(PARAPET_KERNELS_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARAPET_KERNELS_CPU_HALF_INL_H_
#undef PARAPET_KERNELS_CPU_HALF_INL_H_
#else
#define PARAPET_KERNELS_CPU_HALF_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {

// How each type is stored. Load and Store take the address of the first byte of
// the first element.
struct Float32Format {
  static constexpr size_t kBytes = 4;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> Load(DF df, const uint8_t* from) {
    return LoadBytes(df, from);
  }
  // Returns which results are infinite or NaN.
  template <class DF>
  static HWY_INLINE MaskFor<DF> Store(DF df, hn::VFromD<DF> v, uint8_t* to) {
    StoreBytes(v, df, to);
    return hn::Not(hn::Lt(hn::Abs(v), hn::Inf(df)));
  }
};

// Writes the low halves of the lanes.
template <class DI, class V>
HWY_INLINE void StoreLow16(DI di, V v, uint8_t* to) {
  const hn::Rebind<uint16_t, DI> du16;
  StoreBytes(hn::DemoteTo(du16, v), du16, to);
}

template <class DI>
HWY_INLINE hn::VFromD<DI> Load16(DI di, const uint8_t* from) {
  return hn::PromoteTo(di, LoadBytes(hn::Rebind<uint16_t, DI>(), from));
}

struct BFloat16Format {
  static constexpr size_t kBytes = 2;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> Load(DF df, const uint8_t* from) {
    return hn::BitCast(
        df, hn::ShiftLeft<16>(Load16(hn::RebindToSigned<DF>(), from)));
  }

  template <class DF>
  static HWY_INLINE MaskFor<DF> Store(DF df, hn::VFromD<DF> v, uint8_t* to) {
    const hn::RebindToUnsigned<DF> du;
    const hn::RebindToSigned<DF> di;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded =
        hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
    // Rounding could turn a NaN into an infinity or a zero: keep its top bits
    // and make it quiet.
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    // Not Ne(v, v): Highway's answer for NaN is false with AVX2 and true with
    // SSE4.
    const auto nan =
        hn::Gt(hn::BitCast(di, hn::Abs(v)), hn::Set(di, 0x7F800000));
    const auto result =
        hn::IfThenElse(nan, hn::BitCast(di, quiet), hn::BitCast(di, rounded));
    StoreLow16(di, result, to);
    const auto exponent = hn::Set(di, 0x7F80);
    return hn::RebindMask(df, hn::Eq(hn::And(result, exponent), exponent));
  }
};

// IEEE 754 binary16: 5 bits of exponent with bias 15, 10 of fraction.
struct Float16Format {
  static constexpr size_t kBytes = 2;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> Load(DF df, const uint8_t* from) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
    const hn::Rebind<hwy::float16_t, DF> dh;
    const hn::Rebind<uint16_t, DF> du16;
    return hn::PromoteTo(df, hn::BitCast(dh, LoadBytes(du16, from)));
#else
    return Widen(df, Load16(hn::RebindToSigned<DF>(), from));
#endif
  }

  template <class DF>
  static HWY_INLINE MaskFor<DF> Store(DF df, hn::VFromD<DF> v, uint8_t* to) {
    const hn::RebindToSigned<DF> di;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
    const hn::Rebind<hwy::float16_t, DF> dh;
    const hn::Rebind<uint16_t, DF> du16;
    const auto half = hn::BitCast(du16, hn::DemoteTo(dh, v));
    StoreBytes(half, du16, to);
    const auto result = hn::PromoteTo(di, half);
#else
    const auto result = Narrow(df, v);
    StoreLow16(di, result, to);
#endif
    const auto exponent = hn::Set(di, 0x7C00);
    return hn::RebindMask(df, hn::Eq(hn::And(result, exponent), exponent));
  }

 private:
  static constexpr int32_t kRebias = (127 - 15) << 23;

  // Exact. NaNs become quiet, as F16C makes them.
  template <class DF, class V>
  static HWY_INLINE hn::VFromD<DF> Widen(DF df, V half) {
    const hn::RebindToSigned<DF> di;
    const auto magnitude = hn::And(half, hn::Set(di, 0x7FFF));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
    const auto normal =
        hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(di, kRebias));
    const auto infinity = hn::Set(di, 0x7C00);
    const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, infinity),
                                          hn::Set(di, int32_t{1} << 22));
    const auto special = hn::Or(hn::Add(normal, hn::Set(di, kRebias)), quiet);
    // A subnormal m 2^-24 is (2^-14 + m 2^-24) - 2^-14.
    const auto raised =
        hn::BitCast(df, hn::Add(normal, hn::Set(di, int32_t{1} << 23)));
    const auto subnormal =
        hn::BitCast(di, hn::Sub(raised, hn::Set(df, 0x1p-14f)));
    auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), subnormal,
                               normal);
    bits = hn::IfThenElse(hn::Lt(magnitude, infinity), bits, special);
    return hn::BitCast(df, hn::Or(bits, sign));
  }

  // To nearest even, into the low half of each lane.
  template <class DF, class V>
  static HWY_INLINE hn::VFromD<hn::RebindToSigned<DF>> Narrow(DF df, V v) {
    const hn::RebindToSigned<DF> di;
    const hn::RebindToUnsigned<DF> du;
    const auto bits = hn::BitCast(di, hn::Abs(v));
    const auto sign = hn::BitCast(
        di, hn::ShiftLeft<15>(hn::ShiftRight<31>(hn::BitCast(du, v))));
    const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(di, 1));
    const auto rounded =
        hn::Add(hn::Sub(bits, hn::Set(di, kRebias - 0xFFF)), odd);
    const auto normal = hn::ShiftRight<13>(rounded);
    // Adding 1/2 leaves the multiple of 2^-24 in the low bits, rounded by the
    // addition itself.
    const auto half = hn::Set(df, 0.5f);
    const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::Abs(v), half)),
                                   hn::BitCast(di, half));
    const auto nan =
        hn::Or(hn::Set(di, 0x7E00),
               hn::And(hn::ShiftRight<13>(bits), hn::Set(di, 0x3FF)));
    const auto special = hn::IfThenElse(hn::Gt(bits, hn::Set(di, 0x7F800000)),
                                        nan, hn::Set(di, 0x7C00));
    auto result =
        hn::IfThenElse(hn::Lt(bits, hn::Set(di, 113 << 23)), subnormal, normal);
    result =
        hn::IfThenElse(hn::Lt(bits, hn::Set(di, 143 << 23)), result, special);
    return hn::Or(result, sign);
  }
};

// Calls use(format) with the format of `type`.
template <class Use>
HWY_INLINE auto WithFormat(DType type, const Use& use) {
  if (type == DType::kFloat16) return use(Float16Format());
  if (type == DType::kBFloat16) return use(BFloat16Format());
  return use(Float32Format());
}

}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
