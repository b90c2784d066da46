#include "common/hash.h"

#include <algorithm>

// The state's members are needed to hold it by value; the functions are still
// those of the library.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace parapet {

struct StreamingHash::State {
  XXH3_state_t xxh;  // declares its own alignment of 64
};

StreamingHash::StreamingHash(uint64_t seed)
    : state_(std::make_unique<State>()) {
  XXH3_64bits_reset_withSeed(&state_->xxh, seed);
}

StreamingHash::~StreamingHash() = default;
StreamingHash::StreamingHash(StreamingHash&&) noexcept = default;
StreamingHash& StreamingHash::operator=(StreamingHash&&) noexcept = default;

void StreamingHash::Update(absl::Span<const std::byte> bytes) {
  if (!bytes.empty())
    XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

uint64_t StreamingHash::Digest() const {
  return XXH3_64bits_digest(&state_->xxh);
}

uint64_t HashBytes(const void* data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t HashLeaves(absl::Span<const std::byte> bytes, int64_t first_element,
                    int64_t element_bytes, int64_t leaf_elements) {
  const size_t step = static_cast<size_t>(leaf_elements * element_bytes);
  uint64_t sum = 0;
  uint64_t leaf = static_cast<uint64_t>(first_element / leaf_elements);
  for (size_t at = 0; at < bytes.size(); at += step, ++leaf) {
    sum +=
        HashBytes(bytes.data() + at, std::min(step, bytes.size() - at), leaf);
  }
  return sum;
}

}  // namespace parapet
