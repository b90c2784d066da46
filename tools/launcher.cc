#include "tools/launcher.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/flags.h"

namespace parapet {
namespace {

constexpr absl::Duration kPortPoll = absl::Milliseconds(10);
constexpr absl::Duration kLastFlush = absl::Seconds(2);
constexpr int kMaxPieces = 64;  // of an ended process: more than a pipe holds
constexpr size_t kReadBytes = 16 * 1024;

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal)
                         : absl::StrCat("SIG", name);
}

std::string HowItEnded(int code) {
  if (code > 128) return absl::StrCat("was ended by ", SignalName(code - 128));
  return absl::StrCat("ended with exit code ", code);
}

// Processes count the grace from when the signal reaches them, and must not be
// killed for being exact.
absl::Duration WithMargin(absl::Duration grace) { return grace * 1.25; }

}  // namespace

Launcher::Launcher(RunPlan* plan, const Options& options, Clock* clock,
                   SignalSource* signals, Screen* screen, Sink* out, Sink* err)
    : plan_(plan),
      options_(options),
      clock_(clock),
      signals_(signals),
      screen_(screen),
      out_(out),
      err_(err),
      port_known_(plan->Members(RunRole::kServer).size()) {}

int Launcher::Run() {
  StartMore();
  while (Running()) {
    Wait();
    TakeSignals();
    ReadAll();
    Reap();
    CheckDeadline();
    StartMore();
  }
  screen_->Settle();
  FlushOutput();
  return first_failure_.value_or(kExitDone);
}

bool Launcher::IsLead(const Child& child) const {
  return child.member.role == RunRole::kServer && child.member.number == 0;
}

bool Launcher::Running() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const auto& c) { return !c->reaped; });
}

bool Launcher::Running(RunRole role) const {
  return std::any_of(children_.begin(), children_.end(), [role](const auto& c) {
    return !c->reaped && c->member.role == role;
  });
}

void Launcher::StartMore() {
  while (ending_ == Ending::kNo && phase_ != Phase::kAllStarted &&
         StartStep()) {
    phase_ = static_cast<Phase>(static_cast<int>(phase_) + 1);
    port_deadline_ = clock_->Now() + options_.patience.start_timeout;
    port_report_ = clock_->Now() + options_.patience.patience;
  }
}

// One phase; false if it is not done. The other servers are told the lead's
// address, workers that of every server, so with tcp each waits for the ports.
bool Launcher::StartStep() {
  const int servers = static_cast<int>(port_known_.size());
  switch (phase_) {
    case Phase::kLead:
      return Start(plan_->Members(RunRole::kServer).front());
    case Phase::kLeadPort:
      return HavePorts(0, 1);
    case Phase::kServers:
      return StartAll(RunRole::kServer, 1);
    case Phase::kServerPorts:
      return HavePorts(1, servers);
    case Phase::kWorkers:
      return StartAll(RunRole::kWorker, 0) && StartAll(RunRole::kEvaluator, 0);
    case Phase::kAllStarted:
      break;
  }
  return false;
}

bool Launcher::StartAll(RunRole role, int from) {
  const std::vector<RunMember> members = plan_->Members(role);
  return std::all_of(members.begin() + from, members.end(),
                     [this](const RunMember& member) { return Start(member); });
}

bool Launcher::Start(const RunMember& member) {
  absl::StatusOr<Process> process = Process::Start(plan_->Command(member));
  if (!process.ok()) {
    screen_->Say(process.status().message());
    Failed(kExitFailed);
    Terminate(SIGTERM);
    return false;
  }
  children_.push_back(
      std::make_unique<Child>(Child{member, *std::move(process), {}, {}}));
  return true;
}

