#include "common/options.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace parapet {
namespace {

constexpr size_t kMaxText = 1024;
constexpr size_t kMaxCalls = 8;
constexpr int kMaxInteger = 65535;  // ids, counts and iterations

bool IsWord(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_';
         });
}

absl::Status Expected(absl::string_view what, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", what, ", found '", found.substr(0, 80), "'"));
}

absl::StatusOr<Call::Argument> ParseArgument(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const bool bare = text.find('=') == absl::string_view::npos;
  const absl::string_view key =
      bare ? "" : absl::StripAsciiWhitespace(parts.first);
  const absl::string_view value =
      absl::StripAsciiWhitespace(bare ? text : parts.second);
  if (value.empty() || (!bare && !IsWord(key)))
    return Expected("an option such as tau=2", text);
  return Call::Argument{std::string(key), std::string(value)};
}

absl::StatusOr<Call> ParseCall(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const size_t open = text.find('(');
  const absl::string_view name =
      absl::StripAsciiWhitespace(text.substr(0, open));
  if (!IsWord(name)) return Expected("a name such as clip or clip(2.0)", text);
  Call call{std::string(name), {}};
  if (open == absl::string_view::npos) return call;
  if (text.back() != ')') return Expected("')' at the end", text);
  const absl::string_view inside =
      absl::StripAsciiWhitespace(text.substr(open + 1, text.size() - open - 2));
  if (inside.empty()) return call;
  if (inside.find_first_of("()") != absl::string_view::npos) {
    return Expected("options without parentheses", inside);
  }
  for (absl::string_view part : absl::StrSplit(inside, ',')) {
    absl::StatusOr<Call::Argument> argument = ParseArgument(part);
    if (!argument.ok()) return argument.status();
    call.arguments.push_back(*std::move(argument));
  }
  return call;
}

// A '+' in an exponent ("1e+3") is inside parentheses, so depth tells the two
// apart.
std::vector<absl::string_view> SplitOutside(absl::string_view text) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')') --depth;
    if (text[at] == '+' && depth == 0) {
      parts.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

bool Accepts(const OptionSpec& spec, const std::string& value) {
  if (std::find(spec.words.begin(), spec.words.end(), value) !=
      spec.words.end())
    return true;
  if (spec.kind == OptionSpec::Kind::kFlag || !spec.numeric) return false;
  int integer = 0;
  if (spec.kind == OptionSpec::Kind::kInteger &&
      (!absl::SimpleAtoi(value, &integer) || integer > kMaxInteger))
    return false;
  double number = 0;
  return absl::SimpleAtod(value, &number) && std::isfinite(number) &&
         number >= spec.least && number > spec.above;
}

std::string Names(const std::vector<OptionSpec>& specs) {
  return absl::StrJoin(specs, ", ",
                       [](std::string* out, const OptionSpec& spec) {
                         absl::StrAppend(out, spec.name);
                       });
}

// The spec that an argument is for: by its key, by a flag's own name, or the
// first not yet given.
const OptionSpec* SpecFor(const Call::Argument& argument,
                          const std::vector<OptionSpec>& specs,
                          const std::map<std::string, std::string>& given) {
  for (const OptionSpec& spec : specs) {
    const bool flag = spec.kind == OptionSpec::Kind::kFlag;
    if (spec.name == argument.key && !flag) return &spec;
    if (flag && argument.key.empty() && spec.name == argument.value)
      return &spec;
    if (!flag && argument.key.empty() && given.count(spec.name) == 0)
      return &spec;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<Call>> ParseCalls(absl::string_view text) {
  if (text.size() > kMaxText) return Expected("at most 1024 characters", text);
  std::vector<Call> calls;
  for (absl::string_view part : SplitOutside(text)) {
    absl::StatusOr<Call> call = ParseCall(part);
    if (!call.ok()) return call.status();
    calls.push_back(*std::move(call));
  }
  if (calls.size() > kMaxCalls)
    return Expected("at most 8 names joined by '+'", text);
  return calls;
}

std::string OptionSpec::Expected() const {
  std::string text;
  const bool integer = kind == Kind::kInteger;
  if (numeric) text = integer ? "a whole number" : "a number";
  if (numeric && std::isfinite(least))
    absl::StrAppend(&text, integer ? " from " : " of at least ", least);
  if (numeric && integer)
    absl::StrAppend(&text, std::isfinite(least) ? " to " : " of at most ",
                    kMaxInteger);
  if (numeric && std::isfinite(above)) absl::StrAppend(&text, " above ", above);
  if (!words.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : " or ",
                    absl::StrJoin(words, " or "));
  }
  return text;
}

absl::StatusOr<Options> Options::Create(const Call& call,
                                        const std::vector<OptionSpec>& specs) {
  Options options;
  for (const Call::Argument& argument : call.arguments) {
    const OptionSpec* spec = SpecFor(argument, specs, options.values_);
    const std::string written =
        argument.key.empty() ? argument.value
                             : absl::StrCat(argument.key, "=", argument.value);
    if (spec == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(call.name, " has no option '", written, "'; it takes ",
                       specs.empty() ? "none" : Names(specs)));
    }
    const bool flag = spec->kind == OptionSpec::Kind::kFlag;
    if (!flag && !Accepts(*spec, argument.value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(call.name, ": ", spec->name, " must be ",
                       spec->Expected(), ", not '", argument.value, "'"));
    }
    if (!options.values_.emplace(spec->name, flag ? "1" : argument.value)
             .second) {
      return absl::InvalidArgumentError(
          absl::StrCat(call.name, ": ", spec->name, " given twice"));
    }
  }
  for (const OptionSpec& spec : specs) {
    if (spec.required && !options.Has(spec.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(call.name, " needs ", spec.name, ", ", spec.Expected(),
                       ": ", call.name, "(", spec.name, "=...)"));
    }
    if (!spec.fallback.empty()) {
      options.values_.emplace(spec.name, spec.fallback);
    }
  }
  return options;
}

double Options::Number(const std::string& name, double fallback) const {
  const auto found = values_.find(name);
  double number = 0;
  if (found == values_.end() || !absl::SimpleAtod(found->second, &number))
    return fallback;
  return number;
}

int Options::Integer(const std::string& name, int fallback) const {
  const auto found = values_.find(name);
  int number = 0;
  if (found == values_.end() || !absl::SimpleAtoi(found->second, &number))
    return fallback;
  return number;
}

std::string Options::Word(const std::string& name,
                          const std::string& fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second;
}

}  // namespace parapet
