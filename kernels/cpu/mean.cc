#include "kernels/cpu/mean.h"

#include <cmath>

#include "kernels/cpu/cast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mean.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/half-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

// Rows of float32 that are added in one visit of the accumulators.
constexpr size_t kGroup = 4;

struct Source {
  const uint8_t* values[kGroup];  // float32 at any address
  double factors[kGroup];
};

// acc[i] (+)= the terms of kRows rows, one after the other. The first row is
// not added to zero: that would turn -0 into 0.
template <size_t kRows, bool kFirst>
void AddRows(const Source& source, size_t n, double* acc) {
  const Source rows = source;
  ForEach(hn::ScalableTag<double>(), n, [=](auto dd, size_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(dd)> df;
    const auto term = [=](size_t row) HWY_ATTR {
      const auto value = hn::PromoteTo(
          dd, LoadBytes(df, rows.values[row] + i * sizeof(float)));
      return hn::Mul(value, hn::Set(dd, rows.factors[row]));
    };
    auto sum = kFirst ? term(0) : hn::Add(hn::LoadU(dd, acc + i), term(0));
    if constexpr (kRows > 1) sum = hn::Add(sum, term(1));
    if constexpr (kRows > 2) sum = hn::Add(sum, term(2));
    if constexpr (kRows > 3) sum = hn::Add(sum, term(3));
    hn::StoreU(sum, dd, acc + i);
  });
}

template <bool kFirst>
void AddGroup(const Source& source, size_t rows, size_t n, double* acc) {
  if (rows == 1) return AddRows<1, kFirst>(source, n, acc);
  if (rows == 2) return AddRows<2, kFirst>(source, n, acc);
  if (rows == 3) return AddRows<3, kFirst>(source, n, acc);
  return AddRows<4, kFirst>(source, n, acc);
}

// Stored values as float32, without a copy where they are that already.
const uint8_t* Widened(const Mean::Term& term, size_t begin, size_t n,
                       float* buffer) {
  return WithFormat(term.dtype, [&](auto format) -> const uint8_t* {
    using Format = decltype(format);
    const uint8_t* from = term.data + begin * Format::kBytes;
    if (Format::kBytes == sizeof(float)) return from;
    ForEach(hn::ScalableTag<float>(), n, [=](auto df, size_t i) HWY_ATTR {
      hn::StoreU(Format::Load(df, from + i * Format::kBytes), df, buffer + i);
    });
    return reinterpret_cast<const uint8_t*>(buffer);
  });
}

void Divide(const double* sums, size_t n, double total, float* mean) {
  const bool exact = DividesExactly(total);
  const double inverse = 1 / total;
  ForEach(hn::ScalableTag<double>(), n, [=](auto dd, size_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(dd)> df;
    const auto sum = hn::LoadU(dd, sums + i);
    const auto quotient = exact ? hn::Mul(sum, hn::Set(dd, inverse))
                                : hn::Div(sum, hn::Set(dd, total));
    hn::StoreU(RoundToFloat(df, quotient), df, mean + i);
  });
}

bool AllFinite(const float* values, size_t n) {
  const hn::ScalableTag<int32_t> di;
  const hn::ScalableTag<float> df;
  const auto exponent = hn::Set(di, 0x7F800000);
  const size_t lanes = hn::Lanes(df);
  auto largest = hn::Zero(di);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::BitCast(di, hn::LoadU(df, values + i));
    largest = hn::Max(largest, hn::And(bits, exponent));
  }
  bool finite = hn::AllFalse(di, hn::Eq(largest, exponent));
  for (; i < n; ++i) finite &= values[i] - values[i] == 0;
  return finite;
}

