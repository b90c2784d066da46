#ifndef PARAPET_TOOLS_LOAD_VALUES_H_
#define PARAPET_TOOLS_LOAD_VALUES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/dtype.h"
#include "common/layout.h"
#include "common/payload.h"
#include "kernels/device.h"

namespace parapet {

// What the players of a load test push: a pure function of (seed, worker,
// round, element), so that whoever knows the seed knows every sum. Values are
// whole numbers from -31 to 32: any wire carries them, and sums over thousands
// of workers, without rounding.
//
// There is one table of random numbers, and a worker's gradient of a round is a
// window of it, at a place that (worker, round) picks out of kPlaces. So a
// gradient costs nothing to make and is sent from where it lies, and a chunk of
// another round, worker or place shows. Immutable, hence thread-safe.
class LoadValues {
 public:
  static constexpr int64_t kPlaces = 1 << 16;

  LoadValues(uint64_t seed, int64_t elements, DType wire, double wire_scale,
             const Device& device);

  int64_t elements() const { return elements_; }
  float At(int worker, uint64_t round, int64_t element) const {
    return VectorOf(worker, round)[element];
  }
  // elements() values that live as long as this.
  const float* VectorOf(int worker, uint64_t round) const {
    return table_->data() + PlaceOf(worker, round);
  }
  // A range of a gradient as the wire wants it.
  Payload Push(int worker, uint64_t round, Range range) const;

  // The sums over `workers` at `elements` of [0, elements()), and at all
  // elements of a range. Exact.
  void SumAt(absl::Span<const int> workers, uint64_t round,
             absl::Span<const int64_t> elements, float* sums) const;
  void SumOver(absl::Span<const int> workers, uint64_t round, Range range,
               float* sums) const;

  // The table itself, of elements() + kPlaces values, and where in it a
  // gradient begins: for attacks that change each value by itself.
  absl::Span<const float> table() const { return *table_; }
  int64_t PlaceOf(int worker, uint64_t round) const;
  // The same table as the wire wants it: what Push cuts windows from.
  absl::Span<const std::byte> stored() const {
    return {stored_.get(), table_->size() * SizeOf(wire_)};
  }

 private:
  const uint64_t seed_;
  const int64_t elements_;
  const DType wire_;
  std::shared_ptr<const std::vector<float>> table_;
  std::shared_ptr<const std::byte> stored_;  // as the wire wants it
};

// `values` as a wire wants them, of which pieces can be sent.
std::shared_ptr<const std::byte> EncodeForWire(absl::Span<const float> values,
                                               DType wire, double scale,
                                               const Device& device);

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_VALUES_H_
