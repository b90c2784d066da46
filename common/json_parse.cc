#include "common/json_parse.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

using nlohmann::json;

// Before parsing, so that nobody has to build a tree to find that it is too
// deep.
bool IsDeeperThan(absl::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// Watches the parser for an object that has a key twice, which it would take in
// silence.
class KeyWatch {
 public:
  bool operator()(json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        repeated_ = absl::StrCat("key '", key, "' is there twice");
    }
    return true;
  }
  const std::string& repeated() const { return repeated_; }

 private:
  std::vector<absl::flat_hash_set<std::string>> keys_;
  std::string repeated_;
};

absl::Status Wrong(const char* key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", key, "' ", what));
}

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, int max_depth) {
  if (IsDeeperThan(text, max_depth)) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON is nested deeper than ", max_depth));
  }
  KeyWatch watch;
  json result;
  try {
    result = json::parse(text.begin(), text.end(),
                         [&](int, json::parse_event_t event, json& value) {
                           return watch(event, value);
                         });
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(PrintableText(error.what()));
  }
  if (!watch.repeated().empty())
    return absl::InvalidArgumentError(watch.repeated());
  return result;
}

absl::StatusOr<std::string> DumpJson(const json& value, int indent) {
  try {
    return value.dump(indent);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(PrintableText(error.what()));
  }
}

std::string JsonText(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<const json*> JsonMember(const json& object, const char* key) {
  if (!object.is_object())
    return Wrong(key, "is looked for in what is not an object");
  const auto found = object.find(key);
  if (found == object.end()) return Wrong(key, "is missing");
  return &*found;
}

absl::StatusOr<std::string> JsonString(const json& object, const char* key) {
  PARAPET_ASSIGN_OR_RETURN(const json* member, JsonMember(object, key));
  if (!member->is_string()) return Wrong(key, "is not a string");
  return member->get<std::string>();
}

absl::StatusOr<uint64_t> JsonUint(const json& object, const char* key) {
  PARAPET_ASSIGN_OR_RETURN(const json* member, JsonMember(object, key));
  if (!member->is_number_unsigned())
    return Wrong(key, "is not a whole number from 0 to 2^64 - 1");
  return member->get<uint64_t>();
}

absl::StatusOr<uint64_t> JsonHex(const json& object, const char* key) {
  PARAPET_ASSIGN_OR_RETURN(const std::string text, JsonString(object, key));
  uint64_t value = 0;
  // The length and the case are checked by writing it again.
  if (!absl::SimpleHexAtoi(text, &value) || HexText(value) != text) {
    return Wrong(key, "is not 16 hexadecimal digits");
  }
  return value;
}

absl::StatusOr<std::vector<int64_t>> JsonCounts(const json& object,
                                                const char* key) {
  PARAPET_ASSIGN_OR_RETURN(const json* member, JsonMember(object, key));
  if (!member->is_array()) return Wrong(key, "is not an array");
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> values;
  for (const json& element : *member) {
    if (!element.is_number_unsigned() || element.get<uint64_t>() > kMax) {
      return Wrong(
          key, "has an element that is not a whole number from 0 to 2^63 - 1");
    }
    values.push_back(element.get<int64_t>());
  }
  return values;
}

std::string HexText(uint64_t value) {
  return absl::StrCat(absl::Hex(value, absl::kZeroPad16));
}

std::string PrintableText(absl::string_view text, size_t most) {
  std::string result;
  for (unsigned char c : text.substr(0, most)) {
    if (absl::ascii_isprint(c)) {
      result += static_cast<char>(c);
    } else {
      absl::StrAppend(&result, "\\x", absl::Hex(c, absl::kZeroPad2));
    }
  }
  if (text.size() > most) result += "...";
  return result;
}

}  // namespace parapet
