#include "common/net/make_transport.h"

#include "absl/strings/match.h"
#include "common/net/shm_transport.h"
#include "common/net/zmq_transport.h"

namespace parapet::net {

std::unique_ptr<Transport> MakeTransport(const std::string& address,
                                         const ShardMap& map,
                                         int network_threads) {
  if (absl::StartsWith(address, "shm://"))
    return MakeShmTransport(ShmOptionsFor(map));
  ZmqOptions options = OptionsFor(map);
  options.io_threads = network_threads;
  return MakeZmqTransport(options);
}

}  // namespace parapet::net
