#include "tools/load_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/layout.h"

namespace parapet {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMib = 1024.0 * 1024;
// A server without a model or workers: program, libraries, libzmq's threads.
constexpr int64_t kServerItself = int64_t{11} << 20;
// An accepted connection: libzmq's buffers of 8 KiB for encoder and decoder, a
// block of 256 messages for the queue each way, and what is in them.
constexpr int64_t kServerConnection = int64_t{64} << 10;

constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

double Milliseconds(absl::Duration duration) {
  return absl::ToDoubleMilliseconds(duration);
}

// Histograms with their names.
std::vector<std::pair<std::string, const LoadHistogram*>> Latencies(
    const LoadStats& stats) {
  return {{"push_ack", &stats.push_ack},
          {"first_weights", &stats.first_weights},
          {"last_weights", &stats.last_weights},
          {"round", &stats.round}};
}

nlohmann::json LatencyJson(const LoadHistogram& histogram) {
  nlohmann::json json;
  for (const auto& [name, q] : kQuantiles)
    json[name] = Milliseconds(histogram.Quantile(q));
  json["max"] = Milliseconds(histogram.max());
  json["count"] = histogram.count();
  return json;
}

nlohmann::json CodesJson(const std::map<Code, uint64_t>& codes) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [code, count] : codes) json[NameOf(code)] = count;
  return json;
}

using Refusals = std::map<std::string, uint64_t>;  // by the code's name

std::string CodesText(const Refusals& codes) {
  std::string text;
  for (const auto& [code, count] : codes)
    absl::StrAppend(&text, text.empty() ? "" : ", ", code, " ", count);
  return text.empty() ? "none" : text;
}

std::string CodesText(const std::map<Code, uint64_t>& codes) {
  Refusals named;
  for (const auto& [code, count] : codes) named[NameOf(code)] = count;
  return CodesText(named);
}

// Of all servers that told.
Refusals ByServers(const LoadReport& report) {
  Refusals all;
  for (const LoadServerFacts& facts : report.servers) {
    for (const auto& [code, count] : facts.refusals.value_or(Refusals()))
      all[code] += count;
  }
  return all;
}

double PerGib(double cpu_seconds, double gib) {
  return gib > 0 ? cpu_seconds / gib : 0;
}

// A server's part of all that was moved, by its part of the elements.
double ServerGib(const LoadReport& report, size_t index) {
  const JobConfig& job = report.flags.common.job;
  const absl::StatusOr<ShardMap> map =
      ShardMap::Create(report.flags.parameters, job.servers, job.chunk);
  if (!map.ok()) return 0;
  return report.AllGib() *
         static_cast<double>(map->ElementsOf(static_cast<int>(index))) /
         static_cast<double>(map->elements());
}

// Null over shared memory, which the formula leaves out.
nlohmann::json ExpectedBytes(const LoadFlags& flags, size_t index) {
  if (flags.transport == "shm") return nullptr;
  return LoadServerBytes(flags, static_cast<int>(index));
}

std::string Mib(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMib);
}

nlohmann::json ServersJson(const LoadReport& report) {
  nlohmann::json all = nlohmann::json::array();
  for (size_t i = 0; i < report.servers.size(); ++i) {
    const LoadServerFacts& facts = report.servers[i];
    all.push_back({{"cpu_seconds", facts.cpu_seconds},
                   {"cpu_seconds_per_gib",
                    PerGib(facts.cpu_seconds, ServerGib(report, i))},
                   {"peak_bytes", facts.peak_bytes},
                   {"shared_bytes", facts.shared_bytes},
                   {"expected_bytes", ExpectedBytes(report.flags, i)},
                   {"exit_code", facts.exit_code},
                   {"refusals", facts.refusals.has_value()
                                    ? nlohmann::json(*facts.refusals)
                                    : nlohmann::json(nullptr)}});
  }
  return all;
}

nlohmann::json SettingsJson(const LoadFlags& flags) {
  const JobConfig& job = flags.common.job;
  return {{"workers", job.workers},
          {"players", flags.players},
          {"first_worker", flags.first_worker},
          {"servers", job.servers},
          {"transport",
           flags.own_servers > 0 ? flags.transport : "of the addresses"},
          {"parameters", flags.parameters},
          {"rule", job.rule},
          {"byzantine", job.byzantine},
          {"attack", flags.attack.text},
          {"attackers", flags.attack.attackers},
          {"wire", std::string(NameOf(job.wire))},
          {"rate", flags.rate},
          {"seed", job.seed}};
}

