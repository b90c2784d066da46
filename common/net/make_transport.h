#ifndef PARAPET_COMMON_NET_MAKE_TRANSPORT_H_
#define PARAPET_COMMON_NET_MAKE_TRANSPORT_H_

#include <memory>
#include <string>

#include "common/layout.h"
#include "common/net/transport.h"

namespace parapet::net {

// The transport that an address is for: shared memory for "shm:///path", else
// ZeroMQ, on `network_threads` threads of its own; with limits for a job's
// chunks and its control messages.
std::unique_ptr<Transport> MakeTransport(const std::string& address,
                                         const ShardMap& map,
                                         int network_threads = 1);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_MAKE_TRANSPORT_H_
