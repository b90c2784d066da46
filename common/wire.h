#ifndef PARAPET_COMMON_WIRE_H_
#define PARAPET_COMMON_WIRE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/messages.h"
#include "common/payload.h"

namespace parapet {

class ShardMap;

inline constexpr uint32_t kProtocolVersion = 1;

// What a decoder accepts, worked out from the job before any peer is heard.
// docs/wire.md lists them.
struct WireLimits {
  size_t header = 4096;
  size_t chunk_payload = 4 * 256 * 1024;  // bytes of a Push or Weights payload
  uint32_t max_id = 65535;                // of a worker, evaluator or server
  int64_t max_locals = int64_t{1} << 32;  // chunks of one server
  size_t text = 2048;                     // a string in a header
  size_t job_text = 64 * 1024;
  size_t lease_rounds = 64;
  uint32_t max_compared = 512;  // workers in a ShardReport or a Decision
};

// Those of a job with these chunks: none is larger, and server 0 has the most.
WireLimits LimitsFor(const ShardMap& map);

// Turns messages into frames. Keeps one buffer, so that a message costs no
// allocation of its own. Not thread-safe.
class Encoder {
 public:
  Encoder();
  ~Encoder();
  // The header's bytes; valid until the next call. `payload` receives the
  // second frame, or is made empty. Strings are cut to what the limits allow.
  absl::string_view Encode(const Message& message, Payload* payload);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Checks bytes from a peer and turns them into a message: size before the
// verifier, the verifier with tight limits, then every field. InvalidArgument
// in words; never crashes, whatever the bytes.
absl::StatusOr<Message> Decode(absl::string_view header, const Payload& payload,
                               const WireLimits& limits);

}  // namespace parapet

#endif  // PARAPET_COMMON_WIRE_H_