void AppendLatencies(const LoadStats& stats, std::string* text) {
  absl::StrAppend(text, absl::StrFormat("%-15s", "latency, ms"));
  for (const auto& [name, q] : kQuantiles)
    absl::StrAppend(text, absl::StrFormat("%10s", name));
  absl::StrAppend(text, absl::StrFormat("%10s\n", "max"));
  for (const auto& [name, histogram] : Latencies(stats)) {
    absl::StrAppend(text, absl::StrFormat("  %-13s", name));
    for (const auto& [unused, q] : kQuantiles)
      absl::StrAppend(
          text,
          absl::StrFormat("%10.3f", Milliseconds(histogram->Quantile(q))));
    absl::StrAppend(
        text, absl::StrFormat("%10.3f\n", Milliseconds(histogram->max())));
  }
}

void AppendProcesses(const LoadReport& report, std::string* text) {
  absl::StrAppendFormat(text, "players        %8.3f CPU s/GiB\n",
                        PerGib(report.player_cpu_seconds, report.AllGib()));
  for (size_t i = 0; i < report.servers.size(); ++i) {
    const LoadServerFacts& facts = report.servers[i];
    absl::StrAppendFormat(
        text, "server %-7d %8.3f CPU s/GiB, peak %s (%s)\n", i,
        PerGib(facts.cpu_seconds, ServerGib(report, i)), Mib(facts.peak_bytes),
        report.flags.transport == "shm"
            ? absl::StrCat(Mib(facts.shared_bytes), " of it shared")
            : absl::StrCat(
                  "by formula ",
                  Mib(LoadServerBytes(report.flags, static_cast<int>(i)))));
  }
}

constexpr size_t kMostFailures = 3;  // that are told in full

void AddFailures(const LoadStats& stats, std::vector<std::string>* all) {
  size_t told = 0;
  int others = 0;
  for (const auto& [words, players] : stats.failures) {
    if (++told > kMostFailures) {
      others += players;
    } else {
      all->push_back(absl::StrCat(
          players == 1 ? "a player: " : absl::StrCat(players, " players: "),
          words));
    }
  }
  if (others > 0)
    all->push_back(absl::StrCat(others, " more players ended likewise"));
}

}  // namespace

double LoadReport::Seconds() const {
  if (stats.rounds == 0) return 0;
  return absl::ToDoubleSeconds(stats.ended - stats.began);
}

double LoadReport::Rounds() const {
  return static_cast<double>(stats.rounds) / std::max(1, flags.Honest());
}

double LoadReport::RoundsPerSecond() const {
  return Seconds() > 0 ? Rounds() / Seconds() : 0;
}

uint64_t LoadReport::BytesOfModel() const {
  return static_cast<uint64_t>(flags.parameters) *
         static_cast<uint64_t>(SizeOf(flags.common.job.wire));
}

double LoadReport::Goodput() const {
  const double bytes =
      static_cast<double>(stats.rounds) * static_cast<double>(BytesOfModel());
  return Seconds() > 0 ? bytes / Seconds() / 1e9 : 0;
}

double LoadReport::AllGib() const {
  return static_cast<double>(stats.pushed_bytes + stats.received_bytes) / kGib;
}

int64_t LoadServerBytes(const LoadFlags& flags, int index) {
  const JobConfig& job = flags.common.job;
  const absl::StatusOr<ShardMap> map =
      ShardMap::Create(flags.parameters, job.servers, job.chunk);
  if (!map.ok()) return 0;
  const int64_t elements = map->ElementsOf(index);
  const auto wire = static_cast<int64_t>(SizeOf(job.wire));
  // Two versions, and one more that somebody is behind with.
  const int64_t weights =
      elements * (job.wire == DType::kFloat32 ? 12 : 4 + 3 * wire);
  const int64_t connections = int64_t{1 + job.connections} * job.workers;
  return kServerItself + weights + elements * wire * job.workers +
         connections * kServerConnection;
}

std::vector<std::string> LoadComplaints(const LoadReport& report) {
  const LoadStats& stats = report.stats;
  std::vector<std::string> all;
  if (!report.trouble.empty()) all.push_back(report.trouble);
  AddFailures(stats, &all);
  for (const auto& [name, count] :
       {std::pair("versions of the weights were lost", stats.lost),
        std::pair("chunks of weights were torn", stats.torn),
        std::pair("chunks of weights were wrong", stats.wrong)}) {
    if (count > 0) all.push_back(absl::StrCat(count, " ", name));
  }
  // After a reconnection what comes again is as it should be.
  if (stats.repeated > 0 && stats.retries == 0)
    all.push_back(
        absl::StrCat(stats.repeated, " chunks of weights were repeated"));
  const absl::Duration p99 = stats.round.Quantile(0.99);
  const LoadFlags& flags = report.flags;
  if (flags.max_p99 > absl::ZeroDuration() && p99 > flags.max_p99)
    all.push_back(absl::StrCat(
        "a round's p99 is ", absl::FormatDuration(p99),
        ", above --max_p99=", absl::FormatDuration(flags.max_p99)));
  if (flags.min_goodput > 0 && report.Goodput() < flags.min_goodput)
    all.push_back(
        absl::StrFormat("goodput is %.4f GB/s each way, below --min_goodput=%g",
                        report.Goodput(), flags.min_goodput));
  return all;
}

