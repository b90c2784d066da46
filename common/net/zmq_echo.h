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

struct ZmqEchoRounds {
  std::vector<std::string> addresses;  // chunks are dealt over them in turn
  int64_t chunks = 1;
  size_t chunk_bytes = 0;  // of each, beside a header of 64 bytes
  int rounds = 1;
  // One chunk is sent over and over, and what comes back is dropped at once:
  // all of it stays in the processor's caches. Otherwise the frames are those
  // of a trainer: each chunk is sent from its place in a vector, and what came
  // back is kept for a round, as weights are.
  bool hot = false;
};

// Each round sends all chunks and waits for them to come back. Returns the time
// each took.
absl::StatusOr<std::vector<absl::Duration>> RunZmqEchoClient(
    const ZmqEchoRounds& echo);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_ECHO_H_
