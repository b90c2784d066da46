#include "kernels/cpu/bisection.h"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bisection.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/finish-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using VI = hn::VFromD<DI>;

// Integers in the order of the floats, -0 and 0 next to each other; its own
// inverse.
HWY_INLINE VI Key(VI bits) {
  const DI di;
  const VI below = hn::ShiftRight<31>(bits);  // all ones, or none
  return hn::Xor(bits, hn::And(below, hn::Set(di, 0x7FFFFFFF)));
}

// One vector of columns of a tile of keys.
class KeyColumn {
 public:
  HWY_INLINE KeyColumn(const int32_t* keys, int rows, size_t stride)
      : keys_(keys), rows_(rows), stride_(stride) {}

  HWY_INLINE VI At(int row) const {
    return hn::Load(DI(), keys_ + row * stride_);
  }
  HWY_INLINE VI CountBelow(VI bound) const {
    VI count = hn::Zero(DI());
    for (int r = 0; r < rows_; ++r)  // true is -1
      count = hn::Sub(count, hn::VecFromMask(DI(), hn::Lt(At(r), bound)));
    return count;
  }
  // The key that `rank` others are below or equal to, counting from 0: the
  // greatest bound with at most `rank` keys below it.
  HWY_INLINE VI Find(int rank) const {
    const DI di;
    const VI most = hn::Set(di, rank);
    VI found = hn::Set(di, INT32_MIN);
    for (int bit = 31; bit >= 0; --bit) {
      const auto step = static_cast<int32_t>(uint32_t{1} << bit);
      const VI bound =
          hn::Add(found, hn::Set(di, step));  // INT32_MIN + 2^31: 0
      const auto fits = hn::Not(hn::Gt(CountBelow(bound), most));
      found = hn::IfThenElse(fits, bound, found);
    }
    return found;
  }

  int rows() const { return rows_; }

 private:
  const int32_t* const keys_;
  const int rows_;
  const size_t stride_;
};

HWY_INLINE void StoreMedian(const KeyColumn& column, float* out) {
  const DF df;
  const int rows = column.rows();
  const VI low = column.Find((rows - 1) / 2);
  const VI high = rows % 2 == 1 ? low : column.Find(rows / 2);
  StoreMiddle(df, hn::BitCast(df, Key(low)), hn::BitCast(df, Key(high)), out);
}

// sums[l] += values[l] * (counts[l], where there are counts), in float64.
HWY_INLINE void Accumulate(hn::VFromD<DF> values, const int32_t* counts,
                           double* sums) {
  HWY_ALIGN float value[MaxLanes(DF())];
  hn::Store(values, DF(), value);
  for (size_t l = 0; l < hn::Lanes(DF()); ++l)
    sums[l] += static_cast<double>(value[l]) * (counts ? counts[l] : 1);
}

// The sum of the values of ranks [f, rows - f): those between the two bounds,
// then as many of those that equal a bound as there are within the ranks.
HWY_INLINE void StoreTrimmedMean(const KeyColumn& column, int f, float* out) {
  const DF df;
  const DI di;
  const int rows = column.rows(), last = rows - f - 1;
  const VI low = column.Find(f), high = column.Find(last);
  HWY_ALIGN double sums[MaxLanes(DF())] = {};
  for (int r = 0; r < rows; ++r) {
    const VI key = column.At(r);
    const auto between = hn::And(hn::Gt(key, low), hn::Lt(key, high));
    const auto value = hn::BitCast(df, Key(key));
    Accumulate(hn::IfThenElseZero(hn::RebindMask(df, between), value), nullptr,
               sums);
  }
  const auto same = hn::Eq(low, high);
  const VI kept = hn::Set(di, rows - 2 * f), one = hn::Set(di, 1);
  // INT32_MAX is no finite float's key: + 1 does not wrap.
  const VI to_low =
      hn::Sub(column.CountBelow(hn::Add(low, one)), hn::Set(di, f));
  const VI from_high = hn::Sub(hn::Set(di, last + 1), column.CountBelow(high));
  HWY_ALIGN int32_t counts[MaxLanes(DI())];
  hn::Store(hn::IfThenElse(same, kept, to_low), di, counts);
  Accumulate(hn::BitCast(df, Key(low)), counts, sums);
  hn::Store(hn::IfThenZeroElse(same, from_high), di, counts);
  Accumulate(hn::BitCast(df, Key(high)), counts, sums);
  for (size_t l = 0; l < hn::Lanes(df); ++l)
    out[l] = static_cast<float>(sums[l] / (rows - 2 * f) + 0.0);
}

void Bisect(CoordinateOp op, int f, int rows, float* tile, size_t columns,
            float* out) {
  const DI di;
  auto* keys = reinterpret_cast<int32_t*>(tile);
  for (size_t i = 0; i < static_cast<size_t>(rows) * columns;
       i += hn::Lanes(di))
    hn::Store(Key(hn::BitCast(di, hn::Load(DF(), tile + i))), di, keys + i);
  for (size_t c = 0; c < columns; c += hn::Lanes(di)) {
    const KeyColumn column(keys + c, rows, columns);
    if (op == CoordinateOp::kMedian) {
      StoreMedian(column, out + c);
    } else {
      StoreTrimmedMean(column, f, out + c);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(Bisect);

}  // namespace

void BisectTile(CoordinateOp op, int f, int rows, float* tile, size_t columns,
                float* out) {
  HWY_DYNAMIC_DISPATCH(Bisect)(op, f, rows, tile, columns, out);
}

}  // namespace parapet
#endif  // HWY_ONCE
