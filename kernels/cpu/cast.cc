#include "kernels/cpu/cast.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cast.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/half-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

template <class Format, class D>
HWY_INLINE size_t Put(D df, hn::VFromD<D> value, hn::VFromD<D> product,
                      uint8_t* to) {
  const auto bad = Format::Store(df, product, to);
  const auto finite = hn::Lt(hn::Abs(value), hn::Inf(df));
  return hn::CountTrue(df, hn::And(bad, finite));
}

// The product is exact, but for a result below the normal floats.
template <class Format>
size_t EncodeExact(const float* values, size_t n, float scale, uint8_t* out) {
  size_t overflows = 0;
  ForEach(hn::ScalableTag<float>(), n, [&](auto df, size_t i) HWY_ATTR {
    const auto value = hn::LoadU(df, values + i);
    const auto product = hn::Mul(value, hn::Set(df, scale));
    overflows += Put<Format>(df, value, product, out + i * Format::kBytes);
  });
  return overflows;
}

template <class Format>
size_t EncodeAny(const float* values, size_t n, double scale, uint8_t* out) {
  size_t overflows = 0;
  ForEach(hn::ScalableTag<double>(), n, [&](auto dd, size_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(dd)> df;
    const auto value = hn::LoadU(df, values + i);
    const auto product = hn::Mul(hn::PromoteTo(dd, value), hn::Set(dd, scale));
    overflows += Put<Format>(df, value, RoundToFloat(df, product),
                             out + i * Format::kBytes);
  });
  return overflows;
}

template <class Format>
void DecodeExact(const uint8_t* in, size_t n, float inverse, float* values) {
  // A reduction decodes many rows by turns, a tile of each: the hardware does
  // not foresee the next one.
  constexpr size_t kAhead = 2048;
  ForEach(hn::ScalableTag<float>(), n, [=](auto df, size_t i) HWY_ATTR {
    hwy::Prefetch(in + i * Format::kBytes + kAhead);
    const auto stored = Format::Load(df, in + i * Format::kBytes);
    hn::StoreU(hn::Mul(stored, hn::Set(df, inverse)), df, values + i);
  });
}

template <class Format>
void DecodeAny(const uint8_t* in, size_t n, double scale, float* values) {
  ForEach(hn::ScalableTag<double>(), n, [&](auto dd, size_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(dd)> df;
    const auto stored =
        hn::PromoteTo(dd, Format::Load(df, in + i * Format::kBytes));
    hn::StoreU(RoundToFloat(df, hn::Div(stored, hn::Set(dd, scale))), df,
               values + i);
  });
}

size_t Encode(const float* values, size_t n, DType to, double scale, bool exact,
              uint8_t* out) {
  return WithFormat(to, [&](auto format) {
    using Format = decltype(format);
    return exact
               ? EncodeExact<Format>(values, n, static_cast<float>(scale), out)
               : EncodeAny<Format>(values, n, scale, out);
  });
}

void Decode(const uint8_t* in, DType from, double scale, bool exact, size_t n,
            float* values) {
  WithFormat(from, [&](auto format) {
    using Format = decltype(format);
    if (exact) {
      DecodeExact<Format>(in, n, static_cast<float>(1 / scale), values);
    } else {
      DecodeAny<Format>(in, n, scale, values);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(Encode);
HWY_EXPORT(Decode);

}  // namespace

bool DividesExactly(double scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5 && exponent > -125 &&
         exponent < 125;
}

int64_t EncodeRange(const float* values, size_t elements, DType to,
                    double scale, void* out) {
  return static_cast<int64_t>(HWY_DYNAMIC_DISPATCH(Encode)(
      values, elements, to, scale, DividesExactly(scale),
      static_cast<uint8_t*>(out)));
}

void DecodeRange(const void* in, DType from, double scale, size_t elements,
                 float* values) {
  HWY_DYNAMIC_DISPATCH(Decode)
  (static_cast<const uint8_t*>(in), from, scale, DividesExactly(scale),
   elements, values);
}

}  // namespace parapet
#endif  // HWY_ONCE
