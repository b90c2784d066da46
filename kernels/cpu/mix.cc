#include "kernels/cpu/mix.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mix.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

using DF = hn::ScalableTag<float>;
constexpr size_t kWidth = MaxLanes(DF());
constexpr size_t kVectors = 4;  // summed at a time
constexpr size_t kAhead = 2048;

// One combination of kVectors vectors from `element` on, `Add`ed up from 0.
template <class At, class Add>
HWY_INLINE void Combine(const Mixer::Combination& terms, float scale,
                        const At& at, const Add& add, float* to) {
  const DF df;
  hn::VFromD<DF> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(df);
  for (const Mixer::Term& term : terms) {
    const uint8_t* from = at(term.row);
    const auto weight = hn::Set(df, term.weight);
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) {
      sums[k] = add(weight, LoadBytes(df, from + k * kWidth * sizeof(float)),
                    sums[k]);
    }
  }
#pragma GCC unroll 4
  for (size_t k = 0; k < kVectors; ++k)
    hn::StoreU(hn::Mul(sums[k], hn::Set(df, scale)), df, to + k * kWidth);
}

void MixTile(const Mixer::Combination* combinations, size_t count,
             const uint8_t* const* rows, float* tile) {
  const auto add = [](auto weight, auto x, auto sum)
                       HWY_ATTR { return FusedMulAdd(DF(), weight, x, sum); };
  for (size_t r = 0; r < count; ++r) {
    for (size_t i = 0; i < Mixer::kElements; i += kVectors * kWidth) {
      const auto at = [=](uint32_t row) HWY_ATTR {
        const uint8_t* from = rows[row] + i * sizeof(float);
        hwy::Prefetch(from + kAhead);
        return from;
      };
      Combine(combinations[r], 1, at, add, tile + r * Mixer::kElements + i);
    }
  }
}

// differences[r * kElements + j] = rows[r][j] - center[j].
void Subtract(const uint8_t* const* rows, size_t count, const uint8_t* center,
              float* differences) {
  const DF df;
  for (size_t r = 0; r < count; ++r) {
    for (size_t i = 0; i < Mixer::kElements; i += kWidth) {
      const uint8_t* from = rows[r] + i * sizeof(float);
      hwy::Prefetch(from + kAhead);
      const auto c = LoadBytes(df, center + i * sizeof(float));
      hn::StoreU(hn::Sub(LoadBytes(df, from), c), df,
                 differences + r * Mixer::kElements + i);
    }
  }
}

// Means of rows of differences.
void MixDifferences(const Mixer::Combination* combinations, size_t count,
                    const float* differences, float* tile) {
  const auto add = [](auto, auto x, auto sum)
                       HWY_ATTR { return hn::Add(sum, x); };
  for (size_t r = 0; r < count; ++r) {
    const Mixer::Combination& terms = combinations[r];
    for (size_t i = 0; i < Mixer::kElements; i += kVectors * kWidth) {
      const auto at = [=](uint32_t row) HWY_ATTR {
        return reinterpret_cast<const uint8_t*>(differences +
                                                row * Mixer::kElements + i);
      };
      Combine(terms, terms[0].weight, at, add, tile + r * Mixer::kElements + i);
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

HWY_EXPORT(MixTile);
HWY_EXPORT(Subtract);
HWY_EXPORT(MixDifferences);

float ValueAt(const uint8_t* row, size_t element) {
  float value;
  std::memcpy(&value, row + element * sizeof(float), sizeof(value));
  return value;
}

// Whether the weights of a combination are those of a mean.
bool IsMean(const Mixer::Combination& terms) {
  for (const Mixer::Term& term : terms) {
    if (term.exact_weight != 1.0 / static_cast<double>(terms.size()))
      return false;
  }
  return !terms.empty();
}

}  // namespace

Mixer::Mixer(const double* weights, size_t combinations, size_t rows,
             bool may_center)
    : combinations_(combinations) {
  for (size_t r = 0; r < combinations; ++r) {
    for (size_t c = 0; c < rows; ++c) {
      const double weight = weights[r * rows + c];
      if (weight == 0) continue;
      combinations_[r].push_back(
          {static_cast<uint32_t>(c), static_cast<float>(weight), weight});
    }
  }
  if (may_center) center_ = Center(rows);
  if (center_ != kNone) differences_.resize(rows * kElements);
}

size_t Mixer::Center(size_t rows) const {
  std::vector<int> used(rows);
  for (const Combination& terms : combinations_) {
    if (!IsMean(terms)) return kNone;
    for (const Term& term : terms) ++used[term.row];
  }
  const auto most = std::max_element(used.begin(), used.end());
  return static_cast<size_t>(most - used.begin());
}

void Mixer::Mix(const uint8_t* const* rows, float* tile) {
  if (center_ == kNone) {
    HWY_DYNAMIC_DISPATCH(MixTile)
    (combinations_.data(), combinations_.size(), rows, tile);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Subtract)
  (rows, differences_.size() / kElements, rows[center_], differences_.data());
  HWY_DYNAMIC_DISPATCH(MixDifferences)
  (combinations_.data(), combinations_.size(), differences_.data(), tile);
}

void Mixer::AddCenter(const uint8_t* const* rows, float* results) const {
  if (center_ == kNone) return;
  for (size_t j = 0; j < kElements; ++j)
    results[j] += ValueAt(rows[center_], j);
}

void Mixer::MixInFloat64(const uint8_t* const* rows, float* tile) const {
  for (const Combination& terms : combinations_) {
    for (size_t j = 0; j < kElements; ++j) {
      double sum = 0;
      for (const Term& term : terms) {
        sum +=
            term.exact_weight * static_cast<double>(ValueAt(rows[term.row], j));
      }
      *tile++ = static_cast<float>(sum);
    }
  }
}

}  // namespace parapet
#endif  // HWY_ONCE
