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
  double weight = 1;  // mean: the number of samples; not read where weight is 0
};

// An operation on each coordinate by itself. More follow with the robust rules.
enum class CoordinateOp : uint8_t { kMean };

// How rows become one row: the coordinate operation of a plan. (A plan's mixing
// matrix comes with the rules that need one.)
struct ReduceSpec {
  CoordinateOp op = CoordinateOp::kMean;
  int f = 0;
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
};

// Whole operations over ranges of elements, on one piece of hardware. Results
// are the same bits on every CPU, whatever its vector width (promise P4).
// Thread-safe: calls share nothing.
class Device {
 public:
  virtual ~Device() = default;
  // E.g. "cpu (AVX2)": part of a process's fingerprint.
  virtual std::string name() const = 0;

  // aggregate[j] = the rule over the rows at coordinate j. For the mean: sum of
  // weight_i x_ij over sum of weight_i, rows in order, in float64, rounded
  // once; a value that is not finite is left out at its coordinate only; a
  // coordinate with none left gets 0. No rows, or all weights 0: all 0, and
  // every coordinate counts as bad. (4 x 3e38 has the mean 3e38.)
  virtual ReduceReport Reduce(const ReduceSpec& spec,
                              absl::Span<const Row> rows, int64_t elements,
                              float* aggregate) const = 0;

  // One optimizer step with a given gradient.
  virtual void Step(const OptimizerConfig& optimizer, const StepFacts& facts,
                    const float* gradient, int64_t elements,
                    const StepTarget& target) const = 0;

  // Reduce, then Step, in one pass over memory: the same bits as the two one
  // after the other.
  virtual ReduceReport ReduceStep(const ReduceSpec& spec,
                                  absl::Span<const Row> rows, int64_t elements,
                                  const OptimizerConfig& optimizer,
                                  const StepFacts& facts,
                                  const StepTarget& target) const = 0;

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
