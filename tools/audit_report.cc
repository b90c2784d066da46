#include "tools/audit_report.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/flags.h"
#include "common/json_parse.h"
#include "nlohmann/json.hpp"
#include "server/audit_writer.h"
#include "tools/command_line.h"

namespace parapet {
namespace {

// Longer lines are not ours: a record of 1,024 workers has some 200 KB.
constexpr size_t kLongestLine = 64 << 20;
// Sorts of words that are kept for a worker: some name numbers.
constexpr size_t kMostWords = 20;

constexpr const char* kNotes = R"(
Unused: it entered, and the rule gave it a weight of 0. Rules that choose few,
such as krum, do that to most workers, honest or not: compare workers.
)";

void AddWords(const std::string& why, WorkerAccount* account) {
  const bool known = account->words.contains(why);
  if (known || account->words.size() < kMostWords) {
    ++account->words[why];
  } else {
    ++account->words["other words"];
  }
}

std::string Reasons(const WorkerAccount& account) {
  std::vector<std::string> reasons;
  for (const auto& [reason, rounds] : account.left_out)
    reasons.push_back(absl::StrCat(reason, " ", rounds));
  // Under a rule on each coordinate by itself it is not left out as a whole.
  if (account.bad_values > 0) {
    reasons.push_back(
        absl::StrCat("not finite at ", account.bad_values,
                     account.bad_values == 1 ? " coordinate" : " coordinates"));
  }
  return absl::StrJoin(reasons, ", ");
}

double Share(double part, uint64_t of) {
  return of == 0 ? 0 : part / static_cast<double>(of);
}

// Those who were left out most come first, then who sent most that is not
// finite, then the most suspect. Who is unused may be as honest as those who
// are not: that does not count.
std::vector<std::pair<uint32_t, const WorkerAccount*>> Ranked(
    const AuditReport& report) {
  std::vector<std::pair<uint32_t, const WorkerAccount*>> all;
  for (const auto& [worker, account] : report.workers)
    all.emplace_back(worker, &account);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second->out(), a.second->bad_values,
                      a.second->suspicion) > std::tuple(b.second->out(),
                                                        b.second->bad_values,
                                                        b.second->suspicion);
  });
  return all;
}

void PrintHead(const AuditReport& report, std::ostream& out) {
  if (report.job) {
    out << "job " << report.job->job << ": " << report.job->rule
        << ", f=" << report.job->f << ", " << report.job->workers
        << " workers\n";
  }
  out << report.rounds << " rounds";
  if (report.rounds > 0)
    out << ", " << report.first_round << " to " << report.last_round;
  if (report.again > 0) out << "; " << report.again << " done twice";
  if (report.bad > 0) out << "; " << report.bad << " bad";
  if (report.lost > 0) out << "; " << report.lost << " not written down";
  if (report.cut > 0)
    out << "; " << report.cut << (report.cut == 1 ? " line" : " lines")
        << " cut";
  if (report.earlier_jobs > 0) {
    out << "; " << report.earlier_jobs << " earlier "
        << (report.earlier_jobs == 1 ? "job" : "jobs") << " left out";
  }
  out << "\n";
}

void PrintTable(const AuditReport& report, std::ostream& out) {
  PrintHead(report, out);
  out << "\nworker       in  left out    unused  mean weight  suspicion  "
         "reasons\n";
  for (const auto& [worker, account] : Ranked(report)) {
    const std::string weight =
        account->weighed == 0
            ? "-"
            : absl::StrFormat("%.4f", Share(account->weight, account->weighed));
    out << absl::StrFormat("%6d %8d %9d %9d %12s %10.2f  %s\n", worker,
                           account->in, account->out(), account->unused, weight,
                           account->suspicion, Reasons(*account));
  }
  out << kNotes;
}

nlohmann::json ToJson(uint32_t worker, const WorkerAccount& account) {
  nlohmann::json json = {{"worker", worker},
                         {"in", account.in},
                         {"left_out", account.out()},
                         {"reasons", account.left_out},
                         {"words", account.words},
                         {"abstained", account.abstained},
                         {"unused", account.unused},
                         {"bad_values", account.bad_values},
                         {"suspicion", account.suspicion}};
  if (account.weighed > 0)
    json["mean_weight"] = Share(account.weight, account.weighed);
  return json;
}

