#include "tools/load_servers.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "tools/run_summary.h"

namespace parapet {
namespace {

constexpr absl::Duration kPortPatience = absl::Seconds(20);

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Fields 14 and 15 of /proc/PID/stat, after the name in parentheses.
double CpuSecondsOf(pid_t pid) {
  const std::string text = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(end + 1), ' ', absl::SkipEmpty());
  int64_t user = 0, system = 0;
  if (fields.size() < 13 || !absl::SimpleAtoi(fields[11], &user) ||
      !absl::SimpleAtoi(fields[12], &system))
    return 0;
  return static_cast<double>(user + system) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

// A line of /proc/PID/status, "VmHWM:   1234 kB".
int64_t BytesIn(const std::string& status, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    int64_t kilobytes = 0;
    if (absl::ConsumePrefix(&line, name) && absl::ConsumePrefix(&line, ":") &&
        absl::ConsumeSuffix(&line, " kB") && absl::SimpleAtoi(line, &kilobytes))
      return kilobytes * 1024;
  }
  return 0;
}

// What a server wrote of its refusals at its end.
std::optional<std::map<std::string, uint64_t>> ReadRefusals(
    const std::string& path) {
  const absl::StatusOr<nlohmann::json> summary = ReadSummary(path);
  if (!summary.ok()) return std::nullopt;
  const auto refusals = summary->find("refusals");
  if (refusals == summary->end() || !refusals->is_object()) return std::nullopt;
  std::map<std::string, uint64_t> counts;
  for (const auto& [code, count] : refusals->items()) {
    if (count.is_number_unsigned()) counts[code] = count.get<uint64_t>();
  }
  return counts;
}

RunFlags MakeRunFlags(const LoadFlags& flags) {
  RunFlags run;
  static_cast<CommonFlags&>(run) = flags.common;
  run.transport = flags.transport;
  run.progress = "none";
  run.forward = LoadServerFlags(flags);
  run.forward.push_back(absl::StrCat("--log_level=", flags.common.log_level));
  run.forward.push_back(
      absl::StrCat("--server_threads=", flags.server_threads));
  return run;
}

// What a command says of --servers; the last one counts.
std::vector<std::string> AddressesIn(const std::vector<std::string>& command) {
  std::vector<std::string> addresses;
  for (absl::string_view argument : command) {
    if (!absl::ConsumePrefix(&argument, "--servers=")) continue;
    absl::StatusOr<std::vector<std::string>> parsed =
        ParseAddresses(std::string(argument));
    if (parsed.ok()) addresses = *std::move(parsed);
  }
  return addresses;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadServers>> LoadServers::Start(
    const LoadFlags& flags) {
  std::string programs = flags.bin_dir;
  if (programs.empty()) {
    PARAPET_ASSIGN_OR_RETURN(programs, ProgramFolder());
  }
  const char* base = ::getenv("TMPDIR");
  PARAPET_ASSIGN_OR_RETURN(TempFolder folder,
                           TempFolder::Create(base == nullptr ? "" : base));
  const RunFlags run = MakeRunFlags(flags);
  RunPlan plan(run, programs, folder.path(), false);
  std::unique_ptr<LoadServers> servers(
      new LoadServers(std::move(folder), std::move(plan)));
  const std::vector<RunMember> members =
      servers->plan_.Members(RunRole::kServer);
  // The others are told where the lead listens.
  PARAPET_RETURN_IF_ERROR(servers->StartOne(members[0]));
  PARAPET_RETURN_IF_ERROR(servers->AwaitListening(0));
  for (size_t i = 1; i < members.size(); ++i)
    PARAPET_RETURN_IF_ERROR(servers->StartOne(members[i]));
  for (size_t i = 1; i < members.size(); ++i)
    PARAPET_RETURN_IF_ERROR(servers->AwaitListening(static_cast<int>(i)));
  servers->addresses_ = AddressesIn(servers->plan_.Command(members[0]));
  return servers;
}

absl::Status LoadServers::StartOne(const RunMember& member) {
  std::vector<std::string> command = plan_.Command(member);
  command.push_back(
      absl::StrCat("--summary_file=", SummaryFile(member.number)));
  PARAPET_ASSIGN_OR_RETURN(Process process, Process::Start(command));
  servers_.push_back(
      std::make_unique<Server>(Server{std::move(process), {}, {}, {}}));
  return absl::OkStatus();
}

std::string LoadServers::SummaryFile(int server) const {
  return absl::StrCat(folder_.path(), "/summary-", server, ".json");
}

// NotFound as long as a server does not listen.
absl::Status LoadServers::TryFind(int server) {
  if (plan_.has_ports()) {
    PARAPET_ASSIGN_OR_RETURN(const int port, plan_.ReadPort(server));
    plan_.SetPort(server, port);
    return absl::OkStatus();
  }
  const RunMember lead = plan_.Members(RunRole::kServer).front();
  std::string path =
      AddressesIn(plan_.Command(lead))[static_cast<size_t>(server)];
  path = path.substr(path.find("://") + 3);
  return ::access(path.c_str(), F_OK) == 0 ? absl::OkStatus()
                                           : absl::NotFoundError(path);
}

absl::Status LoadServers::AwaitListening(int server) {
  const absl::Time until = clock_.Now() + kPortPatience;
  while (true) {
    const absl::Status found = TryFind(server);
    if (!absl::IsNotFound(found)) return found;
    Turn();
    if (const std::string words = failure(); !words.empty())
      return absl::UnavailableError(words);
    if (clock_.Now() >= until)
      return absl::DeadlineExceededError(
          absl::StrCat("server ", server, " did not listen in time"));
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void LoadServers::Pass(Descriptor* from, LineSplitter* lines, int number) {
  char buffer[16384];
  while (from->open()) {
    const ssize_t got = ::read(from->get(), buffer, sizeof(buffer));
    if (got == 0) from->Close();
    if (got <= 0) return;
    std::vector<LineSplitter::Line> whole;
    lines->Add({buffer, static_cast<size_t>(got)}, &whole);
    for (const LineSplitter::Line& line : whole)
      std::fprintf(stderr, "server %d | %s\n", number, line.text.c_str());
  }
}

void LoadServers::Look(Server* server) {
  Process& process = server->process;
  if (!process.running()) return;
  LoadServerFacts& facts = server->facts;
  // A process that has ended still says what it took until it is reaped, but
  // not its memory.
  const std::string status =
      ReadAll(absl::StrCat("/proc/", process.pid(), "/status"));
  facts.peak_bytes = std::max(facts.peak_bytes, BytesIn(status, "VmHWM"));
  facts.shared_bytes =
      std::max(facts.shared_bytes, BytesIn(status, "RssShmem"));
  facts.cpu_seconds = std::max(facts.cpu_seconds, CpuSecondsOf(process.pid()));
  if (const std::optional<int> code = process.Poll()) facts.exit_code = *code;
}

void LoadServers::Turn() {
  for (size_t i = 0; i < servers_.size(); ++i) {
    Server& server = *servers_[i];
    Pass(&server.process.out(), &server.out, static_cast<int>(i));
    Pass(&server.process.err(), &server.err, static_cast<int>(i));
    Look(&server);
  }
}

bool LoadServers::running() const {
  for (const auto& server : servers_) {
    if (server->process.running()) return true;
  }
  return false;
}

std::string LoadServers::failure() const {
  for (size_t i = 0; i < servers_.size(); ++i) {
    const int code = servers_[i]->facts.exit_code;
    if (code > 0) return absl::StrCat("server ", i, " ended with code ", code);
  }
  return "";
}

void LoadServers::Finish(absl::Duration patience) {
  const absl::Time until = clock_.Now() + patience;
  for (Turn(); running(); Turn()) {
    if (clock_.Now() >= until) {
      for (const auto& server : servers_) server->process.Signal(SIGKILL);
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  for (size_t i = 0; i < servers_.size(); ++i)
    servers_[i]->facts.refusals =
        ReadRefusals(SummaryFile(static_cast<int>(i)));
}

std::vector<LoadServerFacts> LoadServers::facts() const {
  std::vector<LoadServerFacts> all;
  for (const auto& server : servers_) all.push_back(server->facts);
  return all;
}

}  // namespace parapet
