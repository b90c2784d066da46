#ifndef PARAPET_COMMON_NET_ZMQ_ECHO_H_
#define PARAPET_COMMON_NET_ZMQ_ECHO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parapet::net {

// The bare library as a yardstick: what it takes to send the same frames there
// and back with nothing done to them. Not part of any transport.

// Answers every message with itself, from where it lies, until `messages` have
// been answered.
absl::Status RunZmqEcho(const std::string& address, int64_t messages);

// `rounds` times: sends `chunks` messages of a 64-byte header and `chunk_bytes`
// each, dealt over the addresses in turn, and waits for them all to come back.
// Returns the time each round took.
absl::StatusOr<std::vector<absl::Duration>> RunZmqEchoClient(
    const std::vector<std::string>& addresses, int64_t chunks,
    size_t chunk_bytes, int rounds);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_ECHO_H_