bool Launcher::HavePorts(int from, int to) {
  if (!plan_->has_ports()) return true;
  for (int i = from; i < to; ++i) {
    if (port_known_[static_cast<size_t>(i)]) continue;
    const absl::StatusOr<int> port = plan_->ReadPort(i);
    if (port.ok()) {
      plan_->SetPort(i, *port);
      port_known_[static_cast<size_t>(i)] = true;
      continue;
    }
    const absl::Time now = clock_->Now();
    if (absl::IsDataLoss(port.status()) || now >= port_deadline_) {
      screen_->Say(
          absl::IsDataLoss(port.status())
              ? std::string(port.status().message())
              : absl::StrCat("server ", i, " did not say its port in time"));
      Failed(kExitFailed);
      Terminate(SIGTERM);
    } else if (now >= port_report_) {
      screen_->Say(
          absl::StrCat("still waiting for server ", i, " to say its port"));
      port_report_ = now + options_.patience.patience;
    }
    return false;
  }
  return true;
}

int Launcher::PollTimeout() const {
  const bool for_port =
      ending_ == Ending::kNo &&
      (phase_ == Phase::kLeadPort || phase_ == Phase::kServerPorts);
  const absl::Duration left = deadline_ - clock_->Now();
  const absl::Duration wait = for_port ? std::min(left, kPortPoll) : left;
  if (wait == absl::InfiniteDuration()) return -1;
  // Rounded up: waking a little early would mean to poll in a circle.
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(wait) + 1, 0, 60'000));
}

void Launcher::AddReader(Descriptor* fd, std::vector<pollfd>* fds) const {
  if (fd->open()) fds->push_back({fd->get(), POLLIN, 0});
}

void Launcher::Wait() {
  std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}};
  for (Sink* sink : {out_, err_}) {
    if (!sink->empty()) fds.push_back({sink->fd(), POLLOUT, 0});
  }
  // A slow reader of ours slows the processes down, as if they wrote to it
  // themselves.
  const bool full = out_->full() || err_->full();
  for (const auto& child : children_) {
    if (full || child->reaped) continue;
    AddReader(&child->process.out(), &fds);
    AddReader(&child->process.err(), &fds);
  }
  ::poll(fds.data(), fds.size(), PollTimeout());
  out_->Flush();
  err_->Flush();
}

void Launcher::ReadAll() {
  if (out_->full() || err_->full()) return;
  for (const auto& child : children_) {
    Read(child.get(), &child->process.out(), &child->out, false);
    Read(child.get(), &child->process.err(), &child->err, false);
  }
}

// Reads what is there: one piece, so that nobody's flood keeps the others
// waiting, or (`last`) all.
void Launcher::Read(Child* child, Descriptor* fd, LineSplitter* splitter,
                    bool last) {
  const bool raw =
      fd == &child->process.out() && IsLead(*child) && options_.raw_lead_output;
  char buffer[kReadBytes];
  for (int pieces = 0; fd->open(); ++pieces) {
    const ssize_t got = ::read(fd->get(), buffer, sizeof(buffer));
    std::vector<LineSplitter::Line> lines;
    if (got > 0) {
      splitter->Add(absl::string_view(buffer, static_cast<size_t>(got)),
                    &lines);
    }
    const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
    if ((got <= 0 && (last || !later)) || pieces == kMaxPieces) {
      splitter->Finish(&lines);
      fd->Close();
    }
    Print(*child, raw, lines);
    if (!last) return;
  }
}

void Launcher::Print(const Child& child, bool raw,
                     const std::vector<LineSplitter::Line>& lines) {
  for (const LineSplitter::Line& line : lines) {
    if (raw) {
      out_->Write(line.text + "\n");
    } else {
      // Roles begin at different colours: the servers' are next to each other,
      // then the workers'.
      screen_->Print(
          child.member.name,
          child.member.number + 3 * static_cast<int>(child.member.role), line);
    }
  }
}

void Launcher::TakeSignals() {
  while (const std::optional<int> signal = signals_->Next()) {
    if (*signal != SIGCHLD) PassOn(*signal == SIGHUP ? SIGTERM : *signal);
  }
}

