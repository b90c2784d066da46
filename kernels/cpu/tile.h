#ifndef PARAPET_KERNELS_CPU_TILE_H_
#define PARAPET_KERNELS_CPU_TILE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/device.h"

namespace parapet {

// How many elements are reduced at a time: what is in between stays in the
// first-level cache.
inline constexpr size_t kTileElements = 1024;

// Rows as float32, a tile at a time. Rows that are float32 already are not
// copied. It keeps addresses in the rows.
class FloatRows {
 public:
  explicit FloatRows(absl::Span<const Row> rows);

  // Addresses of elements [begin, begin + elements) of each row, at most
  // kTileElements, at any alignment; valid until the next call.
  const uint8_t* const* Read(size_t begin, size_t elements);
  // The same elements again, in memory of its own. Rows over shared memory
  // belong to somebody who may lie: what is read twice must be a copy.
  const uint8_t* const* Copy(size_t elements);

  size_t size() const { return at_.size(); }

 private:
  const absl::Span<const Row> rows_;
  std::vector<std::vector<float>> copies_;  // empty where none is needed
  std::vector<std::vector<float>> again_;   // of those that have no copy
  std::vector<const uint8_t*> at_;
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_TILE_H_
