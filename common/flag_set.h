#ifndef PARAPET_COMMON_FLAG_SET_H_
#define PARAPET_COMMON_FLAG_SET_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parapet {

// A flag as it was given. `origin` is for people: "command line" or
// "job.flags:12".
struct FlagSetting {
  std::string name;
  std::optional<std::string> value;  // none: given bare, as in --scale_lr
  std::string origin;
};

// Brings arguments and the files that they name (--flagfile=PATH) into the
// order in which they count: the files' flags first, the command line's last. A
// file has a flag a line, "--name=value" or "name=value"; blank lines and what
// follows a # (at the start of a line or after a space) are skipped. A file may
// name others, relative to itself, up to 4 deep; at most 1 MiB and 64 files.
// Arguments are "--name=value" or "--name".
absl::StatusOr<std::vector<FlagSetting>> ExpandFlags(
    const std::vector<std::string>& arguments);

// A whole number, or one with Ki, Mi or Gi behind it: "64Ki" is 65536.
absl::StatusOr<int64_t> ParseCount(absl::string_view text);

struct CountBounds {
  int64_t low = 0;
  int64_t high = std::numeric_limits<int64_t>::max();
};

struct RealBounds {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool low_too = true;   // whether `low` itself is allowed
  bool high_too = true;  // likewise `high`
};

// The flags of a program: declared with where their values go, then parsed
// once. Targets hold their defaults when a flag is added, and outlive the set.
// Errors are InvalidArgument, in words, with the place where the flag was
// given.
class FlagSet {
 public:
  using Setter = std::function<absl::Status(const std::string& value)>;

  FlagSet(const std::string& program, const std::string& description);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // Flags added from now on appear in the help under this title; with "" they
  // are accepted but not shown.
  void Group(const std::string& title);

  // `unit` stands for the value in the help. `bare` is what the flag without a
  // value means; without it a value is needed.
  void Add(const std::string& name, const std::string& unit,
           const std::string& default_text, const std::string& help,
           Setter setter, std::optional<std::string> bare = {});

  void Count(const std::string& name, const std::string& unit,
             const std::string& help, int64_t* target, CountBounds bounds = {});
  void Count(const std::string& name, const std::string& unit,
             const std::string& help, int* target, CountBounds bounds = {});
  void Real(const std::string& name, const std::string& unit,
            const std::string& help, double* target, RealBounds bounds = {});
  void Duration(const std::string& name, const std::string& help,
                absl::Duration* target, bool zero_too = false);
  void Text(const std::string& name, const std::string& unit,
            const std::string& help, std::string* target);
  void Bool(const std::string& name, const std::string& help, bool* target);
  void OneOf(const std::string& name, const std::vector<std::string>& choices,
             const std::string& help, std::string* target);

  // Sets the targets, in order, so that what comes later wins. An unknown flag
  // is an error that suggests the nearest name.
  absl::Status Apply(const std::vector<FlagSetting>& settings);

  // Where a flag was last given; empty if it was not.
  std::string Origin(const std::string& name) const;

  std::string Help() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_FLAG_SET_H_