void PrintJson(const AuditReport& report, std::ostream& out) {
  nlohmann::json workers = nlohmann::json::array();
  for (const auto& [worker, account] : report.workers)
    workers.push_back(ToJson(worker, account));
  nlohmann::json all = {{"earlier_jobs", report.earlier_jobs},
                        {"rounds", report.rounds},
                        {"first_round", report.first_round},
                        {"last_round", report.last_round},
                        {"again", report.again},
                        {"bad", report.bad},
                        {"lost", report.lost},
                        {"cut", report.cut},
                        {"workers", workers}};
  if (report.job) {
    all["job"] = report.job->job;
    all["rule"] = report.job->rule;
    all["f"] = report.job->f;
  }
  out << JsonText(all, 2) << "\n";
}

absl::StatusOr<AuditEntry> Parse(const std::string& line) {
  if (line.size() <= kLongestLine) return ParseAuditLine(line);
  return absl::InvalidArgumentError(
      absl::StrCat("a line of ", line.size(), " bytes"));
}

absl::Status ReadAll(const std::string& path, AuditReport* report) {
  bool found = false;
  uint64_t lines = 0;
  for (int age = kOlderAuditFiles; age >= 0; --age) {
    const std::string name = age == 0 ? path : absl::StrCat(path, ".", age);
    std::ifstream in(name, std::ios::binary);
    if (!in) continue;
    found = true;
    lines += ReadAudit(in, report);
  }
  if (!found) return absl::NotFoundError(absl::StrCat("no file ", path));
  if (lines > 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, " has no line as --audit writes them"));
}

}  // namespace

uint64_t WorkerAccount::out() const {
  uint64_t sum = 0;
  for (const auto& [reason, rounds] : left_out) sum += rounds;
  return sum;
}

void AuditReport::Begin(const AuditJob& start) {
  const bool other = job && job->job != start.job;
  const bool something = job || rounds > 0 || lost > 0;
  if (something && (start.from == 0 || other)) {
    AuditReport fresh;
    fresh.earlier_jobs = earlier_jobs + 1;
    *this = std::move(fresh);
  }
  job = start;
}

void AuditReport::Add(const RoundRecord& record) {
  if (rounds == 0) {
    first_round = record.round;
  } else if (record.round <= last_round) {
    ++again;
  }
  ++rounds;
  first_round = std::min(first_round, record.round);
  last_round = std::max(last_round, record.round);
  if (!record.why_bad.empty()) ++bad;
  const bool weighed = record.weights.size() == record.participants.size();
  for (size_t i = 0; i < record.participants.size(); ++i) {
    WorkerAccount& account = workers[record.participants[i]];
    ++account.in;
    if (!weighed) continue;
    account.weight += record.weights[i];
    ++account.weighed;
    if (record.weights[i] == 0) ++account.unused;
  }
  for (const RoundRecord::LeftOut& left : record.left_out) {
    WorkerAccount& account = workers[left.worker];
    ++account.left_out[NameOf(left.reason)];
    AddWords(left.why, &account);
  }
  for (uint32_t worker : record.abstained) ++workers[worker].abstained;
  for (const auto& values : record.bad_values)
    workers[values.worker].bad_values += values.values;
  for (const auto& suspicion : record.suspicion)
    workers[suspicion.worker].suspicion = suspicion.rate;
}

uint64_t ReadAudit(std::istream& in, AuditReport* report) {
  uint64_t lines = 0;
  std::string line;
  while (std::getline(in, line)) {
    if (in.eof()) break;  // without its end
    if (line.empty()) continue;
    const absl::StatusOr<AuditEntry> entry = Parse(line);
    if (!entry.ok()) {
      ++report->cut;
      continue;
    }
    ++lines;
    if (entry->job) {
      report->Begin(*entry->job);
    } else if (entry->lost > 0) {
      report->lost += entry->lost;
    } else {
      report->Add(entry->record);
    }
  }
  return lines;
}

int RunAudit(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err) {
  CLI::App app("Says who was left out how often, and why, from a --audit file.",
               "parapet audit");
  std::string path;
  bool json = false;
  app.add_option("FILE", path,
                 "the file that --audit named; those that it was rotated into "
                 "(FILE.1 to FILE.3) are read as well")
      ->required();
  app.add_flag("--json", json, "print an object");
  if (const auto ended = ParseArgs(&app, args, out, err)) return *ended;
  AuditReport report;
  const absl::Status status = ReadAll(path, &report);
  if (!status.ok()) {
    err << "parapet audit: " << std::string(status.message()) << "\n";
    return kExitFailed;
  }
  if (json) {
    PrintJson(report, out);
  } else {
    PrintTable(report, out);
  }
  return kExitDone;
}

int RunAudit(int argc, char** argv) {
  return RunAudit(ArgsOf(argc, argv), std::cout, std::cerr);
}

}  // namespace parapet
