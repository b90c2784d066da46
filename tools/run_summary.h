#ifndef PARAPET_TOOLS_RUN_SUMMARY_H_
#define PARAPET_TOOLS_RUN_SUMMARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace parapet {

// What the lead wrote to its --summary_file: one JSON object, at most 1 MiB.
// NotFound if it wrote none, DataLoss if it is something else.
absl::StatusOr<nlohmann::json> ReadSummary(const std::string& path);

// The summary as a small table for people: of the workers those who were left
// out or proven faulty, and whose suspicion is above a half. Fields that it
// does not know are left out.
std::string SummaryTable(const nlohmann::json& summary);

}  // namespace parapet

#endif  // PARAPET_TOOLS_RUN_SUMMARY_H_
