#include <algorithm>

#include "common/net/zmq_transport.h"

namespace parapet::net {
namespace {

// The largest control payload: a shard's report of distances between as many
// workers as can be.
constexpr size_t kControlPayload = size_t{16} << 20;

}  // namespace

ZmqOptions OptionsFor(const ShardMap& map) {
  ZmqOptions options;
  const auto chunk =
      static_cast<size_t>(std::min(map.chunk_elements(), map.elements())) *
      sizeof(float);
  options.limits.max_payload = std::max(chunk, kControlPayload);
  return options;
}

}  // namespace parapet::net