// The mean of a tile when every value is finite; false when some value was not
// (a finite sum cannot come from one that is not). Needs at least one term, and
// every divisor to be 1.
bool MeanOfFinite(const Mean::Term* terms, size_t count, size_t begin, size_t n,
                  double total, float* mean) {
  HWY_ALIGN double acc[kTileElements];
  HWY_ALIGN float buffers[kGroup][kTileElements];
  for (size_t first = 0; first < count; first += kGroup) {
    const size_t rows = HWY_MIN(kGroup, count - first);
    Source source;
    for (size_t r = 0; r < rows; ++r) {
      source.values[r] = Widened(terms[first + r], begin, n, buffers[r]);
      source.factors[r] = terms[first + r].factor;
    }
    first == 0 ? AddGroup<true>(source, rows, n, acc)
               : AddGroup<false>(source, rows, n, acc);
  }
  Divide(acc, n, total, mean);
  return AllFinite(mean, n);
}

// The mean of the values that are finite at each coordinate: not finite itself
// where there is none. bad[t] counts the others of term t. The same bits as
// MeanOfFinite where nothing is left out: -0 is the number that changes no sum.
void MeanOfSome(const Mean::Term* terms, size_t count, size_t begin, size_t n,
                float* mean, size_t* bad) {
  HWY_ALIGN double sums[kTileElements];
  HWY_ALIGN double totals[kTileElements];
  HWY_ALIGN float buffer[kTileElements];
  const hn::ScalableTag<double> wide;
  for (size_t i = 0; i < n; ++i) sums[i] = -0.0;
  for (size_t i = 0; i < n; ++i) totals[i] = 0;
  for (size_t t = 0; t < count; ++t) {
    const Mean::Term& term = terms[t];
    const uint8_t* values = Widened(term, begin, n, buffer);
    ForEach(wide, n, [&](auto dd, size_t i) HWY_ATTR {
      const hn::Rebind<float, decltype(dd)> df;
      const auto stored =
          hn::PromoteTo(dd, LoadBytes(df, values + i * sizeof(float)));
      const auto x = hn::Div(stored, hn::Set(dd, term.divisor));
      const auto finite = hn::Lt(hn::Abs(x), hn::Inf(dd));
      const auto product = hn::Mul(hn::Set(dd, term.factor), x);
      const auto kept = hn::IfThenElse(finite, product, hn::Set(dd, -0.0));
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

// Puts 0 where no value was left, and counts it.
void ReplaceBad(size_t begin, absl::Span<float> mean, ReduceReport* report) {
  for (size_t i = 0; i < mean.size(); ++i) {
    if (std::isfinite(mean[i])) continue;
    mean[i] = 0;
    if (report->bad_coordinates++ == 0)
      report->first_bad = static_cast<int64_t>(begin + i);
  }
}

}  // namespace

Mean::Mean(absl::Span<const Row> rows) : rows_(rows.size()) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!(rows[i].weight > 0)) continue;
    terms_.push_back(MakeTerm(rows[i], i));
    total_ += rows[i].weight;
    exact_ = exact_ && terms_.back().divisor == 1;
  }
}

void Mean::Tile(size_t begin, size_t elements, float* mean,
                ReduceReport* report) const {
  if (exact_ && !terms_.empty() &&
      HWY_DYNAMIC_DISPATCH(MeanOfFinite)(terms_.data(), terms_.size(), begin,
                                         elements, total_, mean)) {
    return;
  }
  TileWithBadValues(begin, elements, mean, report);
}

void Mean::TileWithBadValues(size_t begin, size_t elements, float* mean,
                             ReduceReport* report) const {
  std::vector<size_t> bad(terms_.size(), 0);
  HWY_DYNAMIC_DISPATCH(MeanOfSome)
  (terms_.data(), terms_.size(), begin, elements, mean, bad.data());
  for (size_t t = 0; t < terms_.size(); ++t) {
    if (bad[t] == 0) continue;
    report->bad_values.resize(rows_, 0);
    report->bad_values[terms_[t].row] += static_cast<int64_t>(bad[t]);
  }
  ReplaceBad(begin, absl::MakeSpan(mean, elements), report);
}

}  // namespace parapet
#endif  // HWY_ONCE
