#ifndef PARAPET_KERNELS_CPU_MEAN_H_
#define PARAPET_KERNELS_CPU_MEAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/tile.h"
#include "kernels/device.h"

namespace parapet {

// The mean of some rows, tile by tile (Device::Reduce). It keeps addresses in
// the rows: they must stay as long as it is used.
class Mean {
 public:
  // The mean, by the rows' weights.
  explicit Mean(absl::Span<const Row> rows);
  // Their sum by the rows' weights, which may be negative, divided by `total`.
  // What is not finite in it becomes 0 and counts as bad.
  static Mean SumOf(absl::Span<const Row> rows, double total);

  // Elements [begin, begin + elements) of it, at most kTileElements. What was
  // not finite is added to `report`, whose bad_values is empty or has one
  // number per row. `stream`: see StoreOrStream.
  void Tile(size_t begin, size_t elements, bool stream, float* mean,
            ReduceReport* report);

  // A row that counts: its term at a coordinate is factor * (stored / divisor).
  struct Term {
    const uint8_t* data = nullptr;
    DType dtype = DType::kFloat32;
    double divisor = 1;
    double factor = 1;
    double weight = 1;
    size_t row = 0;  // its place among all rows
  };
  // The terms' values within a tile.
  struct Sources {
    const uint8_t* const* values;  // at any address
    const double* factors;
    size_t count;
    double total;
    bool plain;            // all factors are 1
    bool divides_exactly;  // a product by 1 / total is the quotient
    DType dtype;           // of all values
  };

 private:
  Mean() = default;
  void AddTerm(const Row& row, size_t place);
  void FindTile(size_t begin);
  void WidenTile(size_t elements);
  Sources SourcesOf(DType dtype) const;
  void SumOfQuotients(const Sources& rows, size_t elements, float* mean) const;
  void TileWithBadValues(const Sources& rows, size_t begin, size_t elements,
                         float* mean, ReduceReport* report) const;

  std::vector<Term> terms_;             // in row order
  std::vector<const uint8_t*> values_;  // of each, within the tile
  std::vector<double> factors_;
  std::vector<std::vector<float>> copies_;  // of values that are not float32
  size_t rows_ = 0;
  double total_ = 0;   // of the weights, or 1
  bool exact_ = true;  // no term needs its divisor
  bool same_type_ = true;
  bool plain_ = true;    // all factors are 1
  bool is_sum_ = false;  // made by SumOf
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_MEAN_H_
