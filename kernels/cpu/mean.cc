#include "kernels/cpu/mean.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/cast.h"
#include "kernels/cpu/reducer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mean.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/half-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

// How far ahead of its use a row is asked for: without it, many rows at once
// are more streams than the hardware follows.
constexpr size_t kAhead = 2048;  // bytes

// Vectors of float64 whose sums are made at a time: a line of the widest
// target, and enough additions that do not wait for each other.
constexpr size_t kSums = 4;

// As many floats as a vector of float64 has numbers.
using HalfOfFloats = hn::Rebind<float, hn::ScalableTag<double>>;

// The sums of one block of kSums vectors of columns, divided.
template <bool kFactors, class Format>
HWY_INLINE void MeanOfBlock(const Mean::Sources& rows, size_t element,
                            float* mean, hn::VFromD<HalfOfFloats>* probe) {
  const hn::ScalableTag<double> dd;
  const HalfOfFloats df;
  const size_t lanes = hn::Lanes(dd);
  hn::VFromD<decltype(dd)> sums[kSums];
  for (auto& sum : sums) sum = hn::Zero(dd);
  for (size_t r = 0; r < rows.count; ++r) {
    const uint8_t* from = rows.values[r] + element * Format::kBytes;
    hwy::Prefetch(from + kAhead);
    if (kSums * lanes * Format::kBytes > 64) hwy::Prefetch(from + kAhead + 64);
    const auto factor = hn::Set(dd, rows.factors[r]);
#pragma GCC unroll 4
    for (size_t k = 0; k < kSums; ++k) {
      const auto stored = Format::Load(df, from + k * lanes * Format::kBytes);
      auto x = hn::PromoteTo(dd, stored);
      if (kFactors) x = hn::Mul(x, factor);
      sums[k] = hn::Add(sums[k], x);
    }
  }
  for (size_t k = 0; k < kSums; ++k) {
    const auto quotient = rows.divides_exactly
                              ? hn::Mul(sums[k], hn::Set(dd, 1 / rows.total))
                              : hn::Div(sums[k], hn::Set(dd, rows.total));
    const auto rounded = RoundToFloat(df, quotient);
    // 0, or NaN where the mean is not finite; and NaN stays.
    *probe = hn::Add(*probe, hn::Sub(rounded, rounded));
    hn::StoreU(rounded, df, mean + k * lanes);
  }
}

// The mean where every value is finite; false when some mean was not finite (a
// finite sum cannot come from a value that is not).
template <bool kFactors, class Format>
bool MeanOf(const Mean::Sources& sources, size_t n, bool stream, float* mean) {
  const hn::ScalableTag<double> dd;
  const hn::ScalableTag<float> df;
  const size_t block = kSums * hn::Lanes(dd);
  const Mean::Sources rows = sources;
  const HalfOfFloats dh;
  auto probe = hn::Zero(dh);
  HWY_ALIGN float line[kSums * MaxLanes(dd)];
  size_t i = 0;
  for (; i + block <= n; i += block) {
    MeanOfBlock<kFactors, Format>(rows, i, stream ? line : mean + i, &probe);
    for (size_t l = 0; stream && l < block; l += hn::Lanes(df))
      hn::Stream(hn::Load(df, line + l), df, mean + i + l);
  }
  bool finite = hn::AllTrue(dh, hn::Eq(probe, hn::Zero(dh)));
  for (; i < n; ++i) {
    double sum = 0;
    for (size_t r = 0; r < rows.count; ++r) {
      const hn::CappedTag<float, 1> one;
      const float value =
          hn::GetLane(Format::Load(one, rows.values[r] + i * Format::kBytes));
      sum += static_cast<double>(value) * rows.factors[r];
    }
    mean[i] = static_cast<float>(sum / rows.total);
    finite &= mean[i] - mean[i] == 0;
  }
  return finite;
}

bool MeanOfFinite(const Mean::Sources& rows, size_t n, bool stream,
                  float* mean) {
  return WithFormat(rows.dtype, [&](auto format) {
    using Format = decltype(format);
    return rows.plain ? MeanOf<false, Format>(rows, n, stream, mean)
                      : MeanOf<true, Format>(rows, n, stream, mean);
  });
}

