#include "tools/run_summary.h"

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/audit.h"

namespace parapet {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = size_t{1} << 20;
// Workers that a row names; it counts the others.
constexpr size_t kNamed = 5;

std::string Bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  const int decimals = unit == 0 ? 0 : 1;
  return absl::StrFormat("%.*f %s", decimals, bytes, kUnits[unit]);
}

std::string Percent(double fraction) {
  return absl::StrFormat("%.2f %%", 100 * fraction);
}
std::string Whole(double number) { return absl::StrFormat("%.0f", number); }
std::string Loss(double number) { return absl::StrFormat("%.4f", number); }
std::string Rounds(double number) {
  return absl::StrCat(Whole(number), number == 1 ? " round" : " rounds");
}

struct SummaryRow {
  const char* field;
  const char* title;
  std::string (*format)(double);
};

constexpr SummaryRow kRows[] = {
    {"test_accuracy", "test accuracy", Percent},
    {"final_loss", "final loss", Loss},
    {"rounds", "rounds", Whole},
    {"samples", "samples", Whole},
    {"samples_per_second", "samples/s", Whole},
    {"bytes_pushed", "pushed", Bytes},
    {"bytes_published", "published", Bytes},
};

// What is said of single workers: an object of numbers by id.
struct WorkerRow {
  const char* field;
  const char* title;
  double above;  // who has more is named, the most first
  std::string (*format)(double);
};

constexpr WorkerRow kWorkerRows[] = {
    {"left_out", "left out", 0, Rounds},
    {"strikes", "proven faulty", 0, Rounds},
    {"suspicion", "suspicion", kSuspect, Percent},
};

void AddRow(const std::string& title, const std::string& value,
            std::string* table) {
  absl::StrAppendFormat(table, "  %-16s %s\n", title, value);
}

std::string Phases(const json& phases) {
  std::string text;
  for (const auto& [name, seconds] : phases.items()) {
    if (!seconds.is_number()) continue;
    absl::StrAppendFormat(&text, "%s%s %.2f s", text.empty() ? "" : ", ", name,
                          seconds.get<double>());
  }
  return text;
}

// "worker 3: 12 rounds, worker 1: 2 rounds, 4 more"; empty: nobody.
std::string Workers(const WorkerRow& row, const json& by_id) {
  std::vector<std::pair<double, std::string>> notable;
  for (const auto& [id, value] : by_id.items()) {
    if (value.is_number() && value.get<double>() > row.above)
      notable.emplace_back(value.get<double>(), id);
  }
  std::stable_sort(
      notable.begin(), notable.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(notable.size(), kNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", "worker ", notable[i].second,
                    ": ", row.format(notable[i].first));
  }
  if (notable.size() > kNamed)
    absl::StrAppend(&text, ", ", notable.size() - kNamed, " more");
  return text;
}

void AddWorkerRows(const json& summary, std::string* table) {
  for (const WorkerRow& row : kWorkerRows) {
    const auto found = summary.find(row.field);
    if (found == summary.end() || !found->is_object()) continue;
    const std::string text = Workers(row, *found);
    if (!text.empty()) AddRow(row.title, text, table);
  }
}

}  // namespace

absl::StatusOr<json> ReadSummary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError("the lead wrote no summary");
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  json summary = json::parse(text, nullptr, false);
  if (text.size() > kMaxBytes || !summary.is_object()) {
    return absl::DataLossError(
        "the lead's summary is not a JSON object of at most 1 MiB");
  }
  return summary;
}

std::string SummaryTable(const json& summary) {
  std::string table = "summary\n";
  for (const SummaryRow& row : kRows) {
    const auto found = summary.find(row.field);
    if (found == summary.end() || !found->is_number()) continue;
    AddRow(row.title, row.format(found->get<double>()), &table);
  }
  AddWorkerRows(summary, &table);
  const auto hash = summary.find("weights_hash");
  if (hash != summary.end()) {
    AddRow("weights hash",
           hash->is_string() ? hash->get<std::string>() : hash->dump(), &table);
  }
  const auto phases = summary.find("phases");
  if (phases != summary.end() && phases->is_object()) {
    AddRow("time", Phases(*phases), &table);
  }
  return table;
}

}  // namespace parapet
