#include "kernels/cpu/distance_meter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/distance_meter.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kTile = DistanceMeter::kTile;
constexpr size_t kLanes = DistanceMeter::kLanes;
constexpr size_t kBlock = DistanceMeter::kBlock;
constexpr size_t kPairs = DistanceMeter::kPairs;

using DF = hn::CappedTag<float, kLanes>;
using VF = hn::VFromD<DF>;
constexpr size_t kWidth = MaxLanes(DF());
// Rows of the second block at a time: as many sums as the registers hold.
constexpr size_t kColumns = kWidth == kLanes ? kBlock : 2;

HWY_INLINE VF LoadAt(const uint8_t* row, size_t element) {
  return LoadBytes(DF(), row + element * sizeof(float));
}

// The sums of four rows by kColumns others in kWidth lanes from `lane` on.
HWY_INLINE void SumDifferences(const uint8_t* const* rows,
                               const uint8_t* const* others, size_t lane,
                               float* lanes) {
  const DF df;
  VF sums[kBlock][kColumns];
#pragma GCC unroll 4
  for (size_t a = 0; a < kBlock; ++a) {
#pragma GCC unroll 4
    for (size_t b = 0; b < kColumns; ++b) sums[a][b] = hn::Zero(df);
  }
  for (size_t e = lane; e < kTile; e += kLanes) {
    VF other[kColumns];
#pragma GCC unroll 4
    for (size_t b = 0; b < kColumns; ++b) other[b] = LoadAt(others[b], e);
#pragma GCC unroll 4
    for (size_t a = 0; a < kBlock; ++a) {
      const VF row = LoadAt(rows[a], e);
#pragma GCC unroll 4
      for (size_t b = 0; b < kColumns; ++b) {
        const VF d = hn::Sub(row, other[b]);
        sums[a][b] = FusedMulAdd(df, d, d, sums[a][b]);
      }
    }
  }
#pragma GCC unroll 4
  for (size_t a = 0; a < kBlock; ++a) {
#pragma GCC unroll 4
    for (size_t b = 0; b < kColumns; ++b)
      hn::StoreU(sums[a][b], df, lanes + (a * kBlock + b) * kLanes + lane);
  }
}

// The same among the four rows of one block: six pairs, and on the diagonal the
// rows themselves. Asks for the next tile of the rows.
HWY_INLINE void SumWithin(const uint8_t* const* rows, size_t lane,
                          float* lanes) {
  const DF df;
  VF squares[kBlock], s01 = hn::Zero(df), s02 = s01, s03 = s01, s12 = s01,
                      s13 = s01, s23 = s01;
  for (VF& square : squares) square = hn::Zero(df);
  const auto add = [df](VF x, VF y, VF* sum) HWY_ATTR {
    const VF d = hn::Sub(x, y);
    *sum = FusedMulAdd(df, d, d, *sum);
  };
  for (size_t e = lane; e < kTile; e += kLanes) {
    VF x[kBlock];
#pragma GCC unroll 4
    for (size_t a = 0; a < kBlock; ++a) {
      if (lane == 0) hwy::Prefetch(rows[a] + (e + kTile) * sizeof(float));
      x[a] = LoadAt(rows[a], e);
      squares[a] = FusedMulAdd(df, x[a], x[a], squares[a]);
    }
    add(x[0], x[1], &s01);
    add(x[0], x[2], &s02);
    add(x[0], x[3], &s03);
    add(x[1], x[2], &s12);
    add(x[1], x[3], &s13);
    add(x[2], x[3], &s23);
  }
  const auto store = [&](size_t a, size_t b, VF sum) HWY_ATTR {
    hn::StoreU(sum, df, lanes + (a * kBlock + b) * kLanes + lane);
  };
  for (size_t a = 0; a < kBlock; ++a) store(a, a, squares[a]);
  store(0, 1, s01);
  store(0, 2, s02);
  store(0, 3, s03);
  store(1, 2, s12);
  store(1, 3, s13);
  store(2, 3, s23);
}

