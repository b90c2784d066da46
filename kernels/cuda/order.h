#ifndef PARAPET_KERNELS_CUDA_ORDER_H_
#define PARAPET_KERNELS_CUDA_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/numbers.h"

namespace parapet::cuda {

// The values are those of parapet::CoordinateOp.
enum class Operation : uint8_t {
  kMean,
  kMedian,
  kTrimmedMean,
  kMeamed,
  kPhocas,
  kSignVote
};

PARAPET_HD bool NeedsOrder(Operation op) {
  return op != Operation::kMean && op != Operation::kSignVote;
}

PARAPET_HD float Infinity() { return FloatOf(0x7F800000u); }

// Not fminf and fmaxf, which put -0 before +0: no matter to any result, but one
// instruction more on the CPU. No value may be NaN.
PARAPET_HD void CompareExchange(float& low, float& high) {
#ifdef __CUDA_ARCH__
  const float a = fminf(low, high), b = fmaxf(low, high);
#else
  const float a = high < low ? high : low, b = high < low ? low : high;
#endif
  low = a;
  high = b;
}

// K. Batcher's odd-even merge sort, "Sorting networks and their applications",
// AFIPS 1968, as a list of the comparators (low, high) that sort N values.
template <int N>
struct Network {
  struct Pair {
    int low, high;
  };

  template <class Visit>
  static constexpr void ForEach(const Visit& visit) {
    for (int p = 1; p < N; p *= 2) {
      for (int k = p; k >= 1; k /= 2) {
        for (int j = k % p; j + k < N; j += 2 * k) {
          for (int i = 0; i < k && i + j + k < N; ++i) {
            if ((i + j) / (p * 2) == (i + j + k) / (p * 2))
              visit(i + j, i + j + k);
          }
        }
      }
    }
  }

  static constexpr int Count() {
    int count = 0;
    ForEach([&count](int, int) { ++count; });
    return count;
  }

  static constexpr auto Make() {
    std::array<Pair, static_cast<size_t>(Count())> pairs{};
    size_t at = 0;
    ForEach([&](int low, int high) { pairs[at++] = {low, high}; });
    return pairs;
  }
};

template <int N>
inline constexpr auto kNetwork = Network<N>::Make();

template <int N, size_t... I>
PARAPET_HD void SortBy(float (&values)[N], std::index_sequence<I...>) {
  // Places as constants: an array that is indexed by them stays in registers.
  (CompareExchange(values[std::integral_constant<int, kNetwork<N>[I].low>()],
                   values[std::integral_constant<int, kNetwork<N>[I].high>()]),
   ...);
}

// Sorts N values, none of them NaN. Comparators that nobody looks at the
// results of are left out by the compiler: a median pays for half a sort.
template <int N>
PARAPET_HD void Sort(float (&values)[N]) {
  SortBy(values, std::make_index_sequence<kNetwork<N>.size()>());
}

// A column of values in steps of `stride`: each thread's own in shared memory.
struct Column {
  float* values = nullptr;
  int64_t stride = 1;
  PARAPET_HD float& operator[](int r) const { return values[r * stride]; }
};

// The mean of [begin, end), summed in that order from 0.
PARAPET_HD double MeanOf(const Column& column, int begin, int end) {
  double sum = 0;
  for (int r = begin; r < end; ++r) sum += static_cast<double>(column[r]);
  return sum / (end - begin);
}

PARAPET_HD double MedianOf(const Column& sorted, int count) {
  return MeanOf(sorted, (count - 1) / 2, count / 2 + 1);
}

// The mean of the count - f values nearest to `center`: the farther end of the
// sorted values goes f times, the larger value on ties.
PARAPET_HD double MeanNearest(const Column& sorted, int count, int f,
                              double center) {
  int begin = 0, end = count;
  for (int k = 0; k < f; ++k) {
    // 2 center against the sum of the ends, not the differences: between the
    // two middle values of an even median the tie is exact.
    if (2 * center > static_cast<double>(sorted[begin]) +
                         static_cast<double>(sorted[end - 1])) {
      ++begin;
    } else {
      --end;
    }
  }
  return MeanOf(sorted, begin, end);
}

PARAPET_HD double SignVote(int votes, double scale) {
  return scale * ((votes > 0) - (votes < 0));
}

PARAPET_HD double SignVoteOf(const Column& column, int count, double scale) {
  int votes = 0;
  for (int r = 0; r < count; ++r) votes += (column[r] > 0) - (column[r] < 0);
  return SignVote(votes, scale);
}

// What an operation makes of `count` values, in ascending order if it needs
// one: count > 2f where f values go at each end, > f otherwise.
PARAPET_HD double ResultOf(Operation op, const Column& column, int count, int f,
                           double scale) {
  switch (op) {
    case Operation::kMean:
      return MeanOf(column, 0, count);
    case Operation::kMedian:
      return MedianOf(column, count);
    case Operation::kTrimmedMean:
      return MeanOf(column, f, count - f);
    case Operation::kMeamed:
      return MeanNearest(column, count, f, MedianOf(column, count));
    case Operation::kPhocas:
      return MeanNearest(column, count, f, MeanOf(column, f, count - f));
    case Operation::kSignVote:
      return SignVoteOf(column, count, scale);
  }
  return 0;
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_ORDER_H_
