#include "common/hash.h"

#include <algorithm>

#include <xxhash.h>

namespace parapet {

uint64_t HashBytes(const void* data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t HashLeaves(absl::Span<const std::byte> bytes, int64_t first_element, int64_t element_bytes,
                    int64_t leaf_elements) {
  const size_t step = static_cast<size_t>(leaf_elements * element_bytes);
  uint64_t sum = 0;
  uint64_t leaf = static_cast<uint64_t>(first_element / leaf_elements);
  for (size_t at = 0; at < bytes.size(); at += step, ++leaf) {
    sum += HashBytes(bytes.data() + at, std::min(step, bytes.size() - at), leaf);
  }
  return sum;
}

}  // namespace parapet
