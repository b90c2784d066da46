#ifndef PARAPET_COMMON_OPTIONS_H_
#define PARAPET_COMMON_OPTIONS_H_

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parapet {

// Names with options in parentheses, as flags write them: "clip(2.0) +
// geometric_median(nu=0.1)".

// One name with its options as written. A bare value ("2.0") has an empty key.
struct Call {
  struct Argument {
    std::string key, value;
  };
  std::string name;
  std::vector<Argument> arguments;
};

// Splits `text` at each '+' outside parentheses. At most 1024 characters and 8
// calls. Names and keys are letters, digits and '_'. InvalidArgument says what
// was expected and where.
absl::StatusOr<std::vector<Call>> ParseCalls(absl::string_view text);

// An option that a name takes. Bare values are given to the options in order.
struct OptionSpec {
  enum class Kind { kNumber, kInteger, kFlag };  // kInteger: at most 65535

  std::string name;
  Kind kind = Kind::kNumber;
  bool required = false;
  double least = -std::numeric_limits<double>::infinity();
  double above = -std::numeric_limits<double>::infinity();  // exclusive
  std::vector<std::string> words = {};  // also allowed instead of a number
  bool numeric = true;                  // false: only one of `words`
  std::string fallback = "";  // what it is when it is not given; empty: that is
                              // for whoever reads it to say

  // What a value must be, for messages: "a number above 0".
  std::string Expected() const;
};

// The options of one call, checked against its specs.
class Options {
 public:
  // InvalidArgument in words: an option that is unknown, given twice, missing
  // or out of range.
  static absl::StatusOr<Options> Create(const Call& call,
                                        const std::vector<OptionSpec>& specs);

  bool Has(const std::string& name) const { return values_.count(name) != 0; }
  // The option as a number, or `fallback` if it was not given, here or in its
  // spec, or is a word.
  double Number(const std::string& name, double fallback = 0) const;
  int Integer(const std::string& name, int fallback = 0) const;
  std::string Word(const std::string& name, const std::string& fallback) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_OPTIONS_H_
