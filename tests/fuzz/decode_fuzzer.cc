// For libFuzzer (-DPARAPET_FUZZERS=ON, with clang): the first two bytes are the
// header's length, then come the header and the payload.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/wire.h"

namespace {

using parapet::Payload;

absl::StatusOr<parapet::Message> DecodeFrames(absl::string_view header,
                                              const Payload& payload) {
  return parapet::Decode(header, payload, parapet::WireLimits());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t said = data[0] | static_cast<size_t>(data[1]) << 8;
  const size_t header = std::min(said, size - 2);
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto message = DecodeFrames(bytes.substr(0, header),
                                    Payload::FromString(bytes.substr(header)));
  if (!message.ok()) return 0;
  // What was accepted can go on the wire again.
  parapet::Encoder encoder;
  Payload payload;
  const absl::string_view again = encoder.Encode(*message, &payload);
  const bool fits = again.size() <= parapet::WireLimits().header;
  if (fits && !DecodeFrames(again, payload).ok()) std::abort();
  return 0;
}
