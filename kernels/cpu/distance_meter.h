#ifndef PARAPET_KERNELS_CPU_DISTANCE_METER_H_
#define PARAPET_KERNELS_CPU_DISTANCE_METER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/tile.h"
#include "kernels/device.h"

namespace parapet {

// Squared distances within one leaf after the other; see Device::Distances.
//
// Rows are compared in blocks of four with four: of each pair of blocks all 16
// pairs at once, so that a value that was loaded serves four differences. It
// keeps addresses in the rows. One thread uses it.
class DistanceMeter {
 public:
  DistanceMeter(absl::Span<const Row> rows, const float* previous);

  // Elements [begin, begin + elements), as one leaf. Writes PairCount(n) sums
  // and n flags.
  void Measure(size_t begin, size_t elements, double* sums, uint8_t* finite);

  static constexpr size_t kTile = 256;  // coordinates
  static constexpr size_t kLanes = 16;  // partial sums of a tile
  static constexpr size_t kBlock = 4;   // rows
  static constexpr size_t kPairs = 16;  // of a pair of blocks

 private:
  // Rows of a block by rows of another, or of one block among themselves: then
  // a sum on the diagonal is that of the row and zero.
  struct BlockPair {
    size_t first = 0, second = 0;
    double sums[kPairs] = {};
  };

  void ReadTile(size_t begin, size_t elements);
  void AddTile(uint8_t* finite);
  // A tile of which some sum is of no use, or some pair is none.
  void AddCorrected(const float* sums, BlockPair* blocks, uint8_t* finite);
  // The sum of a tile in float64, if the one in float32 is of no use.
  double Corrected(float sum, const uint8_t* a, const uint8_t* b) const;
  bool IsPair(const BlockPair& blocks, size_t pair) const;
  double& SumOf(double* sums, size_t a, size_t b) const;

  std::vector<Row> rows_;  // and the previous aggregate, if there is one
  const size_t n_;         // without it
  FloatRows floats_;
  std::vector<std::vector<float>> rest_;  // of a tile that is not whole
  std::vector<const uint8_t*> at_;        // of whole blocks
  std::vector<BlockPair> blocks_;
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_DISTANCE_METER_H_
