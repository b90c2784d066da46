#ifndef PARAPET_KERNELS_CPU_REDUCER_H_
#define PARAPET_KERNELS_CPU_REDUCER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/mean.h"
#include "kernels/cpu/mix.h"
#include "kernels/cpu/tile.h"
#include "kernels/device.h"

namespace parapet {

// One way to reduce a tile; see Device::Reduce.
class TileReducer {
 public:
  virtual ~TileReducer() = default;
  // Elements [begin, begin + elements) of the aggregate, at most kTileElements.
  // Adds to `report`. `stream`: see StoreOrStream.
  virtual void Tile(size_t begin, size_t elements, bool stream,
                    float* aggregate, ReduceReport* report) = 0;
};

// The way that a specification asks for. What it points to must stay as long as
// it is used. One thread uses it.
std::unique_ptr<TileReducer> MakeTileReducer(const ReduceSpec& spec,
                                             absl::Span<const Row> rows,
                                             const float* previous);

// Puts 0 where a value of a tile is not finite, and counts it.
void ReplaceBad(size_t begin, absl::Span<float> values, ReduceReport* report);

// The columns of a tile in which some value is not finite, done again. Each
// coordinate leaves out what is not finite, and tolerates as many liars fewer.
class ColumnPatcher {
 public:
  ColumnPatcher(CoordinateOp op, int f, double scale, int rows);

  // rows: the tile, which begins at element `begin` of the range.
  void Patch(const uint8_t* const* rows, size_t begin, size_t elements,
             float* aggregate, ReduceReport* report);

 private:
  static constexpr size_t kLanes = 64;

  void PatchLanes(const uint8_t* const* rows, size_t begin, size_t elements,
                  float* aggregate, ReduceReport* report);
  void Pack(const uint8_t* const* rows, size_t elements, int* kept,
            ReduceReport* report);
  const Columns& ColumnsFor(int kept);

  const CoordinateOp op_;
  const int f_;
  const double scale_;
  const int rows_;
  std::vector<float> packed_;
  std::vector<const uint8_t*> at_;
  std::vector<std::unique_ptr<Columns>> columns_;  // by how many rows are left
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_REDUCER_H_
