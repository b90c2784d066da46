#include "common/wire.h"

#include <algorithm>

#include "common/layout.h"

namespace parapet {

WireLimits LimitsFor(const ShardMap& map) {
  WireLimits limits;
  limits.chunk_payload =
      static_cast<size_t>(std::min(map.chunk_elements(), map.elements()) * 4);
  limits.max_locals = std::max<int64_t>(map.ChunksOf(0), 1);
  return limits;
}

}  // namespace parapet
