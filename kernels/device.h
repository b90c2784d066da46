#ifndef PARAPET_KERNELS_DEVICE_H_
#define PARAPET_KERNELS_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/dtype.h"
#include "common/job.h"

namespace parapet {

// One worker's values for a range, as received: `elements` numbers of type
// `dtype` at any address. A value is the stored number divided by `scale` (1
// but on a float16 wire).
struct Row {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  double scale = 1;
  double weight = 1;  // of a mean of rows as they are: the number of samples; a
                      // row of weight 0 is then not read
};

// An operation on each coordinate by itself, over the values of m rows.
enum class CoordinateOp : uint8_t {
  kMean,         // sum of weight_i x_i / sum of weight_i
  kMedian,       // for even m the average of the two middle values
  kTrimmedMean,  // mean without the f smallest and the f largest
  kMeamed,  // mean of the m - f values nearest to the median; ties: the smaller
            // value first
  kPhocas,  // mean of the m - f values nearest to the trimmed mean; ties
            // likewise
  kSignVote,  // scale * sign(sum of signs)
};

// How rows become one row.
//
// The coordinate operation sees the rows themselves, or `mixed_rows`
// combinations of them: `mixing` has a row of n + 2 weights for each, which
// multiply the n rows, the previous aggregate and zero. It belongs to the
// caller. A row whose weights are all 0 is never read and may be null.
//
// m > 2f rows where f values go at each end, m > f otherwise; m <= kMaxRows.
struct ReduceSpec {
  CoordinateOp op = CoordinateOp::kMean;
  int f = 0;
  double scale = 1;    // kSignVote
  int mixed_rows = 0;  // 0: not mixed
  const double* mixing = nullptr;

  static constexpr int kMaxRows = 1 << 15;
};

// What a reduction met that is not a finite number.
struct ReduceReport {
  std::vector<int64_t> bad_values;  // per row: coordinates at which it was not
                                    // finite; empty: none
  int64_t bad_coordinates =
      0;  // coordinates that got 0 because too few rows were finite
  int64_t first_bad =
      -1;  // the first such coordinate, within the range; -1: none
};

// The numbers of one optimizer step.
struct StepFacts {
  double lr = 0;
  double bias1 = 1;
  double bias2 = 1;
  double gradient_scale =
      1;  // the gradient is multiplied by this first (clip_norm)
};

// Where a step reads and writes. `in` and `out` may be the same; moments are
// updated in place and may be null where the optimizer has none. `publish`, if
// not null, receives the new weights as `publish_dtype`, rounded to nearest
// even; its address may be unaligned.
struct StepTarget {
  const float* in = nullptr;
  float* out = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  void* publish = nullptr;
  DType publish_dtype = DType::kFloat32;
  // `out` goes past the caches: nobody who shares them reads it soon. Counts
  // only where it is neither `in` nor read for `publish`, and 64-byte aligned.
  bool streams = false;
};

// How many squared distances n rows, the previous aggregate and zero have.
constexpr int64_t PairCount(int n) { return int64_t{n + 2} * (n + 1) / 2; }

// Whole operations over ranges of elements, on one piece of hardware. Results
// are the same bits on every CPU, whatever its vector width (promise P4); how
// they are made is in docs/kernels.md.
// Thread-safe: calls share nothing.
class Device {
 public:
  virtual ~Device() = default;
  // E.g. "cpu (AVX2)": part of a process's fingerprint.
  virtual std::string name() const = 0;

  // aggregate[j] = the operation at coordinate j, by itself: the same bits for
  // every cut into ranges. Sums are in float64 and rounded once; a zero is +0.
  // No rows, or a mean of weights that are all 0: all 0, and every coordinate
  // counts as bad. (4 x 3e38 has the mean 3e38.) `previous`: null for 0; it may
  // be `aggregate`.
  //
  // Rows as they are: a value that is not finite is left out at its coordinate
  // only, where m and f fall by one for each (f not below 0). A coordinate with
  // fewer than m - f values left (none, for a mean) gets 0 and counts as bad.
  //
  // Mixed rows: combinations are formed in float32, as differences from one row
  // where that is in more than half of them and their weights add up to 1, and
  // again in float64 where that is not finite. One combination alone, and the
  // mean of several, is a sum in float64; not so a vote. A result that is not
  // finite becomes 0 and counts as bad. (docs/kernels.md says it in full.)
  virtual ReduceReport Reduce(const ReduceSpec& spec,
                              absl::Span<const Row> rows, const float* previous,
                              int64_t elements, float* aggregate) const = 0;

  // One optimizer step with a given gradient.
  virtual void Step(const OptimizerConfig& optimizer, const StepFacts& facts,
                    const float* gradient, int64_t elements,
                    const StepTarget& target) const = 0;

  // Reduce, then Step, in one pass over memory: the same bits as the two one
  // after the other. `previous`, if not null, becomes the aggregate.
  virtual ReduceReport ReduceStep(const ReduceSpec& spec,
                                  absl::Span<const Row> rows, float* previous,
                                  int64_t elements,
                                  const OptimizerConfig& optimizer,
                                  const StepFacts& facts,
                                  const StepTarget& target) const = 0;

  // Squared distances of all pairs of n rows, the previous aggregate (null: 0)
  // and zero, within each leaf of `leaf` elements (the last may be shorter):
  // pairs (0,1), (0,2), ..., (0,n+1), (1,2), ..., (n,n+1). From float32
  // differences, their squares summed in float32 within tiles of 256
  // coordinates, in 16 lanes (lane l adds elements l, l + 16, ... by fused
  // multiply-add; lanes are then added pairwise, l and l + 8, + 4, + 2, + 1),
  // and in float64 across tiles; a tile whose sum is infinite or tiny is done
  // again in float64. Never from inner products, which lose close vectors.
  //
  // Writes PairCount(n) sums and n flags for each leaf: flag i is 0 where row i
  // has a NaN or an infinity, else 1; sums of such a row mean nothing.
  virtual void Distances(absl::Span<const Row> rows, const float* previous,
                         int64_t elements, int64_t leaf, double* sums,
                         uint8_t* finite) const = 0;

  // Sums of squares of each leaf of `leaf` elements (the last may be shorter),
  // in float64, in 16 lanes whatever the vector width: lane l adds elements l,
  // l + 16, ...; lanes are then added pairwise (l and l + 8, + 4, + 2, + 1).
  // Writes ceil(elements / leaf) sums.
  virtual void LeafSquares(const float* values, int64_t elements, int64_t leaf,
                           double* sums) const = 0;

  // values[j] * scale, rounded to nearest even, as `to`. Returns how many
  // finite values became infinite (an overflow of float16). `out` may be
  // unaligned.
  virtual int64_t Encode(const float* values, int64_t elements, DType to,
                         double scale, void* out) const = 0;
  // The inverse: stored / scale. `in` may be unaligned.
  virtual void Decode(const void* in, DType from, double scale,
                      int64_t elements, float* values) const = 0;

  // momentum = beta * momentum + (1 - beta) * gradient, elementwise.
  virtual void WorkerMomentum(double beta, const float* gradient,
                              int64_t elements, float* momentum) const = 0;
};

// The CPU, with the widest vectors it has. Stateless; the caller owns it.
std::unique_ptr<Device> MakeCpuDevice();

}  // namespace parapet

#endif  // PARAPET_KERNELS_DEVICE_H_
