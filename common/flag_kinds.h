#ifndef PARAPET_COMMON_FLAG_KINDS_H_
#define PARAPET_COMMON_FLAG_KINDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/flag_set.h"

namespace parapet {

// Flags of kinds that FlagSet does not have. Targets must outlive the set; what
// they hold at first is the default.

// A choice by name that goes into an enum.
template <typename Enum>
void EnumFlag(FlagSet* set, const std::string& name,
              const std::vector<Enum>& choices, const std::string& help,
              Enum* target) {
  std::map<std::string, Enum> by_name;
  std::string unit;
  for (Enum choice : choices) {
    const std::string text(NameOf(choice));
    by_name[text] = choice;
    absl::StrAppend(&unit, unit.empty() ? "" : "|", text);
  }
  set->Add(name, unit, std::string(NameOf(*target)), help,
           [=](const std::string& text) {
             const auto found = by_name.find(text);
             if (found == by_name.end()) {
               return absl::InvalidArgumentError(
                   absl::StrCat("must be one of ", unit));
             }
             *target = found->second;
             return absl::OkStatus();
           });
}

// --seed.
void SeedFlag(FlagSet* set, uint64_t* seed);
// --rule_secret: not a part of the job's text, which every worker is told.
void SecretFlag(FlagSet* set, std::optional<uint64_t>* secret);
// --quorum: 0 for "all".
void QuorumFlag(FlagSet* set, int* quorum);
// A number of threads from `least`, or kAuto (flags.h), the default.
void ThreadsFlag(FlagSet* set, const char* name, const char* help, int* value,
                 int least);
// Where something computes.
void DeviceFlag(FlagSet* set, const char* name, const char* help,
                std::string* value);

}  // namespace parapet

#endif  // PARAPET_COMMON_FLAG_KINDS_H_
