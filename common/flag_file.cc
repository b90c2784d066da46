#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/flag_set.h"

namespace parapet {
namespace {

constexpr int kMaxDepth = 4;
constexpr int kMaxFiles = 64;
constexpr size_t kMaxFileBytes = size_t{1} << 20;

// What a line says before its comment. A # inside a word is part of it: paths
// may have one.
absl::string_view WithoutComment(absl::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' &&
        (i == 0 ||
         absl::ascii_isspace(static_cast<unsigned char>(line[i - 1])))) {
      return absl::StripAsciiWhitespace(line.substr(0, i));
    }
  }
  return absl::StripAsciiWhitespace(line);
}

FlagSetting Split(absl::string_view text, const std::string& origin) {
  const size_t equals = text.find('=');
  FlagSetting setting{std::string(text.substr(0, equals)), {}, origin};
  if (equals != absl::string_view::npos) {
    setting.value = std::string(text.substr(equals + 1));
  }
  return setting;
}

absl::StatusOr<std::string> ReadFlagFile(const std::string& path,
                                         const std::string& origin) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.eof() || file.bad()) {
    const bool too_long =
        file.gcount() > static_cast<std::streamsize>(kMaxFileBytes);
    return absl::InvalidArgumentError(absl::StrCat(
        "--flagfile=", path, " (", origin, "): ",
        too_long ? "is longer than 1 MiB" : "cannot be read; is it there?"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// A file that another names lies beside it, wherever the program was started.
std::string Beside(const std::string& outer, const std::string& path) {
  const size_t slash = outer.rfind('/');
  if (absl::StartsWith(path, "/") || slash == std::string::npos) return path;
  return absl::StrCat(outer.substr(0, slash + 1), path);
}

class Expander {
 public:
  absl::Status AddFile(const std::string& path, const std::string& origin,
                       int depth) {
    if (depth > kMaxDepth || ++files_ > kMaxFiles) {
      return absl::InvalidArgumentError(
          absl::StrCat("--flagfile=", path, " (", origin,
                       "): flag files are nested more than ", kMaxDepth,
                       " deep, or more than ", kMaxFiles,
                       " of them; does one name itself?"));
    }
    const absl::StatusOr<std::string> text = ReadFlagFile(path, origin);
    if (!text.ok()) return text.status();
    int number = 0;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      absl::Status added =
          AddLine(line, path, absl::StrCat(path, ":", ++number), depth);
      if (!added.ok()) return added;
    }
    return absl::OkStatus();
  }

  absl::Status AddLine(absl::string_view line, const std::string& path,
                       const std::string& origin, int depth) {
    absl::string_view flag = WithoutComment(line);
    if (flag.empty()) return absl::OkStatus();
    if (absl::StartsWith(flag, "--")) flag.remove_prefix(2);
    FlagSetting setting = Split(flag, origin);
    if (setting.name.empty() ||
        setting.name.find_first_of(" \t") != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          origin, ": '", flag, "' is no flag; a line is name=value"));
    }
    if (setting.name == "flagfile") {
      return AddFile(Beside(path, setting.value.value_or("")), origin,
                     depth + 1);
    }
    settings_.push_back(std::move(setting));
    return absl::OkStatus();
  }

  std::vector<FlagSetting> Take() { return std::move(settings_); }

 private:
  std::vector<FlagSetting> settings_;
  int files_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<FlagSetting>> ExpandFlags(
    const std::vector<std::string>& arguments) {
  static constexpr char kOrigin[] = "command line";
  Expander expander;
  std::vector<FlagSetting> own;
  for (const std::string& argument : arguments) {
    if (!absl::StartsWith(argument, "--") || argument.size() == 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument '", argument,
                       "'; flags are written --name=value"));
    }
    FlagSetting setting = Split(absl::string_view(argument).substr(2), kOrigin);
    if (setting.name != "flagfile") {
      own.push_back(std::move(setting));
    } else if (absl::Status added =
                   expander.AddFile(setting.value.value_or(""), kOrigin, 1);
               !added.ok()) {
      return added;
    }
  }
  std::vector<FlagSetting> settings = expander.Take();
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

}  // namespace parapet
