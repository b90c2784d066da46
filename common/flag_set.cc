#include "common/flag_set.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace parapet {
namespace {

// "--name=UNIT [default]": CLI11's own form would suggest that "--name value"
// is accepted.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(40); }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string unit = option->get_type_name(),
                      value = option->get_default_str();
    return absl::StrCat(unit.empty() ? "" : "=", unit,
                        value.empty() ? "" : " [", value,
                        value.empty() ? "" : "]");
  }
};

constexpr size_t kMaxGuess =
    100;  // letters of an unknown flag that is compared with the known ones

// Edits between two names: letters put in, left out, replaced, or two
// neighbours swapped.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1,
                                     std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({replaced, d[i - 1][j] + 1, d[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string Written(const FlagSetting& setting) {
  std::string text = absl::StrCat("--", setting.name);
  if (setting.value) absl::StrAppend(&text, "=", *setting.value);
  return text;
}

absl::Status Refuse(const FlagSetting& setting, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(Written(setting), " (", setting.origin, "): ", why));
}

absl::Status CheckCount(int64_t value, CountBounds bounds) {
  if (value < bounds.low) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be at least ", bounds.low));
  }
  if (value > bounds.high) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be at most ", bounds.high));
  }
  return absl::OkStatus();
}

absl::Status CheckReal(double value, RealBounds bounds) {
  if (value < bounds.low || (value == bounds.low && !bounds.low_too)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be ", bounds.low_too ? "at least " : "above ", bounds.low));
  }
  if (value > bounds.high || (value == bounds.high && !bounds.high_too)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be ", bounds.high_too ? "at most " : "below ", bounds.high));
  }
  return absl::OkStatus();
}

template <typename Int>
FlagSet::Setter CountSetter(Int* target, CountBounds bounds) {
  bounds.high = std::min<int64_t>(bounds.high, std::numeric_limits<Int>::max());
  return [target, bounds](const std::string& text) {
    const absl::StatusOr<int64_t> value = ParseCount(text);
    if (!value.ok()) return value.status();
    *target = static_cast<Int>(*value);
    return CheckCount(*value, bounds);
  };
}

// A default that is no allowed value means "not given", and is not shown.
std::string DefaultText(int64_t value, CountBounds bounds) {
  return CheckCount(value, bounds).ok() ? absl::StrCat(value) : "";
}

absl::Status SetReal(const std::string& text, double* target) {
  if (!absl::SimpleAtod(text, target) || !std::isfinite(*target)) {
    return absl::InvalidArgumentError("is not a number");
  }
  return absl::OkStatus();
}

absl::Status SetBool(const std::string& text, bool* target) {
  *target = text == "true";
  if (*target || text == "false") return absl::OkStatus();
  return absl::InvalidArgumentError("must be true or false");
}

absl::Status SetDuration(const std::string& text, bool zero_too,
                         absl::Duration* target) {
  if (!absl::ParseDuration(text, target) ||
      *target == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        "is not a duration: a number and its unit, as in 10s or 500ms");
  }
  if (*target > absl::ZeroDuration() ||
      (zero_too && *target == absl::ZeroDuration())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(zero_too ? "must not be negative"
                                             : "must be above 0");
}

}  // namespace

absl::StatusOr<int64_t> ParseCount(absl::string_view text) {
  static constexpr std::pair<absl::string_view, int> kSuffixes[] = {
      {"Ki", 10}, {"Mi", 20}, {"Gi", 30}};
  int shift = 0;
  absl::string_view digits = text;
  for (const auto& [suffix, bits] : kSuffixes) {
    if (absl::EndsWith(text, suffix)) {
      shift = bits;
      digits.remove_suffix(suffix.size());
    }
  }
  int64_t value = 0;
  const int64_t limit = std::numeric_limits<int64_t>::max() >> shift;
  if (!absl::SimpleAtoi(digits, &value) || value > limit || value < -limit) {
    return absl::InvalidArgumentError(
        "is not a whole number (64Ki and 1Mi are ones)");
  }
  return value * (int64_t{1} << shift);
}

struct FlagSet::Impl {
  struct Flag {
    CLI::Option* option;  // owned by `app`
    std::optional<std::string> bare;
    std::string origin;
  };

  CLI::App app;
  std::string group;
  std::map<std::string, Flag> flags;

  std::string Nearest(const std::string& name) const {
    std::string best;
    if (name.size() > kMaxGuess) return best;
    size_t least = 1 + std::max<size_t>(2, name.size() / 3);
    for (const auto& [known, flag] : flags) {
      if (const size_t edits = Distance(name, known); edits < least) {
        least = edits;
        best = known;
      }
    }
    return best;
  }

