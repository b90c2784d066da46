#include "kernels/cpu/leaf_squares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/leaf_squares.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kLanes = 16;

// Adds the squares of whole groups of 16 elements to their lanes. Every vector
// width up to 16 keeps the same 16 sums; it only holds them in more or fewer
// registers.
void AddGroups(const float* values, size_t groups, double* lanes) {
  const hn::CappedTag<double, kLanes> dd;
  const hn::Rebind<float, decltype(dd)> df;
  constexpr size_t kWidth = MaxLanes(dd);
  hn::Vec<decltype(dd)> sums[kLanes / kWidth];
  for (auto& sum : sums) sum = hn::Zero(dd);
  for (size_t g = 0; g < groups; ++g) {
#pragma GCC unroll 16
    for (size_t k = 0; k < kLanes / kWidth; ++k) {
      const auto x =
          hn::PromoteTo(dd, hn::LoadU(df, values + g * kLanes + k * kWidth));
      sums[k] = hn::Add(sums[k], hn::Mul(x, x));
    }
  }
  for (size_t k = 0; k < kLanes / kWidth; ++k)
    hn::StoreU(sums[k], dd, lanes + k * kWidth);
}

double SumOfSquares(const float* values, size_t n) {
  double lanes[kLanes];
  const size_t groups = n / kLanes;
  AddGroups(values, groups, lanes);
  for (size_t i = groups * kLanes; i < n; ++i) {
    const double x = values[i];
    lanes[i % kLanes] += x * x;
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(SumOfSquares);

}  // namespace

double LeafSquare(const float* values, size_t elements) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquares)(values, elements);
}

}  // namespace parapet
#endif  // HWY_ONCE
