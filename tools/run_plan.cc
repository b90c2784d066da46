#include "tools/run_plan.h"

#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace parapet {
namespace {

constexpr char kHost[] = "127.0.0.1";

const char* RoleName(RunRole role) {
  return role == RunRole::kServer   ? "server"
         : role == RunRole::kWorker ? "worker"
                                    : "evaluator";
}

std::string LeadProgress(const std::string& asked, bool terminal) {
  if (asked != "auto") return asked;
  return terminal ? "terminal" : "plain";
}

}  // namespace

RunPlan::RunPlan(const RunFlags& flags, std::string bin_dir, std::string folder,
                 bool terminal, std::vector<int> gpus)
    : flags_(flags),
      bin_dir_(std::move(bin_dir)),
      folder_(std::move(folder)),
      lead_progress_(LeadProgress(flags.progress, terminal)),
      tcp_(flags.transport == "tcp"),
      gpus_(std::move(gpus)),
      ports_(static_cast<size_t>(flags.job.servers)) {}

std::vector<RunMember> RunPlan::Members(RunRole role) const {
  const JobConfig& job = flags_.job;
  const int count = role == RunRole::kServer   ? job.servers
                    : role == RunRole::kWorker ? job.workers
                                               : job.evaluators;
  std::vector<RunMember> members;
  for (int i = 0; i < count; ++i) {
    members.push_back({role, i, absl::StrCat(RoleName(role), " ", i)});
  }
  return members;
}

std::string RunPlan::PortFile(int server) const {
  return absl::StrCat(folder_, "/port-", server);
}

absl::StatusOr<int> RunPlan::ReadPort(int server) const {
  std::ifstream file(PortFile(server));
  if (!file) return absl::NotFoundError("no port yet");
  std::string text;
  std::getline(file, text);
  int port = 0;
  // With an address before it, a port is as good.
  if (!absl::SimpleAtoi(text.substr(text.rfind(':') + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::DataLossError(absl::StrCat(
        "server ", server, " wrote '", text.substr(0, 100), "' as its port"));
  }
  return port;
}

void RunPlan::SetPort(int server, int port) {
  ports_[static_cast<size_t>(server)] = port;
}

std::string RunPlan::Addresses() const {
  std::string list;
  for (size_t i = 0; i < ports_.size(); ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ",");
    if (tcp_) {
      absl::StrAppend(&list, kHost, ":", ports_[i]);
    } else {
      absl::StrAppend(&list, flags_.transport == "ipc" ? "ipc://" : "shm://",
                      folder_, "/server-", i);
    }
  }
  return list;
}

std::vector<std::string> RunPlan::Command(const RunMember& member) const {
  const bool server = member.role == RunRole::kServer;
  std::vector<std::string> argv = {
      bin_dir_ + (server ? "/parapet-server" : "/parapet-worker")};
  argv.insert(argv.end(), flags_.forward.begin(), flags_.forward.end());
  // Later flags win, so these hold whatever was forwarded.
  argv.push_back(absl::StrCat("--servers=", Addresses()));
  argv.push_back(absl::StrCat("--workers=", flags_.job.workers));
  argv.push_back(absl::StrCat("--evaluators=", flags_.job.evaluators));
  argv.push_back(absl::StrCat(server ? "--index=" : "--id=", member.number));
  const bool lead = server && member.number == 0;
  argv.push_back(absl::StrCat("--progress=", lead ? lead_progress_ : "none"));
  if (member.role == RunRole::kEvaluator) argv.push_back("--evaluator");
  if (server && tcp_) argv.push_back("--port_file=" + PortFile(member.number));
  if (lead) AddLeadFlags(&argv);
  if (!server) AddDevice(member.number, &argv);
  if (!flags_.trace.empty()) {
    argv.push_back("--trace=" + TraceFile(flags_.trace, member));
  }
  return argv;
}

void RunPlan::AddDevice(int number, std::vector<std::string>* argv) const {
  if (flags_.device != "auto" || gpus_.empty()) return;
  const int gpu = gpus_[static_cast<size_t>(number) % gpus_.size()];
  argv->push_back(absl::StrCat("--device=cuda:", gpu));
}

// Only the lead is told: a worker that knew the secret could choose its bucket.
void RunPlan::AddLeadFlags(std::vector<std::string>* argv) const {
  argv->push_back("--summary_file=" + summary_file());
  if (flags_.rule_secret) {
    argv->push_back(absl::StrCat("--rule_secret=", *flags_.rule_secret));
  }
  if (flags_.audit.empty()) return;
  argv->push_back("--audit=" + flags_.audit);
  argv->push_back(absl::StrCat("--audit_bytes=", flags_.audit_bytes));
}

std::string TraceFile(const std::string& path, const RunMember& member) {
  const size_t slash = path.rfind('/'), dot = path.rfind('.');
  const bool has_suffix =
      dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const size_t end = has_suffix ? dot : path.size();
  const std::string name = absl::StrReplaceAll(member.name, {{" ", "-"}});
  return absl::StrCat(path.substr(0, end), "-", name, path.substr(end));
}

}  // namespace parapet
