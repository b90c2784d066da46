#ifndef PARAPET_COMMON_JSON_PARSE_H_
#define PARAPET_COMMON_JSON_PARSE_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parapet {

// nlohmann-json for text that may come from anywhere: it never throws, and what
// it accepts has no surprises. Needs about 20 times the memory of the text:
// limit that first.

// Refuses (InvalidArgument, saying where) what is not JSON in UTF-8, nesting
// deeper than `max_depth`, and an object with the same key twice.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, int max_depth);

// InvalidArgument if a string is not UTF-8. `indent` as in json::dump: -1 is
// one line.
absl::StatusOr<std::string> DumpJson(const nlohmann::json& json,
                                     int indent = -1);

// The same for people and tools that must get it whatever its strings hold:
// bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const nlohmann::json& json, int indent = -1);

// Members of an object. InvalidArgument naming the key if `object` is none, the
// member is not there, or it is of another kind.
absl::StatusOr<const nlohmann::json*> JsonMember(const nlohmann::json& object,
                                                 const char* key);
absl::StatusOr<std::string> JsonString(const nlohmann::json& object,
                                       const char* key);
absl::StatusOr<uint64_t> JsonUint(const nlohmann::json& object,
                                  const char* key);
// 64 bits as 16 lower-case hexadecimal digits (JSON numbers lose bits in many
// readers).
absl::StatusOr<uint64_t> JsonHex(const nlohmann::json& object, const char* key);
// An array of numbers from 0 to 2^63 - 1.
absl::StatusOr<std::vector<int64_t>> JsonCounts(const nlohmann::json& object,
                                                const char* key);

std::string HexText(uint64_t value);

// Text from outside, for a message or a terminal: what is not printable ASCII
// is written as \xNN, and what is beyond `most` bytes is left out, as "...".
std::string PrintableText(absl::string_view text, size_t most = 500);

}  // namespace parapet

#endif  // PARAPET_COMMON_JSON_PARSE_H_
