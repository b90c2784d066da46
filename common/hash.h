#ifndef PARAPET_COMMON_HASH_H_
#define PARAPET_COMMON_HASH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace parapet {

// XXH3's 64-bit hash: the same on every machine. It finds accidents, not
// forgeries.
uint64_t HashBytes(const void* data, size_t size, uint64_t seed = 0);

// HashBytes over bytes that come in pieces, cut anywhere. Not thread-safe.
class StreamingHash {
 public:
  explicit StreamingHash(uint64_t seed = 0);
  ~StreamingHash();
  StreamingHash(StreamingHash&&) noexcept;
  StreamingHash& operator=(StreamingHash&&) noexcept;

  void Update(absl::Span<const std::byte> bytes);
  // Of all bytes so far; more may follow.
  uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The weights hash: the sum modulo 2^64, over leaves, of the hash of a leaf's
// bytes seeded with the leaf's number. A sum, so that servers add up theirs in
// any order, whatever S and the chunk size. `first_element` is the position of
// the first byte in the flat vector, at a leaf's boundary; `element_bytes` the
// size of one element. Returns this part's summand.
uint64_t HashLeaves(absl::Span<const std::byte> bytes, int64_t first_element,
                    int64_t element_bytes, int64_t leaf_elements);

}  // namespace parapet

#endif  // PARAPET_COMMON_HASH_H_
