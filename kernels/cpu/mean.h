#ifndef PARAPET_KERNELS_CPU_MEAN_H_
#define PARAPET_KERNELS_CPU_MEAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/device.h"

namespace parapet {

// How many elements are reduced at a time: what is in between stays in the
// first-level cache.
inline constexpr size_t kTileElements = 2048;

// The mean of some rows, tile by tile (Device::Reduce). It keeps addresses in
// the rows: they must stay as long as it is used.
class Mean {
 public:
  explicit Mean(absl::Span<const Row> rows);

  // The mean of elements [begin, begin + elements) of the rows, at most
  // kTileElements. What was not finite is added to `report`, whose bad_values
  // is empty or has one number per row.
  void Tile(size_t begin, size_t elements, float* mean,
            ReduceReport* report) const;

  // A row that counts: its term at a coordinate is factor * (stored / divisor).
  struct Term {
    const uint8_t* data = nullptr;
    DType dtype = DType::kFloat32;
    double divisor = 1;
    double factor = 1;
    double weight = 1;
    size_t row = 0;  // its place among all rows
  };

 private:
  void TileWithBadValues(size_t begin, size_t elements, float* mean,
                         ReduceReport* report) const;

  std::vector<Term> terms_;  // in row order
  size_t rows_ = 0;
  double total_ = 0;   // of the weights
  bool exact_ = true;  // no term needs its divisor
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_MEAN_H_