// Adds the upper half of each pair's kLanes lanes to the lower: what is left of
// `from` are kTo lanes a pair, at `to`.
template <size_t kTo>
HWY_INLINE void AddHalves(const float* from, float* to) {
  const hn::CappedTag<float, kTo> df;
  for (size_t p = 0; p < kPairs; ++p) {
    for (size_t l = 0; l < kTo; l += hn::Lanes(df)) {
      const auto low = hn::LoadU(df, from + p * 2 * kTo + l);
      const auto high = hn::LoadU(df, from + p * 2 * kTo + kTo + l);
      hn::StoreU(hn::Add(low, high), df, to + p * kTo + l);
    }
  }
}

// sums[p] = the lanes of pair p, added pairwise.
HWY_INLINE void AddLanes(const float* lanes, float* sums) {
  const DF df;
  HWY_ALIGN float eight[kPairs * 8], four[kPairs * 4];
  AddHalves<8>(lanes, eight);
  AddHalves<4>(eight, four);
  for (size_t p = 0; p < kPairs; p += hn::Lanes(df)) {
    VF a, b, c, d;
    hn::LoadInterleaved4(df, four + p * 4, a, b, c, d);
    hn::StoreU(hn::Add(hn::Add(a, c), hn::Add(b, d)), df, sums + p);
  }
}

// Adds a tile's sums to those of the leaf if all of them are of use: neither
// infinite nor so small that squares may have been lost.
HWY_INLINE bool AddIfGood(const float* sums, float tiny, double* totals) {
  const DF df;
  for (size_t p = 0; p < kPairs; p += hn::Lanes(df)) {
    const VF sum = hn::LoadU(df, sums + p);
    const auto good =
        hn::And(hn::Ge(sum, hn::Set(df, tiny)), hn::Lt(sum, hn::Inf(df)));
    if (!hn::AllTrue(df, good)) return false;
  }
  const hn::CappedTag<double, kPairs> dd;
  const hn::Rebind<float, decltype(dd)> dh;
  for (size_t p = 0; p < kPairs; p += hn::Lanes(dd)) {
    const auto sum = hn::PromoteTo(dd, hn::LoadU(dh, sums + p));
    hn::StoreU(hn::Add(hn::LoadU(dd, totals + p), sum), dd, totals + p);
  }
  return true;
}

// One tile of a block of rows by another, or by itself, where the places of
// what is no pair get a good number. False if `totals` was not touched.
bool MeasureBlocks(const uint8_t* const* rows, const uint8_t* const* others,
                   float tiny, float* sums, double* totals) {
  HWY_ALIGN float lanes[kPairs * kLanes];
  const bool within = rows == others;
  if (within) std::fill(lanes, lanes + kPairs * kLanes, 1.0f);
  for (size_t lane = 0; lane < kLanes; lane += kWidth) {
    if (within) {
      SumWithin(rows, lane, lanes);
      continue;
    }
    for (size_t b = 0; b < kBlock; b += kColumns)
      SumDifferences(rows, others + b, lane, lanes + b * kLanes);
  }
  AddLanes(lanes, sums);
  return AddIfGood(sums, tiny, totals);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(MeasureBlocks);

// Below this a float32 sum of squares may have lost denormal squares: 256 of
// them lose at most 256 * 2^-150, which is 2^-42 of this.
constexpr float kTiny = 0x1p-100f;

const float kZeros[kTileElements] = {};
const auto* const kZeroBytes = reinterpret_cast<const uint8_t*>(kZeros);

float ValueAt(const uint8_t* row, size_t element) {
  float value;
  std::memcpy(&value, row + element * sizeof(float), sizeof(value));
  return value;
}

bool IsFinite(const uint8_t* row) {
  for (size_t e = 0; e < DistanceMeter::kTile; ++e) {
    if (!std::isfinite(ValueAt(row, e))) return false;
  }
  return true;
}

std::vector<Row> WithPrevious(absl::Span<const Row> rows,
                              const float* previous) {
  std::vector<Row> all(rows.begin(), rows.end());
  if (previous != nullptr) all.push_back({.data = previous});
  return all;
}

}  // namespace

DistanceMeter::DistanceMeter(absl::Span<const Row> rows, const float* previous)
    : rows_(WithPrevious(rows, previous)),
      n_(rows.size()),
      floats_(rows_),
      rest_(rows_.size(), std::vector<float>(kTile)) {
  const size_t blocks = (rows_.size() + kBlock - 1) / kBlock;
  at_.assign(blocks * kBlock, kZeroBytes);
  for (size_t first = 0; first < blocks; ++first) {
    for (size_t second = first; second < blocks; ++second)
      blocks_.push_back({first, second, {}});
  }
}