  absl::Status Unknown(const FlagSetting& setting) const {
    const std::string nearest = Nearest(setting.name);
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown flag --", setting.name, " (", setting.origin, ")",
        nearest.empty() ? "; --help lists them" : "; did you mean --", nearest,
        nearest.empty() ? "" : "?"));
  }

  absl::Status Set(const FlagSetting& setting) {
    const auto found = flags.find(setting.name);
    if (found == flags.end()) return Unknown(setting);
    Flag& flag = found->second;
    if (!setting.value && !flag.bare) {
      return Refuse(setting, absl::StrCat("needs a value: --", setting.name,
                                          "=", flag.option->get_type_name()));
    }
    flag.origin = setting.origin;
    // The one place where CLI11's exceptions end.
    try {
      flag.option->clear();
      flag.option->add_result(setting.value ? *setting.value : *flag.bare);
      flag.option->run_callback();
    } catch (const CLI::Error& error) {
      return Refuse(setting, error.what());
    }
    return absl::OkStatus();
  }
};

FlagSet::FlagSet(const std::string& program, const std::string& description)
    : impl_(std::make_unique<Impl>()) {
  impl_->app.name(program);
  impl_->app.description(description);
  impl_->app.formatter(std::make_shared<HelpFormatter>());
  impl_->app.set_help_flag();
}

FlagSet::~FlagSet() = default;

void FlagSet::Group(const std::string& title) { impl_->group = title; }

void FlagSet::Add(const std::string& name, const std::string& unit,
                  const std::string& default_text, const std::string& help,
                  Setter setter, std::optional<std::string> bare) {
  CLI::callback_t callback =
      [setter = std::move(setter)](const CLI::results_t& values) {
        const absl::Status set = setter(values.at(0));
        if (!set.ok()) {
          throw CLI::Error("Value", std::string(set.message()),
                           CLI::ExitCodes::ValidationError);
        }
        return true;
      };
  CLI::Option* option =
      impl_->app.add_option("--" + name, std::move(callback), help);
  // expected(1) lets no value be taken apart as a list, whatever is in it.
  option->group(impl_->group)
      ->type_name(unit)
      ->default_str(default_text)
      ->expected(1);
  impl_->flags[name] = {option, std::move(bare), ""};
}

void FlagSet::Count(const std::string& name, const std::string& unit,
                    const std::string& help, int64_t* target,
                    CountBounds bounds) {
  Add(name, unit, DefaultText(*target, bounds), help,
      CountSetter(target, bounds));
}

void FlagSet::Count(const std::string& name, const std::string& unit,
                    const std::string& help, int* target, CountBounds bounds) {
  Add(name, unit, DefaultText(*target, bounds), help,
      CountSetter(target, bounds));
}

void FlagSet::Real(const std::string& name, const std::string& unit,
                   const std::string& help, double* target, RealBounds bounds) {
  Add(name, unit, absl::StrCat(*target), help,
      [target, bounds](const std::string& text) {
        const absl::Status set = SetReal(text, target);
        return set.ok() ? CheckReal(*target, bounds) : set;
      });
}

void FlagSet::Duration(const std::string& name, const std::string& help,
                       absl::Duration* target, bool zero_too) {
  Add(name, "DURATION", absl::FormatDuration(*target), help,
      [=](const std::string& text) {
        return SetDuration(text, zero_too, target);
      });
}

void FlagSet::Text(const std::string& name, const std::string& unit,
                   const std::string& help, std::string* target) {
  Add(name, unit, *target, help, [target](const std::string& text) {
    *target = text;
    return absl::OkStatus();
  });
}

void FlagSet::Bool(const std::string& name, const std::string& help,
                   bool* target) {
  Add(
      name, "", *target ? "true" : "false", help,
      [target](const std::string& text) { return SetBool(text, target); },
      "true");
}

void FlagSet::OneOf(const std::string& name,
                    const std::vector<std::string>& choices,
                    const std::string& help, std::string* target) {
  Add(name, absl::StrJoin(choices, "|"), *target, help,
      [=](const std::string& text) {
        *target = text;
        if (std::find(choices.begin(), choices.end(), text) != choices.end()) {
          return absl::OkStatus();
        }
        return absl::InvalidArgumentError(
            absl::StrCat("must be one of ", absl::StrJoin(choices, ", ")));
      });
}

absl::Status FlagSet::Apply(const std::vector<FlagSetting>& settings) {
  for (const FlagSetting& setting : settings) {
    if (absl::Status set = impl_->Set(setting); !set.ok()) return set;
  }
  return absl::OkStatus();
}

std::string FlagSet::Origin(const std::string& name) const {
  const auto found = impl_->flags.find(name);
  return found == impl_->flags.end() ? "" : found->second.origin;
}

std::string FlagSet::Help() const {
  return absl::StrReplaceAll(impl_->app.help(), {{"\n\n\n", "\n\n"}});
}

}  // namespace parapet
