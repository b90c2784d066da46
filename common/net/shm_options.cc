#include <algorithm>
#include <cstddef>

#include "common/net/shm_transport.h"
#include "common/net/zmq_transport.h"
#include "common/rounding.h"

namespace parapet::net {

ShmOptions ShmOptionsFor(const ShardMap& map) {
  constexpr size_t kLine = 64, kLeast = 4096, kMost = size_t{1} << 20;
  constexpr size_t kBlocks = 8;
  ShmOptions options;
  options.limits = OptionsFor(map).limits;
  // A chunk fills a block; a larger one comes in parts.
  const auto chunk =
      static_cast<size_t>(std::min(map.chunk_elements(), map.elements())) *
      sizeof(float);
  options.shape.block = RoundedUp(std::clamp(chunk, kLeast, kMost), kLine);
  options.shape.blocks = kBlocks;
  // A worker holds the weights it works with while the next ones come, and its
  // gradients lie at the server until the round is done. What cannot be lent is
  // copied.
  const auto chunks = static_cast<size_t>(map.ChunksOf(0));
  options.shape.loans = std::clamp(3 * chunks, options.shape.loans,
                                   ShmShape::kMostSlots - kBlocks);
  return options;
}

}  // namespace parapet::net
