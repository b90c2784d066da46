#include "tools/load.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "tools/load_crew.h"
#include "tools/load_files.h"
#include "tools/load_flags.h"
#include "tools/load_malformed.h"
#include "tools/load_plot.h"
#include "tools/load_report.h"
#include "tools/load_servers.h"

namespace parapet {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);
constexpr absl::Duration kSecond = absl::Seconds(1);
// Of what the players found out: that copies histograms.
constexpr absl::Duration kStatsEvery = absl::Milliseconds(100);
// For players that were told to stop, and then for servers.
constexpr absl::Duration kEndPatience = absl::Seconds(30);
constexpr uint64_t kSlow = 0x736c6f77;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) +
           1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One load test, from its start to its report. The thread that makes it owns
// the servers; players have threads of their own.
class LoadTest {
 public:
  LoadTest(LoadFlags flags, SignalSource* signals)
      : flags_(std::move(flags)),
        signals_(signals),
        logger_(MakeLogger("load", flags_.common.log_level)),
        terminal_(isatty(STDERR_FILENO) != 0) {}

  absl::StatusOr<LoadReport> Run();

 private:
  absl::Status Begin();
  void StartCrews();
  void Play();
  void Look();
  void LookAtTime(const LoadStats& stats);
  void AskToStop(const std::string& why);
  void ShowLine(const LoadStats& stats);
  LoadStats Stats() const;
  bool Done() const;
  LoadReport End();

  const LoadFlags flags_;
  SignalSource* const signals_;
  const std::shared_ptr<Logger> logger_;
  const bool terminal_;
  SteadyClock clock_;
  std::unique_ptr<LoadServers> servers_;
  std::unique_ptr<LoadPlan> plan_;
  std::vector<std::unique_ptr<LoadCrew>> crews_;
  std::unique_ptr<LoadMalformed> malformed_;
  double cpu_before_ = 0;
  bool stopping_ = false;
  absl::Time give_up_ = absl::InfiniteFuture();
  std::string trouble_;
  LoadStats shown_;
  absl::Time shown_at_, looked_at_;
};

absl::Status LoadTest::Begin() {
  const JobConfig& job = flags_.common.job;
  PARAPET_RETURN_IF_ERROR(RaiseOpenFiles(
      LoadOpenFiles(flags_.players, job.servers, job.connections)));
  PARAPET_ASSIGN_OR_RETURN(plan_, MakeLoadPlan(flags_));
  if (flags_.own_servers > 0) {
    PARAPET_ASSIGN_OR_RETURN(servers_, LoadServers::Start(flags_));
    plan_->servers = servers_->addresses();
  }
  cpu_before_ = CpuSeconds();
  plan_->began = shown_at_ = clock_.Now();
  StartCrews();
  if (flags_.malformed > 0)
    malformed_ = std::make_unique<LoadMalformed>(*plan_, flags_.malformed);
  return absl::OkStatus();
}

// Slow readers have a thread for themselves: others must not wait for them.
void LoadTest::StartCrews() {
  const JobConfig& job = flags_.common.job;
  std::vector<std::vector<int>> quick(static_cast<size_t>(flags_.threads));
  std::vector<int> slow;
  for (int i = 0; i < flags_.players; ++i) {
    const int id = flags_.first_worker + i;
    if (IsHeldUp(flags_.slow_readers, MixKey(job.seed, kSlow), id,
                 job.workers)) {
      slow.push_back(id);
    } else {
      quick[static_cast<size_t>(i % flags_.threads)].push_back(id);
    }
  }
  for (std::vector<int>& ids : quick) {
    if (!ids.empty())
      crews_.push_back(std::make_unique<LoadCrew>(
          plan_.get(), std::move(ids), absl::ZeroDuration(), logger_.get()));
  }
  if (!slow.empty())
    crews_.push_back(std::make_unique<LoadCrew>(
        plan_.get(), std::move(slow), flags_.slow_readers.mean, logger_.get()));
}

LoadStats LoadTest::Stats() const {
  LoadStats all;
  for (const auto& crew : crews_) all.Merge(crew->Stats());
  return all;
}

bool LoadTest::Done() const {
  return std::all_of(crews_.begin(), crews_.end(),
                     [](const auto& crew) { return crew->done(); });
}

void LoadTest::AskToStop(const std::string& why) {
  if (stopping_) return;
  stopping_ = true;
  if (!why.empty()) trouble_ = why;
  give_up_ = clock_.Now() + kEndPatience;
  crews_.front()->AskToStop();
}

void LoadTest::LookAtTime(const LoadStats& stats) {
  const bool over = flags_.duration > absl::ZeroDuration() &&
                    stats.warm == flags_.Honest() &&
                    clock_.Now() >= stats.began + flags_.duration;
  if (over) AskToStop("");
}

