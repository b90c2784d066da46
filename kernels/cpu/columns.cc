#include "kernels/cpu/columns.h"

#include <algorithm>
#include <limits>

#include "hwy/aligned_allocator.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/columns.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/finish-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

using DF = hn::ScalableTag<float>;
using VF = hn::VFromD<DF>;
constexpr size_t kWidth = MaxLanes(DF());

// How far ahead of its use a row is asked for: without it, many rows at once
// are more streams than the hardware follows.
constexpr size_t kAhead = 2048;  // bytes

HWY_INLINE VF LoadRow(const uint8_t* row, size_t element) {
  const uint8_t* from = row + element * sizeof(float);
  hwy::Prefetch(from + kAhead);
  return LoadBytes(DF(), from);
}

// Tells whether all values that were added are finite: then so is their sum,
// or it is checked again. Three sums, so that they do not wait for each other.
class Probe {
 public:
  HWY_INLINE Probe() {
    for (VF& sum : sums_) sum = hn::Zero(DF());
  }
  HWY_INLINE void Add(size_t row, VF v) {
    VF& sum = sums_[row % 3];
    sum = hn::Add(sum, v);
  }
  HWY_INLINE bool Finite() const {
    const VF sum = hn::Add(hn::Add(sums_[0], sums_[1]), sums_[2]);
    return hn::AllTrue(DF(), hn::Lt(hn::Abs(sum), hn::Inf(DF())));
  }

 private:
  VF sums_[3];
};

// ---- Up to 32 rows: in registers --------------------------------------------

template <class Network, size_t kAt>
HWY_INLINE void Exchange(VF* v) {
  constexpr Comparator c = Network::at(kAt);
  const VF low = hn::Min(v[c.low], v[c.high]);
  const VF high = hn::Max(v[c.low], v[c.high]);
  v[c.low] = low;
  v[c.high] = high;
}

template <class Network, size_t... kAt>
HWY_INLINE void SortBy(VF* v, std::index_sequence<kAt...>) {
  (Exchange<Network, kAt>(v), ...);
}

// Loads `count` rows into the middle of kRows vectors. Those below are -inf,
// those above +inf, the one that may be left over above.
template <int kRows>
HWY_INLINE void LoadColumn(const uint8_t* const* rows, int count,
                           size_t element, VF* v, Probe* probe) {
  if (count == kRows) {
#pragma GCC unroll 32
    for (size_t r = 0; r < kRows; ++r) {
      v[r] = LoadRow(rows[r], element);
      probe->Add(r, v[r]);
    }
    return;
  }
  const int below = (kRows - count) / 2;
  const VF infinity = hn::Inf(DF());
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
    const int row = r - below;
    if (row >= 0 && row < count) {
      v[r] = LoadRow(rows[row], element);
      probe->Add(static_cast<size_t>(r), v[r]);
    } else {
      v[r] = row < 0 ? hn::Neg(infinity) : infinity;
    }
  }
}

// The median of whole vectors of columns.
template <int kRows>
bool MediansInRegisters(const Columns::Task& task, const uint8_t* const* rows,
                        size_t elements, bool stream, float* out) {
  using Network = FixedNetwork<kRows, kRows / 2 - 1, kRows / 2>;
  const DF df;
  const bool odd = task.rows % 2 != 0;
  Probe probe;
  for (size_t i = 0; i < elements; i += kWidth) {
    VF v[kRows];
    LoadColumn<kRows>(rows, task.rows, i, v, &probe);
    SortBy<Network>(v, std::make_index_sequence<Network::size()>());
    if (odd) {
      StoreOrStream(hn::Add(v[kRows / 2 - 1], hn::Zero(df)), df, out + i,
                    stream);
    } else {
      HWY_ALIGN float middle[kWidth];
      StoreMiddle(df, v[kRows / 2 - 1], v[kRows / 2], middle);
      StoreOrStream(hn::Load(df, middle), df, out + i, stream);
    }
  }
  return probe.Finite();
}

