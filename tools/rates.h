#ifndef PARAPET_TOOLS_RATES_H_
#define PARAPET_TOOLS_RATES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parapet {

// A rate in words, in bytes a second: "100Gbps" and "12.5GB/s" are the same.
// Prefixes are decimal: K, M, G, T or none. InvalidArgument in words unless it
// is above 0 and finite.
absl::StatusOr<double> ParseRate(absl::string_view text);

// For people: "3.25 GB", "17.0 ms".
std::string BytesInWords(double bytes);
std::string SecondsInWords(double seconds);

}  // namespace parapet

#endif  // PARAPET_TOOLS_RATES_H_
