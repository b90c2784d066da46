#ifndef PARAPET_KERNELS_CPU_MIX_H_
#define PARAPET_KERNELS_CPU_MIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace parapet {

// Combinations of rows of float32, a few columns at a time: sums of weight
// times value, in row order, by fused multiply-add from 0.
//
// Where the weights of every combination add up to 1, as nearest-neighbour
// mixing makes them, differences from one row are mixed, the one that is in
// most combinations: close vectors far from 0 lose nothing, and equal ones are
// their own mean. The operation over the combinations must then not mind a
// constant that is added to all of them; AddCenter adds it to its result.
class Mixer {
 public:
  // How many elements are mixed at a time.
  static constexpr size_t kElements = 64;

  // weights[r * rows + c] for combination r and row c. `may_center`: the
  // operation does not mind a constant.
  Mixer(const double* weights, size_t combinations, size_t rows,
        bool may_center);

  size_t combinations() const { return task_.combinations; }

  // tile[r * kElements + j] = combination r of rows[c][j], float32 at any
  // address, or its difference from the centre.
  void Mix(const uint8_t* const* rows, float* tile) const;
  // Adds the centre, if there is one, to what became of kElements columns.
  void AddCenter(const uint8_t* const* rows, float* results) const;
  // Combinations, not differences, in float64, rounded once: for what float32
  // cannot hold on the way.
  void MixInFloat64(const uint8_t* const* rows, float* tile) const;

  // For the code of each instruction set.
  static constexpr size_t kNone = ~size_t{0};
  struct Term {
    uint32_t row = 0;
    double weight = 0;
  };
  using Combination = std::vector<Term>;  // whose weight is not 0
  struct Task {
    size_t rows = 0, combinations = 0;
    size_t center = kNone;  // a row
    std::vector<Combination> terms;
    // Unless most weights are 0: those of row c from c * padded on, with zeros
    // behind the last combination.
    std::vector<float> dense;
    size_t padded = 0;
  };

 private:
  void MakeDense();

  Task task_;
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_MIX_H_
