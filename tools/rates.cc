#include "tools/rates.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace parapet {
namespace {

constexpr absl::string_view kPrefixes = "KMGT";

// Takes the prefix at the end of `text` away: what it multiplies by.
double TakePrefix(absl::string_view* text) {
  if (text->empty()) return 1;
  const size_t at = kPrefixes.find(text->back());
  if (at == absl::string_view::npos) return 1;
  text->remove_suffix(1);
  return std::pow(1000.0, static_cast<double>(at + 1));
}

// Three digits of `value` with the largest unit that leaves it at 1 or above;
// units fall by 1000 each.
template <size_t N>
std::string InUnits(double value,
                    const std::pair<double, const char*> (&units)[N]) {
  for (const auto& [size, name] : units) {
    if (value < size && size != units[N - 1].first) continue;
    const double scaled = value / size;
    const int digits = scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
    return absl::StrFormat("%.*f %s", digits, scaled, name);
  }
  return "";
}

}  // namespace

absl::StatusOr<double> ParseRate(absl::string_view text) {
  const std::string error = absl::StrCat("'", text,
                                         "' is no rate: give a number above 0 "
                                         "with a unit, as 100Gbps or 12.5GB/s");
  double unit = 1;
  if (absl::ConsumeSuffix(&text, "bps") ||
      absl::ConsumeSuffix(&text, "bit/s")) {
    unit = 1.0 / 8;
  } else if (!absl::ConsumeSuffix(&text, "B/s")) {
    return absl::InvalidArgumentError(error);
  }
  unit *= TakePrefix(&text);
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !(number * unit > 0) ||
      !std::isfinite(number * unit)) {
    return absl::InvalidArgumentError(error);
  }
  return number * unit;
}

std::string BytesInWords(double bytes) {
  static constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "B"}};
  return InUnits(bytes, kUnits);
}

std::string SecondsInWords(double seconds) {
  static constexpr std::pair<double, const char*> kUnits[] = {
      {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
  return InUnits(seconds, kUnits);
}

}  // namespace parapet
