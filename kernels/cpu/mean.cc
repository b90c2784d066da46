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

// The sums of one block of kSums vectors of columns, divided.
template <bool kFactors>
HWY_INLINE void MeanOfBlock(const Mean::Sources& rows, size_t element,
                            float* mean,
                            hn::VFromD<hn::ScalableTag<double>>* probe) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const size_t lanes = hn::Lanes(dd);
  hn::VFromD<decltype(dd)> sums[kSums];
  for (auto& sum : sums) sum = hn::Zero(dd);
  for (size_t r = 0; r < rows.count; ++r) {
    const uint8_t* from = rows.values[r] + element * sizeof(float);
    hwy::Prefetch(from + kAhead);
    if (kSums * lanes > 16) hwy::Prefetch(from + kAhead + 64);
    const auto factor = hn::Set(dd, rows.factors[r]);
#pragma GCC unroll 4
    for (size_t k = 0; k < kSums; ++k) {
      auto x =
          hn::PromoteTo(dd, LoadBytes(df, from + k * lanes * sizeof(float)));
      if (kFactors) x = hn::Mul(x, factor);
      sums[k] = hn::Add(sums[k], x);
    }
  }
  const bool exact = DividesExactly(rows.total);
  for (size_t k = 0; k < kSums; ++k) {
    const auto quotient = exact ? hn::Mul(sums[k], hn::Set(dd, 1 / rows.total))
                                : hn::Div(sums[k], hn::Set(dd, rows.total));
    // 0, or NaN where the mean is not finite; and NaN stays.
    *probe = hn::Add(*probe, hn::Sub(quotient, quotient));
    hn::StoreU(RoundToFloat(df, quotient), df, mean + k * lanes);
  }
}

// The mean where every value is finite; false when some mean was not finite (a
// finite sum cannot come from a value that is not).
template <bool kFactors>
bool MeanOf(const Mean::Sources& sources, size_t n, bool stream, float* mean) {
  const hn::ScalableTag<double> dd;
  const hn::ScalableTag<float> df;
  const size_t block = kSums * hn::Lanes(dd);
  const Mean::Sources rows = sources;
  auto probe = hn::Zero(dd);
  HWY_ALIGN float line[kSums * MaxLanes(dd)];
  size_t i = 0;
  for (; i + block <= n; i += block) {
    MeanOfBlock<kFactors>(rows, i, stream ? line : mean + i, &probe);
    for (size_t l = 0; stream && l < block; l += hn::Lanes(df))
      hn::Stream(hn::Load(df, line + l), df, mean + i + l);
  }
  bool finite = hn::AllTrue(dd, hn::Eq(probe, hn::Zero(dd)));
  for (; i < n; ++i) {
    double sum = 0;
    for (size_t r = 0; r < rows.count; ++r) {
      float value;
      std::memcpy(&value, rows.values[r] + i * sizeof(float), sizeof(value));
      sum += static_cast<double>(value) * rows.factors[r];
    }
    mean[i] = static_cast<float>(sum / rows.total);
    finite &= mean[i] - mean[i] == 0;
  }
  return finite;
}

bool MeanOfFinite(const Mean::Sources& rows, size_t n, bool stream,
                  float* mean) {
  return rows.plain ? MeanOf<false>(rows, n, stream, mean)
                    : MeanOf<true>(rows, n, stream, mean);
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
      const auto finite = hn::Lt(hn::Abs(x), hn::Inf(dd));
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
  copies_.emplace_back(term.dtype == DType::kFloat32 ? 0 : kTileElements);
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

// Stored values as float32, without a copy where they are that already.
void Mean::ReadTile(size_t begin, size_t elements) {
  for (size_t t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_[t];
    values_[t] = term.data + begin * static_cast<size_t>(SizeOf(term.dtype));
    if (copies_[t].empty()) continue;
    DecodeRange(values_[t], term.dtype, 1, elements, copies_[t].data());
    values_[t] = reinterpret_cast<const uint8_t*>(copies_[t].data());
  }
}

void Mean::Tile(size_t begin, size_t elements, bool stream, float* mean,
                ReduceReport* report) {
  ReadTile(begin, elements);
  const Sources rows = {values_.data(), factors_.data(), values_.size(), total_,
                        plain_};
  if (is_sum_ && terms_.empty())
    return std::fill_n(mean, elements, 0.0f), void();
  if (is_sum_ && !exact_) SumOfQuotients(rows, elements, mean);
  if (exact_ && !terms_.empty() &&
      HWY_DYNAMIC_DISPATCH(MeanOfFinite)(rows, elements, stream, mean)) {
    return;
  }
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