nlohmann::json LoadJson(const LoadReport& report) {
  const LoadStats& stats = report.stats;
  nlohmann::json latency;
  for (const auto& [name, histogram] : Latencies(stats))
    latency[name] = LatencyJson(*histogram);
  return {{"settings", SettingsJson(report.flags)},
          {"seconds", report.Seconds()},
          {"rounds", report.Rounds()},
          {"rounds_per_second", report.RoundsPerSecond()},
          {"goodput_gbytes_per_second",
           {{"push", report.Goodput()}, {"weights", report.Goodput()}}},
          {"latency_ms", latency},
          {"players",
           {{"cpu_seconds", report.player_cpu_seconds},
            {"cpu_seconds_per_gib",
             PerGib(report.player_cpu_seconds, report.AllGib())}}},
          {"servers", ServersJson(report)},
          {"checks",
           {{"all_rounds", stats.all_rounds},
            {"lost", stats.lost},
            {"repeated", stats.repeated},
            {"torn", stats.torn},
            {"wrong", stats.wrong},
            {"late_pushes", stats.late},
            {"duplicate_pushes", stats.duplicate},
            {"retries", stats.retries},
            {"attackers_sent_away", stats.sent_away},
            {"refusals", CodesJson(stats.refusals)}}},
          {"malformed",
           {{"sent", report.malformed.sent},
            {"refused", CodesJson(report.malformed.refused)},
            {"cut_off", report.malformed.cut_off},
            {"unanswered", report.malformed.unanswered}}},
          {"complaints", LoadComplaints(report)}};
}

std::string LoadTable(const LoadReport& report) {
  const LoadStats& stats = report.stats;
  const JobConfig& job = report.flags.common.job;
  std::string text = absl::StrFormat(
      "%d players, %d servers, %d parameters (%s), rule %s\n",
      report.flags.players, job.servers, report.flags.parameters,
      std::string(NameOf(job.wire)), job.rule);
  absl::StrAppendFormat(
      &text,
      "%.0f rounds in %.2f s: %.2f rounds/s, %.3f GB/s pushed and %.3f GB/s of "
      "weights\n",
      report.Rounds(), report.Seconds(), report.RoundsPerSecond(),
      report.Goodput(), report.Goodput());
  AppendLatencies(stats, &text);
  AppendProcesses(report, &text);
  absl::StrAppendFormat(
      &text,
      "weights        %d lost, %d repeated, %d torn, %d wrong, of %d "
      "versions\n",
      stats.lost, stats.repeated, stats.torn, stats.wrong, stats.all_rounds);
  absl::StrAppendFormat(&text,
                        "pushes         %d late, %d duplicate; %d retries\n",
                        stats.late, stats.duplicate, stats.retries);
  absl::StrAppendFormat(&text, "refusals       seen by players: %s",
                        CodesText(stats.refusals));
  if (!report.servers.empty())
    absl::StrAppendFormat(&text, "; counted by servers: %s",
                          CodesText(ByServers(report)));
  absl::StrAppend(&text, "\n");
  if (stats.sent_away > 0)
    absl::StrAppendFormat(&text, "attackers      %d sent away\n",
                          stats.sent_away);
  if (report.malformed.sent > 0) {
    absl::StrAppendFormat(
        &text,
        "malformed      %d sent; refused: %s; cut off %d, unanswered %d\n",
        report.malformed.sent, CodesText(report.malformed.refused),
        report.malformed.cut_off, report.malformed.unanswered);
  }
  return text;
}

std::string LoadLiveLine(const LoadStats& now, const LoadStats& before,
                         const LoadFlags& flags, absl::Duration elapsed,
                         absl::Duration between) {
  const double seconds = absl::ToDoubleSeconds(between);
  const double rounds =
      static_cast<double>(now.all_rounds - before.all_rounds) / flags.players /
      seconds;
  return absl::StrFormat(
      "%4.0f s  version %d  %.1f rounds/s  %.3f GB/s each way  round p50 %.2f "
      "ms, p99 %.2f ms  wrong %d",
      absl::ToDoubleSeconds(elapsed), now.all_rounds / flags.players, rounds,
      static_cast<double>(now.received_bytes - before.received_bytes) /
          seconds / 1e9,
      Milliseconds(now.round.Quantile(0.5)),
      Milliseconds(now.round.Quantile(0.99)), now.wrong + now.torn + now.lost);
}

}  // namespace parapet
