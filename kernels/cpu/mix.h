#ifndef PARAPET_KERNELS_CPU_MIX_H_
#define PARAPET_KERNELS_CPU_MIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace parapet {

// Combinations of rows of float32, a few columns at a time. Sums are in column
// order.
//
// Where all weights of each combination are the same and add up to 1 (means of
// some rows, as nearest-neighbour mixing makes them), differences from the row
// that is in most of them are mixed: close vectors far from 0 lose nothing, and
// equal ones are their own mean. The operation over the combinations must then
// not mind a constant that is added to all of them; it is added to its result.
// Else each term is added by a fused multiply-add, from 0.
class Mixer {
 public:
  // How many elements are mixed at a time.
  static constexpr size_t kElements = 64;

  // weights[r * rows + c] for combination r and row c. `may_center`: the
  // operation does not mind a constant.
  Mixer(const double* weights, size_t combinations, size_t rows,
        bool may_center);

  size_t combinations() const { return combinations_.size(); }

  // tile[r * kElements + j] = combination r of rows[c][j], float32 at any
  // address, or its difference from the centre.
  void Mix(const uint8_t* const* rows, float* tile);
  // Adds the centre, if there is one, to what became of kElements columns.
  void AddCenter(const uint8_t* const* rows, float* results) const;
  // Combinations, not differences, in float64, rounded once: for what float32
  // cannot hold on the way.
  void MixInFloat64(const uint8_t* const* rows, float* tile) const;

  // For the code of each instruction set.
  struct Term {
    uint32_t row = 0;
    float weight = 0;
    double exact_weight = 0;
  };
  using Combination = std::vector<Term>;  // whose weight is not 0

 private:
  static constexpr size_t kNone = ~size_t{0};

  // The row that is in most combinations, the first of equals; kNone if one is
  // not a mean.
  size_t Center(size_t rows) const;

  std::vector<Combination> combinations_;
  size_t center_ = kNone;
  std::vector<float> differences_;  // of every row, where there is a centre
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_MIX_H_