template <int kRows>
bool SortInRegisters(const Columns::Task& task, const uint8_t* const* rows,
                     size_t elements, bool stream, float* out) {
  using Network = FixedNetwork<kRows, 0, kRows - 1>;
  const DF df;
  const size_t below = (kRows - static_cast<size_t>(task.rows)) / 2;
  Probe probe;
  HWY_ALIGN float sorted[kRows * kWidth];
  HWY_ALIGN float results[kWidth];
  for (size_t i = 0; i < elements; i += kWidth) {
    VF v[kRows];
    LoadColumn<kRows>(rows, task.rows, i, v, &probe);
    SortBy<Network>(v, std::make_index_sequence<Network::size()>());
#pragma GCC unroll 32
    for (size_t r = 0; r < kRows; ++r) hn::Store(v[r], df, sorted + r * kWidth);
    FinishSorted(task.op, task.f, task.rows, {sorted + below * kWidth, kWidth},
                 kWidth, results);
    StoreOrStream(hn::Load(df, results), df, out + i, stream);
  }
  return probe.Finite();
}

template <int kRows>
bool InRegisters(const Columns::Task& task, const uint8_t* const* rows,
                 size_t elements, bool stream, float* out) {
  return task.op == CoordinateOp::kMedian
             ? MediansInRegisters<kRows>(task, rows, elements, stream, out)
             : SortInRegisters<kRows>(task, rows, elements, stream, out);
}

// ---- More rows: in a tile in the cache --------------------------------------

// Copies columns [begin, begin + kTile) into a tile, row by row.
template <size_t kTile>
void LoadTile(const uint8_t* const* rows, int count, size_t begin, float* tile,
              Probe* probe) {
  for (int r = 0; r < count; ++r) {
    for (size_t l = 0; l < kTile; l += kWidth) {
      const VF v = LoadRow(rows[r], begin + l);
      probe->Add(l / kWidth, v);
      hn::Store(v, DF(), tile + r * kTile + l);
    }
  }
}

template <size_t kTile>
void SortTile(const std::vector<Comparator>& network, float* tile) {
  const DF df;
  for (const Comparator c : network) {
    float* low = tile + c.low * kTile;
    float* high = tile + c.high * kTile;
#pragma GCC unroll 16
    for (size_t l = 0; l < kTile; l += kWidth) {
      const VF a = hn::Load(df, low + l), b = hn::Load(df, high + l);
      hn::Store(hn::Min(a, b), df, low + l);
      hn::Store(hn::Max(a, b), df, high + l);
    }
  }
}

template <size_t kTile>
bool InTiles(const Columns::Task& task, const uint8_t* const* rows,
             size_t elements, bool stream, float* out) {
  const size_t size = static_cast<size_t>(task.rows) * kTile;
  hwy::AlignedFreeUniquePtr<float[]> tile = hwy::AllocateAligned<float>(size);
  HWY_ALIGN float results[kTile];
  Probe probe;
  for (size_t i = 0; i < elements; i += kTile) {
    LoadTile<kTile>(rows, task.rows, i, tile.get(), &probe);
    SortTile<kTile>(task.network, tile.get());
    FinishSorted(task.op, task.f, task.rows, {tile.get(), kTile}, kTile,
                 results);
    for (size_t l = 0; l < kTile; l += kWidth)
      StoreOrStream(hn::Load(DF(), results + l), DF(), out + i + l, stream);
  }
  return probe.Finite();
}

// ---- Votes ------------------------------------------------------------------