void LoadTest::ShowLine(const LoadStats& stats) {
  const absl::Time now = clock_.Now();
  const std::string line =
      LoadLiveLine(stats, shown_, flags_, now - plan_->began, now - shown_at_);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
}

// Some times a second.
void LoadTest::Look() {
  if (servers_ != nullptr) {
    servers_->Turn();
    // One that has gone ends the test for those who wait for it.
    if (const std::string words = servers_->failure(); !words.empty()) {
      AskToStop(words);
      give_up_ = std::min(give_up_, clock_.Now() + kSecond);
    }
  }
  while (const std::optional<int> signal = signals_->Next()) {
    if (*signal == SIGCHLD) continue;
    if (stopping_) give_up_ = clock_.Now();
    std::fprintf(stderr, "parapet load: stops (signal %d)\n", *signal);
    AskToStop("");
  }
  const bool timed = flags_.duration > absl::ZeroDuration() && !stopping_;
  const bool shows = terminal_ && clock_.Now() >= shown_at_ + kSecond;
  if (!timed && !shows) return;
  if (clock_.Now() < looked_at_ + kStatsEvery) return;
  looked_at_ = clock_.Now();
  const LoadStats stats = Stats();
  if (timed) LookAtTime(stats);
  if (!shows) return;
  ShowLine(stats);
  shown_ = stats;
  shown_at_ = clock_.Now();
}

void LoadTest::Play() {
  while (!Done() && clock_.Now() < give_up_) {
    Look();
    absl::SleepFor(kLook);
  }
  if (!Done() && trouble_.empty()) trouble_ = "the job did not end in time";
  if (terminal_) std::fputs("\r\033[K", stderr);
}

LoadReport LoadTest::End() {
  LoadReport report;
  report.flags = flags_;
  report.stats = Stats();
  report.trouble = trouble_;
  if (malformed_ != nullptr) report.malformed = malformed_->Stats();
  malformed_.reset();
  crews_.clear();
  report.player_cpu_seconds = CpuSeconds() - cpu_before_;
  if (servers_ != nullptr) {
    servers_->Finish(trouble_.empty() ? kEndPatience : kSecond);
    report.servers = servers_->facts();
    if (report.trouble.empty()) report.trouble = servers_->failure();
  }
  return report;
}

absl::StatusOr<LoadReport> LoadTest::Run() {
  PARAPET_RETURN_IF_ERROR(Begin());
  Play();
  return End();
}

absl::Status WritePlot(const LoadReport& report) {
  const LoadFlags& flags = report.flags;
  if (flags.plot.empty()) return absl::OkStatus();
  const JobConfig& job = flags.common.job;
  std::ofstream file(flags.plot, std::ios::trunc);
  file << LoadPlot(
      report.stats.timeline,
      absl::StrCat(flags.players, " players, ", job.servers, " servers, ",
                   flags.parameters, " parameters, rule ", job.rule));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write --plot=", flags.plot));
}

int Complain(absl::string_view words, int code) {
  std::fprintf(stderr, "parapet load: %s\n", std::string(words).c_str());
  return code;
}

// What would help somebody whose running servers have another job.
std::string HintOf(const LoadReport& report) {
  if (report.flags.own_servers > 0 || report.stats.failures.empty()) return "";
  return absl::StrCat("these players fit servers that were started with\n  ",
                      absl::StrJoin(LoadServerFlags(report.flags), " "));
}

int Tell(const LoadReport& report) {
  if (report.flags.json) {
    std::printf("%s\n", LoadJson(report).dump(2).c_str());
  } else {
    std::fputs(LoadTable(report).c_str(), stdout);
  }
  std::fflush(stdout);
  int code = kExitDone;
  if (const absl::Status plotted = WritePlot(report); !plotted.ok())
    code = Complain(plotted.message(), kExitFailed);
  for (const std::string& words : LoadComplaints(report))
    code = Complain(words, kExitFailed);
  if (const std::string hint = HintOf(report); !hint.empty())
    Complain(hint, kExitFailed);
  return code;
}

}  // namespace

int RunLoad(int argc, char** argv) {
  EnsureStandardStreams();
  absl::StatusOr<LoadFlags> flags = ParseLoadFlags(argc, argv);
  if (!flags.ok()) return Complain(flags.status().message(), kExitUsage);
  if (!flags->common.print.empty()) {
    std::fputs(flags->common.print.c_str(), stdout);
    return kExitDone;
  }
  if (flags->attack.attackers > 0)
    std::fprintf(stderr, "parapet load: %s\n", flags->attack.Warning().c_str());
  // Before any thread, so that all leave these signals to it.
  SignalSource signals;
  const absl::StatusOr<LoadReport> report =
      LoadTest(*std::move(flags), &signals).Run();
  if (!report.ok()) return Complain(report.status().message(), kExitFailed);
  return Tell(*report);
}

}  // namespace parapet
