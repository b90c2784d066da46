#include "kernels/cpu/mix.h"

#include <algorithm>
#include <cmath>
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
constexpr size_t kAhead = 2048;  // bytes
// Combinations that are summed at a time: as many as the registers hold.
constexpr size_t kMostSums = kWidth == 16 ? 16 : 8;

// What is mixed, at one vector of columns: rows, or differences.
class Inputs {
 public:
  HWY_INLINE Inputs(const Mixer::Task& task, const uint8_t* const* rows,
                    size_t element)
      : rows_(rows), offset_(element * sizeof(float)), center_(hn::Zero(DF())) {
    if (task.center != Mixer::kNone)
      center_ = LoadBytes(DF(), rows[task.center] + offset_);
  }
  HWY_INLINE hn::VFromD<DF> At(size_t row) const {
    const uint8_t* from = rows_[row] + offset_;
    hwy::Prefetch(from + kAhead);
    return hn::Sub(LoadBytes(DF(), from), center_);
  }

 private:
  const uint8_t* const* const rows_;
  const size_t offset_;
  hn::VFromD<DF> center_;
};

// kSums combinations from `first` on, of every row.
template <size_t kSums>
HWY_INLINE void Combine(const Mixer::Task& task, const Inputs& inputs,
                        size_t first, float* to) {
  const DF df;
  hn::VFromD<DF> sums[kSums];
#pragma GCC unroll 16
  for (size_t r = 0; r < kSums; ++r) sums[r] = hn::Zero(df);
  const float* weights = task.dense.data() + first;
  for (size_t c = 0; c < task.rows; ++c, weights += task.padded) {
    if (c == task.center) continue;  // its differences are 0
    const auto x = inputs.At(c);
#pragma GCC unroll 16
    for (size_t r = 0; r < kSums; ++r)
      sums[r] = FusedMulAdd(df, hn::Set(df, weights[r]), x, sums[r]);
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kSums; ++r) {
    if (first + r < task.combinations)
      hn::StoreU(sums[r], df, to + (first + r) * Mixer::kElements);
  }
}

HWY_INLINE void CombineAll(const Mixer::Task& task, const Inputs& inputs,
                           float* to) {
  size_t r = 0;
  for (; r + 8 < task.combinations; r += kMostSums)
    Combine<kMostSums>(task, inputs, r, to);
  if (r < task.combinations) Combine<8>(task, inputs, r, to);
}

// Of those rows only whose weight is not 0: to the same bits.
HWY_INLINE void CombineSome(const Mixer::Task& task, const Inputs& inputs,
                            float* to) {
  const DF df;
  for (const Mixer::Combination& terms : task.terms) {
    auto sum = hn::Zero(df);
    for (const Mixer::Term& term : terms)
      sum = FusedMulAdd(df, hn::Set(df, static_cast<float>(term.weight)),
                        inputs.At(term.row), sum);
    hn::StoreU(sum, df, to);
    to += Mixer::kElements;
  }
}

void Mix(const Mixer::Task& task, const uint8_t* const* rows, float* tile) {
  for (size_t i = 0; i < Mixer::kElements; i += kWidth) {
    const Inputs inputs(task, rows, i);
    if (task.dense.empty()) {
      CombineSome(task, inputs, tile + i);
    } else {
      CombineAll(task, inputs, tile + i);
    }
  }
}

void AddCenter(const uint8_t* center, float* results) {
  const DF df;
  for (size_t i = 0; i < Mixer::kElements; i += kWidth) {
    const auto c = LoadBytes(df, center + i * sizeof(float));
    hn::StoreU(hn::Add(hn::LoadU(df, results + i), c), df, results + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(Mix);
HWY_EXPORT(AddCenter);

// Whether the weights of a combination add up to 1, but for their rounding.
bool IsAffine(const Mixer::Combination& terms) {
  double sum = 0;
  for (const Mixer::Term& term : terms) sum += term.weight;
  return std::abs(sum - 1) < 1e-12;
}

// The row that is in most combinations, the first of equals; kNone if it is not
// in more than half of them, or if one of them is not affine.
size_t CenterOf(const Mixer::Task& task) {
  std::vector<int> used(task.rows);
  for (const Mixer::Combination& terms : task.terms) {
    if (!IsAffine(terms)) return Mixer::kNone;
    for (const Mixer::Term& term : terms) ++used[term.row];
  }
  const auto most = std::max_element(used.begin(), used.end());
  // Far from the others it would take their digits from them; but then it is
  // near few.
  const bool near_most =
      most != used.end() && 2 * static_cast<size_t>(*most) > task.combinations;
  return near_most ? static_cast<size_t>(most - used.begin()) : Mixer::kNone;
}

}  // namespace

Mixer::Mixer(const double* weights, size_t combinations, size_t rows,
             bool may_center) {
  task_.rows = rows;
  task_.combinations = combinations;
  task_.terms.resize(combinations);
  size_t terms = 0;
  for (size_t r = 0; r < combinations; ++r) {
    for (size_t c = 0; c < rows; ++c) {
      const double weight = weights[r * rows + c];
      if (weight == 0) continue;
      task_.terms[r].push_back({static_cast<uint32_t>(c), weight});
      ++terms;
    }
  }
  if (may_center) task_.center = CenterOf(task_);
  if (3 * terms > combinations * rows) MakeDense();
}

void Mixer::MakeDense() {
  constexpr size_t kMost = 16;
  task_.padded = (task_.combinations + kMost - 1) / kMost * kMost;
  task_.dense.resize(task_.rows * task_.padded);
  for (size_t r = 0; r < task_.combinations; ++r) {
    for (const Term& term : task_.terms[r]) {
      task_.dense[term.row * task_.padded + r] =
          static_cast<float>(term.weight);
    }
  }
}

void Mixer::Mix(const uint8_t* const* rows, float* tile) const {
  HWY_DYNAMIC_DISPATCH(Mix)(task_, rows, tile);
}

void Mixer::AddCenter(const uint8_t* const* rows, float* results) const {
  if (task_.center == kNone) return;
  HWY_DYNAMIC_DISPATCH(AddCenter)(rows[task_.center], results);
}

void Mixer::MixInFloat64(const uint8_t* const* rows, float* tile) const {
  for (const Combination& terms : task_.terms) {
    for (size_t j = 0; j < kElements; ++j) {
      double sum = 0;
      for (const Term& term : terms) {
        float value;
        std::memcpy(&value, rows[term.row] + j * sizeof(float), sizeof(value));
        sum += term.weight * static_cast<double>(value);
      }
      *tile++ = static_cast<float>(sum);
    }
  }
}

}  // namespace parapet
#endif  // HWY_ONCE
