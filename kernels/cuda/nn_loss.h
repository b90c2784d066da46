#ifndef PARAPET_KERNELS_CUDA_NN_LOSS_H_
#define PARAPET_KERNELS_CUDA_NN_LOSS_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/nn_team.h"

// Softmax cross-entropy, as worker/loss.h has it: in float64, the largest
// output taken off first.
namespace parapet::cuda {

// What a pass comes to.
struct LossTotal {
  double loss;      // summed over the samples
  int64_t correct;  // samples whose largest output is their label's
};

// An output and its class.
struct Candidate {
  double value;
  int64_t index;
};

// The larger output, the first of equals.
struct LargerCandidate {
  PARAPET_HD Candidate operator()(const Candidate& a,
                                  const Candidate& b) const {
    const bool second =
        b.value > a.value || (b.value == a.value && b.index < a.index);
    return second ? b : a;
  }
};

struct LossScratch {
  Candidate candidates[kMaxTeam];
  double sums[kMaxTeam];
};

// Sample by sample: the gradient of the mean loss by the outputs (unless
// `gradient` is null), the loss, and whether it is correct. Outputs that are
// not numbers make a loss that is none, and are never correct.
struct SoftmaxLoss {
  const float* outputs;  // count x classes
  const int32_t* labels;
  int64_t count, classes;
  float* gradient;
  LossTotal* samples;  // count of them

  PARAPET_HD int64_t items() const { return count; }

  // Sample `item`, with a team of any power of two of threads.
  template <typename Team>
  PARAPET_HD void operator()(const Team& team, int64_t item,
                             LossScratch* scratch) const {
    const float* const row = outputs + item * classes;
    const int threads = team.threads();
    team.Each([&](int thread) {
      scratch->candidates[thread] = Largest(row, thread, threads);
    });
    JoinParts(team, scratch->candidates, threads, 1, LargerCandidate{});
    team.Each([&](int thread) {
      scratch->sums[thread] =
          Sum(row, scratch->candidates[0].value, thread, threads);
    });
    JoinParts(team, scratch->sums, threads, 1, AddDoubles{});
    // The next sample's first phase writes what this one reads.
    team.Each([&](int thread) {
      if (thread == 0)
        samples[item] = Total(item, scratch->candidates[0], scratch->sums[0]);
      if (gradient != nullptr) {
        Differentiate(item, scratch->candidates[0].value, scratch->sums[0],
                      thread, threads);
      }
    });
  }

 private:
  PARAPET_HD Candidate Largest(const float* row, int thread,
                               int threads) const {
    // With more threads than classes the rest repeat the first.
    const int64_t first = thread < classes ? thread : 0;
    Candidate best{row[first], first};
    for (int64_t c = first + threads; c < classes; c += threads)
      best = LargerCandidate{}(best, {row[c], c});
    return best;
  }

  PARAPET_HD double Sum(const float* row, double largest, int thread,
                        int threads) const {
    double sum = 0;
    for (int64_t c = thread; c < classes; c += threads)
      sum += exp(row[c] - largest);
    return sum;
  }

  PARAPET_HD LossTotal Total(int64_t item, const Candidate& best,
                             double sum) const {
    const int32_t label = labels[item];
    const double loss = log(sum) + best.value - outputs[item * classes + label];
    return {loss, best.index == label && sum == sum};
  }

  PARAPET_HD void Differentiate(int64_t item, double largest, double sum,
                                int thread, int threads) const {
    const double scale = 1 / (sum * static_cast<double>(count));
    const int32_t label = labels[item];
    for (int64_t c = thread; c < classes; c += threads) {
      double value = exp(outputs[item * classes + c] - largest);
      if (c == label) value -= sum;
      gradient[item * classes + c] = static_cast<float>(value * scale);
    }
  }
};

struct AddTotals {
  PARAPET_HD LossTotal operator()(const LossTotal& a,
                                  const LossTotal& b) const {
    return {a.loss + b.loss, a.correct + b.correct};
  }
};

struct TotalScratch {
  LossTotal parts[kMaxTeam];
};

// Adds up the samples.
struct SumLosses {
  const LossTotal* samples;
  int64_t count;
  LossTotal* total;  // one

  PARAPET_HD int64_t items() const { return 1; }

  template <typename Team>
  PARAPET_HD void operator()(const Team& team, int64_t item,
                             TotalScratch* scratch) const {
    const int threads = team.threads();
    team.Each([&](int thread) {
      LossTotal sum{0, 0};
      for (int64_t s = thread; s < count; s += threads)
        sum = AddTotals{}(sum, samples[s]);
      scratch->parts[thread] = sum;
    });
    JoinParts(team, scratch->parts, threads, 1, AddTotals{});
    team.Each([&](int thread) {
      if (thread == 0) *total = scratch->parts[0];
    });
  }
};

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_LOSS_H_