void Launcher::PassOn(int signal) {
  if (++signals_taken_ > 1) {
    screen_->Say("a second signal: the processes are killed");
    return Kill();
  }
  screen_->Say(absl::StrCat(SignalName(signal), " is passed on; the job has ",
                            absl::FormatDuration(options_.patience.grace),
                            " to stop"));
  passed_on_ = signal;
  Terminate(signal);
}

void Launcher::Terminate(int signal) {
  if (ending_ == Ending::kKilled) return;
  ending_ = Ending::kTerminating;
  deadline_ = clock_->Now() + WithMargin(options_.patience.grace);
  for (const auto& child : children_) {
    child->process.Signal(signal);
    child->process.Signal(SIGCONT);  // one that is stopped could not act on it
  }
}

void Launcher::Kill() {
  ending_ = Ending::kKilled;
  deadline_ = absl::InfiniteFuture();
  for (const auto& child : children_) child->process.Signal(SIGKILL);
}

void Launcher::Reap() {
  for (const auto& child : children_) {
    if (child->reaped) continue;
    const std::optional<int> code = child->process.Poll();
    if (!code) continue;
    child->reaped = true;
    Read(child.get(), &child->process.out(), &child->out, true);
    Read(child.get(), &child->process.err(), &child->err, true);
    Ended(child.get(), *code);
  }
}

void Launcher::Failed(int code) {
  if (!first_failure_) first_failure_ = code;
}

void Launcher::Leave(absl::Duration time, absl::string_view why) {
  if (ending_ != Ending::kNo) return;
  ending_ = Ending::kLeaving;
  deadline_ = clock_->Now() + time;
  if (!why.empty() && Running()) {
    screen_->Say(absl::StrCat(why, "; the others have ",
                              absl::FormatDuration(time), " to leave"));
  }
}

void Launcher::Ended(Child* child, int code) {
  const bool server = child->member.role == RunRole::kServer;
  const std::string how =
      absl::StrCat(child->member.name, " ", HowItEnded(code));
  const PatienceConfig& patience = options_.patience;
  // One that had only just begun, and did not take signals yet: it has stopped
  // as it was asked to.
  const bool stopped = ending_ == Ending::kTerminating && passed_on_ != 0 &&
                       code == 128 + passed_on_;
  if (code != kExitDone && !stopped) Failed(code);
  if (code == kExitUsage && ending_ == Ending::kNo) {
    screen_->Say(absl::StrCat(how, " (its flags); the others are stopped"));
    Terminate(SIGTERM);
  } else if (code == kExitDone) {
    if (IsLead(*child)) Leave(patience.grace, "");
  } else if (server || (code < 128 && code != kExitLeftOut)) {
    if (ending_ != Ending::kNo) screen_->Say(how);
    Leave(patience.grace, how);
  } else {
    screen_->Say(
        absl::StrCat(how, ending_ == Ending::kNo ? "; the others go on" : ""));
  }
  // The lead may still wait for workers, and save; but not for ever.
  if (phase_ == Phase::kAllStarted && !Running(RunRole::kWorker) &&
      !Running(RunRole::kEvaluator)) {
    Leave(patience.insufficient_for + patience.grace, "");
  }
}

void Launcher::CheckDeadline() {
  if (clock_->Now() < deadline_) return;
  std::string who;
  for (const auto& child : children_) {
    if (!child->reaped) {
      absl::StrAppend(&who, who.empty() ? "" : ", ", child->member.name);
    }
  }
  if (ending_ == Ending::kLeaving) {
    screen_->Say(absl::StrCat("still there, so asked to stop: ", who));
    Terminate(SIGTERM);
  } else {
    screen_->Say(absl::StrCat("did not stop in time, so killed: ", who));
    Kill();
  }
}

void Launcher::FlushOutput() {
  const absl::Time until = clock_->Now() + kLastFlush;
  for (Sink* sink : {err_, out_}) {
    while (!sink->empty() && clock_->Now() < until) {
      pollfd ready = {sink->fd(), POLLOUT, 0};
      ::poll(&ready, 1, 50);
      sink->Flush();
    }
  }
}

}  // namespace parapet