void DistanceMeter::ReadTile(size_t begin, size_t elements) {
  const uint8_t* const* rows = floats_.Read(begin, elements);
  for (size_t r = 0; r < rows_.size(); ++r) {
    at_[r] = rows[r];
    if (elements == kTile) continue;
    // Zeros behind the end change no sum.
    std::vector<float>& rest = rest_[r];
    std::fill(rest.begin(), rest.end(), 0.0f);
    std::memcpy(rest.data(), rows[r], elements * sizeof(float));
    at_[r] = reinterpret_cast<const uint8_t*>(rest.data());
  }
}

bool DistanceMeter::IsPair(const BlockPair& blocks, size_t pair) const {
  const size_t a = blocks.first * kBlock + pair / kBlock;
  const size_t b = blocks.second * kBlock + pair % kBlock;
  return a <= b && b < rows_.size();
}

double DistanceMeter::Corrected(float sum, const uint8_t* a,
                                const uint8_t* b) const {
  if (sum >= kTiny && std::isfinite(sum)) return sum;
  if (std::memcmp(a, b, kTile * sizeof(float)) == 0 && std::isfinite(sum))
    return 0;  // liars in league send the same
  double lanes[kLanes] = {};
  for (size_t e = 0; e < kTile; ++e) {
    const double d =
        static_cast<double>(ValueAt(a, e)) - static_cast<double>(ValueAt(b, e));
    lanes[e % kLanes] += d * d;
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

void DistanceMeter::AddTile(uint8_t* finite) {
  const auto measure = HWY_DYNAMIC_DISPATCH(MeasureBlocks);
  for (BlockPair& blocks : blocks_) {
    float sums[kPairs];
    if (!measure(&at_[blocks.first * kBlock], &at_[blocks.second * kBlock],
                 kTiny, sums, blocks.sums)) {
      AddCorrected(sums, &blocks, finite);
    }
  }
}

void DistanceMeter::AddCorrected(const float* sums, BlockPair* blocks,
                                 uint8_t* finite) {
  for (size_t pair = 0; pair < kPairs; ++pair) {
    if (!IsPair(*blocks, pair)) continue;
    const size_t a = blocks->first * kBlock + pair / kBlock;
    const size_t b = blocks->second * kBlock + pair % kBlock;
    // Distances of what is not finite are not asked for.
    if ((a < n_ && finite[a] == 0) || (b < n_ && finite[b] == 0)) continue;
    blocks->sums[pair] +=
        Corrected(sums[pair], at_[a], a == b ? kZeroBytes : at_[b]);
    // A row that is finite has a norm that is, or a sum that overflowed.
    if (a == b && a < n_ && !std::isfinite(sums[pair]) && !IsFinite(at_[a]))
      finite[a] = 0;
  }
}

// The place of pair (a, b), a < b, among all pairs of n + 2 rows.
double& DistanceMeter::SumOf(double* sums, size_t a, size_t b) const {
  return sums[a * (2 * n_ + 3 - a) / 2 + b - a - 1];
}

void DistanceMeter::Measure(size_t begin, size_t elements, double* sums,
                            uint8_t* finite) {
  std::fill(finite, finite + n_, uint8_t{1});
  for (BlockPair& blocks : blocks_)
    std::fill(blocks.sums, blocks.sums + kPairs, 0.0);
  for (size_t at = 0; at < elements; at += kTile) {
    ReadTile(begin + at, std::min(kTile, elements - at));
    AddTile(finite);
  }
  const size_t previous = n_, zero = n_ + 1;
  SumOf(sums, previous, zero) = 0;
  for (const BlockPair& blocks : blocks_) {
    for (size_t pair = 0; pair < kPairs; ++pair) {
      if (!IsPair(blocks, pair)) continue;
      const size_t a = blocks.first * kBlock + pair / kBlock;
      const size_t b = blocks.second * kBlock + pair % kBlock;
      SumOf(sums, a, a == b ? zero : b) = blocks.sums[pair];
      // Without a previous aggregate, it is zero.
      if (a == b && rows_.size() == n_)
        SumOf(sums, a, previous) = blocks.sums[pair];
    }
  }
}

}  // namespace parapet
#endif  // HWY_ONCE