bool Votes(const Columns::Task& task, const uint8_t* const* rows,
           size_t elements, bool stream, float* out) {
  const DF df;
  const VF zero = hn::Zero(df), one = hn::Set(df, 1.0f);
  const VF scale = hn::Set(df, static_cast<float>(task.scale));
  Probe probe;
  for (size_t i = 0; i < elements; i += kWidth) {
    VF sum = zero;  // exact: there are less than 2^24 rows
    for (int r = 0; r < task.rows; ++r) {
      const VF v = LoadRow(rows[r], i);
      probe.Add(static_cast<size_t>(r), v);
      sum = hn::Add(sum, hn::IfThenElseZero(hn::Gt(v, zero), one));
      sum = hn::Sub(sum, hn::IfThenElseZero(hn::Lt(v, zero), one));
    }
    const VF up = hn::IfThenElseZero(hn::Gt(sum, zero), scale);
    const VF down = hn::IfThenElseZero(hn::Lt(sum, zero), scale);
    StoreOrStream(hn::Add(hn::Sub(up, down), zero), df, out + i, stream);
  }
  return probe.Finite();
}

// `elements` is a multiple of Columns' line.
bool ReduceLines(const Columns::Task& task, const uint8_t* const* rows,
                 size_t elements, bool stream, float* out) {
  if (task.op == CoordinateOp::kSignVote)
    return Votes(task, rows, elements, stream, out);
  if (task.rows <= 4) return InRegisters<4>(task, rows, elements, stream, out);
  if (task.rows <= 8) return InRegisters<8>(task, rows, elements, stream, out);
  if (task.rows <= 16)
    return InRegisters<16>(task, rows, elements, stream, out);
  if (task.rows <= 32)
    return InRegisters<32>(task, rows, elements, stream, out);
  // 64 columns of 192 rows fill the first-level cache.
  if (task.rows > 192) return InTiles<16>(task, rows, elements, stream, out);
  const size_t whole = elements / 64 * 64;
  const bool finite = InTiles<64>(task, rows, whole, stream, out);
  std::vector<const uint8_t*> rest(rows, rows + task.rows);
  for (const uint8_t*& row : rest) row += whole * sizeof(float);
  return InTiles<16>(task, rest.data(), elements - whole, stream,
                     out + whole) &&
         finite;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(ReduceLines);

// A multiple of every vector.
constexpr size_t kLine = 16;

}  // namespace

Columns::Columns(CoordinateOp op, int f, double scale, int rows) {
  task_.op = op;
  task_.f = f;
  task_.scale = scale;
  task_.rows = rows;
  if (rows <= 32 || op == CoordinateOp::kSignVote) return;
  const bool median = op == CoordinateOp::kMedian;
  const int first = median ? (rows - 1) / 2 : 0;
  const int last = median ? rows / 2 : rows - 1;
  task_.network = SelectionNetwork(rows, first, last);
}

bool Columns::Reduce(const uint8_t* const* rows, size_t elements, bool stream,
                     float* out) const {
  const auto reduce = HWY_DYNAMIC_DISPATCH(ReduceLines);
  const size_t whole = elements / kLine * kLine, rest = elements - whole;
  bool finite = whole == 0 || reduce(task_, rows, whole, stream, out);
  if (rest > 0) {  // as a whole line of copies
    std::vector<float> copies(static_cast<size_t>(task_.rows) * kLine);
    std::vector<const uint8_t*> at;
    for (int r = 0; r < task_.rows; ++r) {
      float* copy = &copies[r * kLine];
      std::memcpy(copy, rows[r] + whole * sizeof(float), rest * sizeof(float));
      at.push_back(reinterpret_cast<const uint8_t*>(copy));
    }
    HWY_ALIGN float results[kLine];
    finite &= reduce(task_, at.data(), kLine, false, results);
    std::copy_n(results, rest, out + whole);
  }
  return finite;
}

bool AllFinite(const uint8_t* const* rows, size_t count, size_t elements) {
  for (size_t r = 0; r < count; ++r) {
    for (size_t i = 0; i < elements; ++i) {
      float value;
      std::memcpy(&value, rows[r] + i * sizeof(float), sizeof(value));
      if (!(value - value == 0)) return false;
    }
  }
  return true;
}

}  // namespace parapet
#endif  // HWY_ONCE
