#ifndef PARAPET_KERNELS_CUDA_REDUCE_COORDINATE_H_
#define PARAPET_KERNELS_CUDA_REDUCE_COORDINATE_H_

#include <cstdint>

#include "kernels/cuda/mix.h"
#include "kernels/cuda/order.h"
#include "kernels/cuda/report.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/step.h"

namespace parapet::cuda {

// Where results go: any may be null, or not wanted. Device memory.
struct Results {
  float* aggregate = nullptr;
  float* previous = nullptr;  // also gets the aggregate
  bool step = false;          // a step by the aggregate
  StepNumbers numbers;
  StepPlaces places;
};

// One reduction of a range, as kernels take it; see parapet::Device::Reduce.
// The operation is over `values` values at each coordinate: rows, or
// combinations of them.
struct ReduceTask {
  Rows rows;
  Mixing mixing;
  Operation op = Operation::kMean;
  int f = 0;
  double scale = 1;  // of a sign vote
  int values = 0;
  // Rows as they are: what is not finite is left out at its coordinate.
  bool leaves_out = true;
  // Of a mean that does not leave out, a sum by weights: what it is divided by,
  // and the weight of mixing.previous.
  double total = 1;
  double previous_factor = 0;
  int64_t elements = 0;
  int64_t first = 0;  // the number of element 0, for the report
  Results results;
  Report* report = nullptr;
};

// Values in registers, of at most N.
inline constexpr int kMostInRegisters = 64;
// Beyond this many values a trimmed mean is summed as the CPU does it there:
// see Columns in kernels/cpu/columns.h.
inline constexpr int kMostSummedInOrder = 256;

// Writes one coordinate's result, and the center that it is a difference from;
// NaN and infinity become 0 and count.
PARAPET_HD void Finish(const ReduceTask& task, int64_t j, double result,
                       float center = 0) {
  // + 0.0 makes -0 into +0.
  float value = static_cast<float>(result + 0.0) + center;
  if (!IsFinite(value)) {
    value = 0;
    CountBadCoordinate(task.report, task.first + j);
  }
  const Results& to = task.results;
  if (to.aggregate != nullptr) to.aggregate[j] = value;
  if (to.previous != nullptr) to.previous[j] = value;
  if (to.step) StepElement(to.numbers, value, j, to.places);
}

PARAPET_HD double NotANumber() {
  return static_cast<double>(FloatOf(0x7FC00000u));
}

// What is left of f after some rows were left out, which were liars.
PARAPET_HD int Tolerated(const ReduceTask& task, int kept) {
  const int f = task.f - (task.values - kept);
  return f < 0 ? 0 : f;
}

PARAPET_HD bool TooFew(const ReduceTask& task, int kept) {
  return kept == 0 || kept < task.values - task.f;
}

// The mean of the rows by their weights.
PARAPET_HD void MeanAt(const ReduceTask& task, int64_t j) {
  double sum = 0, total = 0;
  PARAPET_UNROLL_BY(8)
  for (int r = 0; r < task.rows.count; ++r) {
    const RowEntry& entry = task.rows.entries[r];
    auto x = static_cast<double>(StoredAt(task.rows, r, j));
    if (entry.divisor != 1) x /= entry.divisor;
    if (!task.leaves_out || IsFinite(x)) {
      sum += entry.factor * x;
      total += entry.weight;
    } else {
      CountBadValue(task.report, r);
    }
  }
  if (task.leaves_out) return Finish(task, j, sum / total);
  if (task.mixing.previous != nullptr) {
    sum += task.previous_factor * static_cast<double>(task.mixing.previous[j]);
  }
  Finish(task, j, sum / task.total);
}

// The sign of the sum of the signs of the rows.
PARAPET_HD void VoteAt(const ReduceTask& task, int64_t j) {
  int votes = 0, kept = task.values;
  PARAPET_UNROLL_BY(8)
  for (int r = 0; r < task.values; ++r) {
    const float x = ValueAt(task.rows, r, j);
    if (!task.leaves_out || IsFinite(x)) {
      votes += (x > 0) - (x < 0);
    } else {
      --kept;
      CountBadValue(task.report, r);
    }
  }
  Finish(task, j,
         task.leaves_out && TooFew(task, kept) ? NotANumber()
                                               : SignVote(votes, task.scale));
}

// Rows as a kernel for up to N values takes them: in its parameters, which all
// threads of a warp read at once without a register. They are in the middle of
// N places; the places around them are null.
struct InlineRows {
  const unsigned char* at[kMostInRegisters] = {};
  float inverse[kMostInRegisters] = {};  // 1 where there is no row
  bool plain = true;                     // every inverse is 1
};

// In how many places kernels keep so many values: InlineRows, and how many
// combinations wide Mixing.coefficients are.
inline int PlacesFor(int values) {
  if (values > kMostInRegisters) return (values + 3) / 4 * 4;
  int places = 8;
  while (places < values) places *= 2;
  return places;
}

// Of at most kMostInRegisters values. `entries`: what task.rows.entries points
// to, on the host.
inline InlineRows MakeInlineRows(const ReduceTask& task,
                                 const RowEntry* entries) {
  InlineRows made;
  for (float& inverse : made.inverse) inverse = 1;
  const int below = (PlacesFor(task.values) - task.values) / 2;
  for (int r = 0; r < task.values; ++r) {
    made.at[below + r] = task.rows.data + entries[r].offset;
    made.inverse[below + r] = entries[r].inverse;
    made.plain = made.plain && entries[r].inverse == 1;
  }
  return made;
}

template <int N, Stored kStored>
PARAPET_HD void LoadStored(const ReduceTask& task, const InlineRows& rows,
                           int64_t j, float (&v)[N]) {
  const int below = (N - task.values) / 2;
  PARAPET_UNROLL
  for (int r = 0; r < N; ++r) {
    v[r] = r < below ? -Infinity() : Infinity();
    if (rows.at[r] != nullptr) v[r] = Widen(rows.at[r], kStored, j);
  }
}

// Puts the rows into the middle of N values, -inf below and +inf above; a value
// that is left out becomes one of either, so that the middle stays the middle.
// Returns how many are left.
template <int N>
PARAPET_HD int LoadValues(const ReduceTask& task, const InlineRows& rows,
                          int64_t j, float (&v)[N]) {
  if (task.rows.stored == Stored::kFloat32) {
    LoadStored<N, Stored::kFloat32>(task, rows, j, v);
  } else if (task.rows.stored == Stored::kBFloat16) {
    LoadStored<N, Stored::kBFloat16>(task, rows, j, v);
  } else {
    LoadStored<N, Stored::kFloat16>(task, rows, j, v);
  }
  if (!rows.plain) {
    PARAPET_UNROLL
    for (int r = 0; r < N; ++r) v[r] *= rows.inverse[r];
  }
  if (!task.leaves_out) return task.values;
  int kept = task.values;
  uint64_t bad = 0;
  PARAPET_UNROLL
  for (int r = 0; r < N; ++r) {
    if (IsFinite(v[r]) || rows.at[r] == nullptr) continue;
    v[r] = (N - kept) % 2 != 0 ? -Infinity() : Infinity();
    --kept;
    bad |= uint64_t{1} << r;
  }
  for (int r = -((N - task.values) / 2); bad != 0; ++r, bad >>= 1) {
    if ((bad & 1) != 0) CountBadValue(task.report, r);
  }
  return kept;
}

// The same with combinations of the rows, of which none is left out. `column`:
// room for N values of this thread. Sets the center that they are differences
// from.
template <int N>
PARAPET_HD void MixValues(const ReduceTask& task, int64_t j,
                          const Column& column, float (&v)[N], float* center) {
  const Mixing& mixing = task.mixing;
  const float c = CenterAt(task.rows, mixing, j);
  PARAPET_UNROLL
  for (int r = 0; r < N; ++r) v[r] = 0;
  PARAPET_UNROLL_BY(1)
  for (int k = 0; k < mixing.columns; ++k) {
    AddColumn(mixing.coefficients + k * int64_t{mixing.stride},
              InputAt(task.rows, mixing, k, j) - c, v);
  }
  float probe = 0;  // stays 0, or becomes NaN
  PARAPET_UNROLL
  for (int r = 0; r < N; ++r) probe += r < task.values ? v[r] * 0 : 0;
  *center = c;
  if (!(probe == 0)) {
    *center = 0;
    PARAPET_UNROLL_BY(1)
    for (int r = 0; r < task.values; ++r)
      column[r] = MixOneInFloat64(task.rows, mixing, r, j);
    PARAPET_UNROLL
    for (int r = 0; r < N; ++r) v[r] = column[r];
  }
  PARAPET_UNROLL
  for (int r = 0; r < N; ++r) {
    if (r >= task.values)
      v[r] = (r - task.values) % 2 == 0 ? Infinity() : -Infinity();
  }
}

// The median in the middle of N sorted values, of which `kept` are not
// infinities that LoadValues added.
template <int N>
PARAPET_HD double MiddleOf(const float (&sorted)[N], int kept) {
  const auto low = static_cast<double>(sorted[N / 2 - 1]);
  if (kept % 2 != 0) return low;
  return (low + static_cast<double>(sorted[N / 2])) / 2;
}

// What becomes of N values, `kept` of them in the middle once they are sorted.
template <int N, bool kMedian>
PARAPET_HD void FinishValues(const ReduceTask& task, int64_t j, int kept,
                             const Column& column, float (&v)[N],
                             float center = 0) {
  Sort(v);
  if constexpr (kMedian) {
    Finish(task, j, MiddleOf(v, kept), center);
  } else {
    PARAPET_UNROLL
    for (int r = 0; r < N; ++r) column[r] = v[r];
    const int below = (N - kept) / 2;
    Finish(task, j,
           ResultOf(task.op, {&column[below], column.stride}, kept,
                    Tolerated(task, kept), task.scale),
           center);
  }
}

// An operation that needs order, over at most N rows in registers. `column`:
// room for N values of this thread; not used for a median.
template <int N, bool kMedian>
PARAPET_HD void OrderedAt(const ReduceTask& task, const InlineRows& rows,
                          int64_t j, const Column& column) {
  float v[N];
  const int kept = LoadValues(task, rows, j, v);
  if (task.leaves_out && TooFew(task, kept)) {
    Finish(task, j, NotANumber());
  } else {
    FinishValues<N, kMedian>(task, j, kept, column, v);
  }
}

// The same over at most N combinations; `column` is always used.
template <int N, bool kMedian>
PARAPET_HD void MixedAt(const ReduceTask& task, int64_t j,
                        const Column& column) {
  float v[N], center;
  MixValues(task, j, column, v, &center);
  FinishValues<N, kMedian>(task, j, task.values, column, v, center);
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_REDUCE_COORDINATE_H_
