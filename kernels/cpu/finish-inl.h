// What becomes of a sorted column. Compiled once for each instruction set.
#if defined(PARAPET_KERNELS_CPU_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARAPET_KERNELS_CPU_FINISH_INL_H_
#undef PARAPET_KERNELS_CPU_FINISH_INL_H_
#else
#define PARAPET_KERNELS_CPU_FINISH_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/cpu/cast.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {

// Rows of float32 values, each column in ascending order; `stride` values from
// one row to the next.
struct Sorted {
  const float* values;
  size_t stride;
};

// The mean of (a, b), and +0 for a zero.
template <class DF, class V>
HWY_INLINE void StoreMiddle(DF df, V a, V b, float* out) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> dh;
  HWY_ALIGN float first[MaxLanes(DF())], second[MaxLanes(DF())];
  hn::Store(a, df, first);
  hn::Store(b, df, second);
  for (size_t l = 0; l < hn::Lanes(df); l += hn::Lanes(dh)) {
    const auto x = hn::PromoteTo(dd, hn::LoadU(dh, first + l));
    const auto y = hn::PromoteTo(dd, hn::LoadU(dh, second + l));
    const auto middle = hn::Mul(hn::Add(x, y), hn::Set(dd, 0.5));
    hn::StoreU(RoundToFloat(dh, hn::Add(middle, hn::Zero(dd))), dh, out + l);
  }
}

// Of one vector of float64: rows, and what is made of them.
template <class DD>
class SortedColumn {
 public:
  using V = hn::VFromD<DD>;
  HWY_INLINE SortedColumn(const Sorted& sorted, size_t column, int rows)
      : sorted_(sorted), column_(column), rows_(rows) {}

  HWY_INLINE V At(int row) const {
    const hn::Rebind<float, DD> dh;
    return hn::PromoteTo(
        DD(), hn::LoadU(dh, sorted_.values + row * sorted_.stride + column_));
  }
  HWY_INLINE V Median() const {
    return hn::Mul(hn::Add(At((rows_ - 1) / 2), At(rows_ / 2)),
                   hn::Set(DD(), 0.5));
  }
  HWY_INLINE V TrimmedMean(int f) const {
    return Divided(SumFrom(hn::Zero(DD()), f, rows_ - f), rows_ - 2 * f);
  }
  // The mean of the rows - f values nearest to `center`: a window of the sorted
  // column. It moves up from row r as long as the value that it would lose is
  // farther from the center than the one it would win; as far is not farther.
  HWY_INLINE V MeanNearest(int f, V center) const {
    const DD dd;
    const int kept = rows_ - f;
    const V twice = hn::Add(center, center);
    const auto moves = [&](int r) HWY_ATTR {
      return hn::Gt(twice, hn::Add(At(r), At(r + kept)));
    };
    V sum = hn::Zero(dd);
    for (int r = 0; r < rows_; ++r) {
      V value = At(r);
      if (r < f) value = hn::IfThenZeroElse(moves(r), value);
      if (r >= kept) value = hn::IfThenElseZero(moves(r - kept), value);
      sum = hn::Add(sum, value);
    }
    return Divided(sum, kept);
  }

 private:
  HWY_INLINE V SumFrom(V sum, int begin, int end) const {
    for (int r = begin; r < end; ++r) sum = hn::Add(sum, At(r));
    return sum;
  }
  HWY_INLINE static V Divided(V sum, int count) {
    const DD dd;
    const double divisor = count;
    // The same, but a division takes as long as ten additions.
    return (count & (count - 1)) == 0 ? hn::Mul(sum, hn::Set(dd, 1 / divisor))
                                      : hn::Div(sum, hn::Set(dd, divisor));
  }

  const Sorted sorted_;
  const size_t column_;
  const int rows_;
};

// out[0, columns) from sorted columns; `columns` is a multiple of the float
// vector.
HWY_INLINE void FinishSorted(CoordinateOp op, int f, int rows,
                             const Sorted& sorted, size_t columns, float* out) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> dh;
  for (size_t c = 0; c < columns; c += hn::Lanes(dd)) {
    const SortedColumn<decltype(dd)> column(sorted, c, rows);
    auto result = hn::Zero(dd);
    if (op == CoordinateOp::kMedian) {
      result = column.Median();
    } else if (op == CoordinateOp::kMeamed) {
      result = column.MeanNearest(f, column.Median());
    } else {
      result = column.TrimmedMean(f);
      if (op == CoordinateOp::kPhocas) result = column.MeanNearest(f, result);
    }
    hn::StoreU(RoundToFloat(dh, hn::Add(result, hn::Zero(dd))), dh, out + c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
