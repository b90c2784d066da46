// What becomes of a sorted column. Compiled once for each instruction set.
#if defined(PARAPET_KERNELS_CPU_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARAPET_KERNELS_CPU_FINISH_INL_H_
#undef PARAPET_KERNELS_CPU_FINISH_INL_H_
#else
#define PARAPET_KERNELS_CPU_FINISH_INL_H_
#endif

#include "hwy/highway.h"
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

// As many vectors of float64 as one of float32 fills. Their sums do not wait
// for each other.
struct Wide {
  using DD = hn::ScalableTag<double>;
  using DH = hn::Rebind<float, DD>;
  using V = hn::VFromD<DD>;
  static constexpr size_t kLanes = MaxLanes(DD());
  static constexpr size_t kVectors =
      MaxLanes(hn::ScalableTag<float>()) / kLanes;

  // Each vector of the result, from its number.
  template <class Make>
  HWY_INLINE static Wide Of(const Make& make) {
    Wide wide;
#pragma GCC unroll 2
    for (size_t k = 0; k < kVectors; ++k) wide.v[k] = make(k);
    return wide;
  }
  HWY_INLINE static Wide Zero() {
    return Of([](size_t) HWY_ATTR { return hn::Zero(DD()); });
  }
  HWY_INLINE static Wide Load(const float* from) {
    return Of([=](size_t k) HWY_ATTR {
      return hn::PromoteTo(DD(), hn::LoadU(DH(), from + k * kLanes));
    });
  }
  // Rounded; a zero becomes +0.
  HWY_INLINE void Store(float* to) const {
#pragma GCC unroll 2
    for (size_t k = 0; k < kVectors; ++k) {
      const V positive = hn::Add(v[k], hn::Zero(DD()));
      hn::StoreU(RoundToFloat(DH(), positive), DH(), to + k * kLanes);
    }
  }
  HWY_INLINE Wide Plus(const Wide& other) const {
    return Of([&](size_t k) HWY_ATTR { return hn::Add(v[k], other.v[k]); });
  }
  HWY_INLINE Wide Times(double factor) const {
    return Of([&](size_t k)
                  HWY_ATTR { return hn::Mul(v[k], hn::Set(DD(), factor)); });
  }
  HWY_INLINE Wide DividedBy(int count) const {
    // The same for a power of two, but a division takes as long as ten
    // additions.
    if ((count & (count - 1)) == 0) return Times(1.0 / count);
    return Of([&](size_t k) HWY_ATTR {
      return hn::Div(v[k], hn::Set(DD(), static_cast<double>(count)));
    });
  }

  V v[kVectors];
};

// The mean of (a, b), and +0 for a zero.
template <class DF, class V>
HWY_INLINE void StoreMiddle(DF df, V a, V b, float* out) {
  HWY_ALIGN float first[MaxLanes(DF())], second[MaxLanes(DF())];
  hn::Store(a, df, first);
  hn::Store(b, df, second);
  Wide::Load(first).Plus(Wide::Load(second)).Times(0.5).Store(out);
}

// One float vector of sorted columns, and what is made of it.
class SortedColumns {
 public:
  HWY_INLINE SortedColumns(const Sorted& sorted, size_t column, int rows)
      : values_(sorted.values + column), stride_(sorted.stride), rows_(rows) {}

  HWY_INLINE Wide Median() const {
    return At((rows_ - 1) / 2).Plus(At(rows_ / 2)).Times(0.5);
  }
  HWY_INLINE Wide TrimmedMean(int f) const {
    Wide sum = Wide::Zero();
    for (int r = f; r < rows_ - f; ++r) sum = sum.Plus(At(r));
    return sum.DividedBy(rows_ - 2 * f);
  }
  // The mean of the rows - f values nearest to `center`: a window of the sorted
  // column. It moves up from row r as long as the value that it would lose is
  // farther from the center than the one it would win; as far is not farther.
  HWY_INLINE Wide MeanNearest(int f, const Wide& center) const {
    const int kept = rows_ - f;
    const Wide twice = center.Plus(center);
    Wide sum = Wide::Zero();
    for (int r = 0; r < rows_; ++r) {
      Wide value = At(r);
      if (r < f) value = Kept<false>(value, twice, At(r).Plus(At(r + kept)));
      if (r >= kept) value = Kept<true>(value, twice, At(r - kept).Plus(At(r)));
      sum = sum.Plus(value);
    }
    return sum.DividedBy(kept);
  }

 private:
  HWY_INLINE Wide At(int row) const {
    return Wide::Load(values_ + static_cast<size_t>(row) * stride_);
  }
  // The value where `twice` > `ends` is what is wanted, else 0.
  template <bool kWanted>
  HWY_INLINE static Wide Kept(const Wide& value, const Wide& twice,
                              const Wide& ends) {
    return Wide::Of([&](size_t k) HWY_ATTR {
      const auto moves = hn::Gt(twice.v[k], ends.v[k]);
      return kWanted ? hn::IfThenElseZero(moves, value.v[k])
                     : hn::IfThenZeroElse(moves, value.v[k]);
    });
  }

  const float* const values_;
  const size_t stride_;
  const int rows_;
};

// out[0, columns) from sorted columns; `columns` is a multiple of the float
// vector.
HWY_INLINE void FinishSorted(CoordinateOp op, int f, int rows,
                             const Sorted& sorted, size_t columns, float* out) {
  for (size_t c = 0; c < columns; c += Wide::kVectors * Wide::kLanes) {
    const SortedColumns column(sorted, c, rows);
    if (op == CoordinateOp::kMedian) {
      column.Median().Store(out + c);
    } else if (op == CoordinateOp::kTrimmedMean) {
      column.TrimmedMean(f).Store(out + c);
    } else if (op == CoordinateOp::kMeamed) {
      column.MeanNearest(f, column.Median()).Store(out + c);
    } else {
      column.MeanNearest(f, column.TrimmedMean(f)).Store(out + c);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