// The mean of the values that are finite at each coordinate: not finite itself
// where there is none. bad[t] counts the others of term t. The same bits as
// MeanOfFinite where nothing is left out.
void MeanOfSome(const Mean::Term* terms, const Mean::Sources& rows, size_t n,
                float* mean, size_t* bad) {
  HWY_ALIGN double sums[kTileElements];
  HWY_ALIGN double totals[kTileElements];
  const hn::ScalableTag<double> wide;
  for (size_t i = 0; i < n; ++i) sums[i] = 0;
  for (size_t i = 0; i < n; ++i) totals[i] = 0;
  for (size_t t = 0; t < rows.count; ++t) {
    const Mean::Term& term = terms[t];
    const uint8_t* values = rows.values[t];
    ForEach(wide, n, [&](auto dd, size_t i) HWY_ATTR {
      const hn::Rebind<float, decltype(dd)> df;
      const auto stored =
          hn::PromoteTo(dd, LoadBytes(df, values + i * sizeof(float)));
      const auto x = hn::Div(stored, hn::Set(dd, term.divisor));
      // Also as float32: what rounds to infinity is at least that.
      const auto finite = hn::Lt(hn::Abs(x), hn::Set(dd, 0x1.ffffffp127));
      const auto product = hn::Mul(hn::Set(dd, term.factor), x);
      const auto kept = hn::IfThenElseZero(finite, product);
      hn::StoreU(hn::Add(hn::LoadU(dd, sums + i), kept), dd, sums + i);
      const auto weight = hn::IfThenElseZero(finite, hn::Set(dd, term.weight));
      hn::StoreU(hn::Add(hn::LoadU(dd, totals + i), weight), dd, totals + i);
      bad[t] += hn::Lanes(dd) - hn::CountTrue(dd, finite);
    });
  }
  ForEach(wide, n, [&](auto dd, size_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(dd)> df;
    const auto quotient =
        hn::Div(hn::LoadU(dd, sums + i), hn::LoadU(dd, totals + i));
    hn::StoreU(RoundToFloat(df, quotient), df, mean + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(MeanOfFinite);
HWY_EXPORT(MeanOfSome);

Mean::Term MakeTerm(const Row& row, size_t index) {
  const bool exact = DividesExactly(row.scale);
  return {.data = static_cast<const uint8_t*>(row.data),
          .dtype = row.dtype,
          .divisor = exact ? 1 : row.scale,
          .factor = exact ? row.weight / row.scale : row.weight,
          .weight = row.weight,
          .row = index};
}

}  // namespace

void Mean::AddTerm(const Row& row, size_t place) {
  const Term& term = terms_.emplace_back(MakeTerm(row, place));
  values_.push_back(nullptr);
  factors_.push_back(term.factor);
  same_type_ = same_type_ && term.dtype == terms_[0].dtype;
  exact_ = exact_ && term.divisor == 1;
  plain_ = plain_ && term.factor == 1;
}

Mean::Mean(absl::Span<const Row> rows) : rows_(rows.size()) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!(rows[i].weight > 0)) continue;
    AddTerm(rows[i], i);
    total_ += rows[i].weight;
  }
}

Mean Mean::SumOf(absl::Span<const Row> rows, double total) {
  Mean sum;
  sum.rows_ = rows.size();
  sum.is_sum_ = true;
  sum.total_ = total;
  for (size_t i = 0; i < rows.size(); ++i) sum.AddTerm(rows[i], i);
  return sum;
}

// The terms' values within a tile as they are stored.
void Mean::FindTile(size_t begin) {
  for (size_t t = 0; t < terms_.size(); ++t) {
    const auto bytes = static_cast<size_t>(SizeOf(terms_[t].dtype));
    values_[t] = terms_[t].data + begin * bytes;
  }
}

// The same as float32.
void Mean::WidenTile(size_t elements) {
  copies_.resize(terms_.size());
  for (size_t t = 0; t < terms_.size(); ++t) {
    if (terms_[t].dtype == DType::kFloat32) continue;
    copies_[t].resize(kTileElements);
    DecodeRange(values_[t], terms_[t].dtype, 1, elements, copies_[t].data());
    values_[t] = reinterpret_cast<const uint8_t*>(copies_[t].data());
  }
}

Mean::Sources Mean::SourcesOf(DType dtype) const {
  return {values_.data(), factors_.data(),        values_.size(), total_,
          plain_,         DividesExactly(total_), dtype};
}

void Mean::Tile(size_t begin, size_t elements, bool stream, float* mean,
                ReduceReport* report) {
  if (is_sum_ && terms_.empty())
    return std::fill_n(mean, elements, 0.0f), void();
  const auto mean_of = HWY_DYNAMIC_DISPATCH(MeanOfFinite);
  FindTile(begin);
  if (exact_ && same_type_ && !terms_.empty() &&
      mean_of(SourcesOf(terms_[0].dtype), elements, stream, mean)) {
    return;
  }
  WidenTile(elements);
  const Sources rows = SourcesOf(DType::kFloat32);
  if (exact_ && !same_type_ && mean_of(rows, elements, stream, mean)) return;
  if (is_sum_ && !exact_) SumOfQuotients(rows, elements, mean);
  if (is_sum_) return ReplaceBad(begin, absl::MakeSpan(mean, elements), report);
  TileWithBadValues(rows, begin, elements, mean, report);
}

// Of rows whose scale is not a power of two. Nobody waits for it: nobody sends
// such a scale unless asked to.
void Mean::SumOfQuotients(const Sources& rows, size_t elements,
                          float* mean) const {
  for (size_t i = 0; i < elements; ++i) {
    double sum = 0;
    for (size_t t = 0; t < terms_.size(); ++t) {
      float value;
      std::memcpy(&value, rows.values[t] + i * sizeof(float), sizeof(value));
      sum +=
          terms_[t].factor * (static_cast<double>(value) / terms_[t].divisor);
    }
    mean[i] = static_cast<float>(sum / rows.total + 0.0);
  }
}

void Mean::TileWithBadValues(const Sources& rows, size_t begin, size_t elements,
                             float* mean, ReduceReport* report) const {
  std::vector<size_t> bad(terms_.size(), 0);
  HWY_DYNAMIC_DISPATCH(MeanOfSome)
  (terms_.data(), rows, elements, mean, bad.data());
  for (size_t t = 0; t < terms_.size(); ++t) {
    if (bad[t] == 0) continue;
    report->bad_values.resize(rows_, 0);
    report->bad_values[terms_[t].row] += static_cast<int64_t>(bad[t]);
  }
  ReplaceBad(begin, absl::MakeSpan(mean, elements), report);
}

}  // namespace parapet
#endif  // HWY_ONCE
