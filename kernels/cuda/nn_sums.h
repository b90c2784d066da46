#ifndef PARAPET_KERNELS_CUDA_NN_SUMS_H_
#define PARAPET_KERNELS_CUDA_NN_SUMS_H_

#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/nn_functors.h"
#include "kernels/cuda/nn_team.h"

// The gradients of biases: sums over a batch, in float64 (which costs nothing
// beside the reading), each by one team in an order that depends on the sizes
// alone.
namespace parapet::cuda {

struct SumScratch {
  double parts[kMaxTeam];
};

// sums[c] = sum of values[r][c] over the rows.
struct ColumnSums {
  static constexpr int kWidth = 32;  // columns of a team, side by side

  const float* values;
  int64_t rows, columns;
  float* sums;

  PARAPET_HD int64_t items() const { return (columns + kWidth - 1) / kWidth; }

  // Columns [kWidth * item, kWidth * (item + 1)). The team has kMaxTeam
  // threads.
  template <typename Team>
  PARAPET_HD void operator()(const Team& team, int64_t item,
                             SumScratch* scratch) const {
    const int64_t first = item * kWidth;
    team.Each([&](int thread) {
      scratch->parts[thread] =
          Part(first + thread % kWidth, thread / kWidth, kMaxTeam / kWidth);
    });
    JoinParts(team, scratch->parts, kMaxTeam / kWidth, kWidth, AddDoubles{});
    team.Each([&](int thread) {
      if (thread < kWidth && first + thread < columns)
        sums[first + thread] = static_cast<float>(scratch->parts[thread]);
    });
  }

 private:
  PARAPET_HD double Part(int64_t column, int64_t row, int64_t step) const {
    double sum = 0;
    if (column >= columns) return sum;
    for (; row < rows; row += step) sum += values[row * columns + column];
    return sum;
  }
};

// sums[c] = sum over the samples and the pooled plane of channel c, of the
// gradients whose ReLU is on.
struct ChannelSums {
  PoolSize size;
  const float* gradient;
  const uint8_t* chosen;
  float* sums;

  PARAPET_HD int64_t items() const { return size.channels; }

  // Channel `item`. The team has kMaxTeam threads.
  template <typename Team>
  PARAPET_HD void operator()(const Team& team, int64_t item,
                             SumScratch* scratch) const {
    team.Each([&](int thread) { scratch->parts[thread] = Part(item, thread); });
    JoinParts(team, scratch->parts, kMaxTeam, 1, AddDoubles{});
    team.Each([&](int thread) {
      if (thread == 0) sums[item] = static_cast<float>(scratch->parts[0]);
    });
  }

 private:
  PARAPET_HD double Part(int64_t channel, int64_t thread) const {
    const int64_t plane = size.plane(), all = size.count * plane;
    double sum = 0;
    for (int64_t k = thread; k < all; k += kMaxTeam) {
      const Quotient sample = Divide(k, plane);
      const int64_t p = (sample.quotient * size.channels + channel) * plane +
                        sample.remainder;
      if (chosen[p] != kReluOff) sum += gradient[p];
    }
    return sum;
  }
};

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_SUMS_H_
