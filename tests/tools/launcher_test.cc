#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/run.h"

namespace parapet {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Whether a process runs: a zombie does not (nobody may be there to reap one
// that lost its parent).
bool Lives(pid_t pid) {
  const std::string stat = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat[name_end + 2] != 'Z';
}

// What every fake program begins with: its arguments as shell variables, and
// its pid and arguments in files named after it.
constexpr char kPrelude[] = R"(#!/bin/bash
for a in "$@"; do
  case "$a" in
    --index=*) me=server${a#*=} ;;
    --id=*) me=worker${a#*=} ;;
    --evaluator) me=evaluator0 ;;
    --summary_file=*) summary=${a#*=} ;;
    --port_file=*) port_file=${a#*=} ;;
  esac
done
echo "$@" > "$D/$me.args"
echo $$ > "$D/$me.new"; mv "$D/$me.new" "$D/$me.pid"
ready() { : > "$D/$me.ready"; }
until_stopped() { trap "echo $1 >> $D/$me.signals; exit 0" $1; ready; sleep 60 & wait $!; }
until_exists() { for f in "$@"; do while [ ! -e "$D/$f" ]; do sleep 0.02; done; done; }
deaf() { trap '' TERM; ready; while :; do sleep 0.05; done; }
)";

// Runs `parapet run` in a child process, with shell scripts as the programs
// that it starts.
class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    std::string path = ::testing::TempDir() + "/parapet-launcher-XXXXXX";
    dir_ = ::mkdtemp(path.data());
    ::setenv("D", dir_.c_str(), 1);
    ::mkdir((dir_ + "/tmp").c_str(), 0755);
  }
  ~LauncherTest() override {
    if (launcher_ > 0) {
      ::kill(launcher_, SIGKILL);
      ::waitpid(launcher_, nullptr, 0);
    }
    std::filesystem::remove_all(dir_);
  }

  void Program(const std::string& name, const std::string& script) const {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path) << kPrelude << script;
    ::chmod(path.c_str(), 0755);
  }
  void Programs(const std::string& server, const std::string& worker) const {
    Program("parapet-server", server);
    Program("parapet-worker", worker);
  }

  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"run", "--epochs=1", "--bin_dir=" + dir_});
    launcher_ = ::fork();
    if (launcher_ != 0) return;
    ::setenv("TMPDIR", (dir_ + "/tmp").c_str(), 1);
    for (const auto& [fd, name] :
         {std::pair{1, "/stdout"}, std::pair{2, "/stderr"}}) {
      ::dup2(::open((dir_ + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600),
             fd);
    }
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    ::_exit(RunJob(static_cast<int>(argv.size()), argv.data()));
  }

  // Its exit code, or 1000 + the signal that ended it.
  int Finish() {
    int status = 0;
    ::waitpid(launcher_, &status, 0);
    launcher_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  int Launch(const std::vector<std::string>& arguments) {
    Start(arguments);
    return Finish();
  }

  void Await(const std::function<bool()>& condition) const {
    for (int i = 0; i < 1000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(condition()) << "not within 10 s; standard error:\n"
                             << Errors();
  }
  bool Exists(const std::string& name) const {
    return ::access((dir_ + "/" + name).c_str(), F_OK) == 0;
  }
  void AwaitFile(const std::string& name) const {
    Await([&] { return Exists(name); });
  }
  pid_t Pid(const std::string& who) const {
    AwaitFile(who + ".pid");
    return std::atoi(ReadAll(dir_ + "/" + who + ".pid").c_str());
  }
  void Touch(const std::string& name) const {
    std::ofstream(dir_ + "/" + name) << "x";
  }

  std::string Text(const std::string& name) const {
    return ReadAll(dir_ + "/" + name);
  }
  std::string Output() const { return Text("stdout"); }
  std::string Errors() const { return Text("stderr"); }
  int FilesLeft() const {
    int count = -2;  // . and ..
    DIR* folder = ::opendir((dir_ + "/tmp").c_str());
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
    return count;
  }

  std::string dir_;
  pid_t launcher_ = 0;
};

TEST_F(LauncherTest, StartsEverybodyWithItsArguments) {
  Programs("exit 0", "exit 0");
  EXPECT_EQ(
      Launch({"--servers=2", "--workers=3", "--batch=8", "--trace=/x/t.json"}),
      0);
  const std::string lead = Text("server0.args"), second = Text("server1.args");
  EXPECT_THAT(lead, HasSubstr("--epochs=1 --batch=8 --servers=ipc://"));
  EXPECT_THAT(lead, HasSubstr("/server-0,ipc://"));
  EXPECT_THAT(
      lead, HasSubstr("--workers=3 --evaluators=1 --index=0 --progress=plain"));
  EXPECT_THAT(lead, HasSubstr("--trace=/x/t-server-0.json"));
  EXPECT_THAT(lead, HasSubstr("--summary_file="));
  EXPECT_THAT(lead, Not(HasSubstr("--bin_dir")));
  EXPECT_THAT(second, HasSubstr("--index=1 --progress=none"));
  EXPECT_THAT(second, Not(HasSubstr("--summary_file")));
  EXPECT_THAT(Text("worker2.args"), HasSubstr("--id=2"));
  EXPECT_THAT(Text("evaluator0.args"),
              HasSubstr("--id=0 --progress=none --evaluator"));
  EXPECT_EQ(FilesLeft(), 0);
}

TEST_F(LauncherTest, ItsFolderIsPrivate) {
  Programs("stat -c %a $(dirname $summary) > $D/mode", "exit 0");
  EXPECT_EQ(Launch({}), 0);
  EXPECT_EQ(Text("mode"), "700\n");
}

TEST_F(LauncherTest, LinesSayWhoWroteThem) {
  Programs(
      "echo from server $me >&2; echo on stdout; printf 'no end'",
      "printf 'a\\nb\\n' >&2; printf 'half ' >&2; sleep 0.05; echo line >&2");
  EXPECT_EQ(Launch({"--evaluators=0", "--workers=1"}), 0);
  const std::string errors = Errors();
  for (const char* line :
       {"server 0 | from server server0\n", "server 0 | on stdout\n",
        "server 0 | no end\n", "worker 0 | a\n", "worker 0 | b\n",
        "worker 0 | half line\n"}) {
    EXPECT_THAT(errors, HasSubstr(line));
  }
  EXPECT_EQ(Output(), "");
}

TEST_F(LauncherTest, NothingIsLostOfWhatTheyWrite) {
  Programs("for i in $(seq 20000); do echo line $i; done", "exit 0");
  EXPECT_EQ(Launch({"--workers=1", "--evaluators=0"}), 0);
  std::string expected;
  for (int i = 1; i <= 20000; ++i)
    absl::StrAppend(&expected, "server 0 | line ", i, "\n");
  std::string got;
  for (absl::string_view line : absl::StrSplit(Errors(), '\n')) {
    if (absl::StartsWith(line, "server 0 | line"))
      absl::StrAppend(&got, line, "\n");
  }
  EXPECT_TRUE(got == expected);
}

TEST_F(LauncherTest, TheSummaryIsTheLastLineOfStandardOutput) {
  Programs(
      R"(echo chatter; echo '{"test_accuracy": 0.8912, "rounds": 12}' > "$summary")",
      "echo more");
  EXPECT_EQ(Launch({"--summary=json"}), 0);
  const auto summary = nlohmann::json::parse(Output());
  EXPECT_EQ(summary["test_accuracy"], 0.8912);
  EXPECT_EQ(summary["rounds"], 12);
}

TEST_F(LauncherTest, TheSummaryIsATableForPeople) {
  Programs(
      R"(cat > "$summary" <<< '{"test_accuracy": 0.8912, "final_loss": null, "bytes_pushed": 3221225472,
           "weights_hash": "abc", "phases": {"forward": 1.5, "odd": "x"}}')",
      "exit 0");
  EXPECT_EQ(Launch({}), 0);
  EXPECT_EQ(Output(),
            "summary\n  test accuracy    89.12 %\n  pushed           3.0 GiB\n"
            "  weights hash     abc\n  time             forward 1.50 s\n");
}

TEST_F(LauncherTest, AMissingOrBrokenSummaryIsSaid) {
  Programs("exit 0", "exit 0");
  EXPECT_EQ(Launch({"--summary=json"}), 0);
  EXPECT_EQ(Output(), "");
  EXPECT_THAT(Errors(), HasSubstr("no summary: the lead wrote no summary"));
  Programs("echo '[1]' > $summary", "exit 0");
  EXPECT_EQ(Launch({"--summary=json"}), 0);
  EXPECT_EQ(Output(), "");
  EXPECT_THAT(Errors(), HasSubstr("not a JSON object"));
}

TEST_F(LauncherTest, JsonProgressOfTheLeadIsPassedOnAsItIs) {
  Programs(
      "echo '{\"me\":\"'$me'\"}'; [ $me != server0 ] || echo '{}' > $summary",
      "echo other");
  EXPECT_EQ(Launch({"--servers=2", "--progress=json", "--summary=json"}), 0);
  EXPECT_EQ(Output(), "{\"me\":\"server0\"}\n{}\n");
}

TEST_F(LauncherTest, AFailingWorkerEndsTheJobAfterTheGrace) {
  Programs("until_stopped TERM",
           "[ $me != worker1 ] || { until_exists "
           "{server,worker,evaluator}0.ready; exit 7; }; until_stopped TERM");
  EXPECT_EQ(Launch({"--workers=2", "--grace=300ms"}), 7);
  for (const char* who : {"server0", "worker0", "evaluator0"}) {
    EXPECT_EQ(Text(absl::StrCat(who, ".signals")), "TERM\n") << who;
  }
  EXPECT_THAT(
      Errors(),
      HasSubstr(
          "worker 1 ended with exit code 7; the others have 300ms to leave"));
}

TEST_F(LauncherTest, WrongFlagsOfOneStopTheOthersAtOnce) {
  Programs("until_stopped TERM", "until_exists server0.pid; exit 2");
  EXPECT_EQ(Launch({"--grace=30s"}), 2);
}

TEST_F(LauncherTest, AKilledWorkerLeavesTheJobGoing) {
  Programs("until_exists go; exit 0",
           "[ $me != worker1 ] || kill -9 $$; until_exists go; exit 0");
  Start({"--workers=2", "--grace=100ms"});
  Await([this] {
    return absl::StrContains(Errors(),
                             "was ended by SIGKILL; the others go on");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(Lives(Pid("worker0")));
  Touch("go");
  EXPECT_EQ(Finish(), 128 + SIGKILL);
  EXPECT_THAT(Errors(), Not(HasSubstr("asked to stop")));
}

TEST_F(LauncherTest, AWorkerThatWasLeftOutLeavesTheJobGoing) {
  Programs("until_exists go; exit 0",
           "[ $me != worker1 ] || exit 5; until_exists go; exit 0");
  Start({"--workers=2", "--grace=100ms"});
  Await([this] {
    return absl::StrContains(Errors(), "exit code 5; the others go on");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(Lives(Pid("worker0")));
  Touch("go");
  EXPECT_EQ(Finish(), 5);
}

TEST_F(LauncherTest, TheFirstFailureIsReturned) {
  Programs(
      "[ $me = server0 ] || { sleep 0.1; exit 3; }; until_exists worker0.died; "
      "exit 4",
      "trap 'touch $D/worker0.died; exit 6' TERM; sleep 60 & wait $!");
  EXPECT_EQ(Launch({"--servers=2", "--evaluators=0", "--grace=200ms"}), 3);
}

TEST_F(LauncherTest, WhoDoesNotStopIsKilled) {
  Programs("until_exists {worker0,worker1,evaluator0}.ready; exit 3", "deaf");
  EXPECT_EQ(Launch({"--grace=200ms", "--workers=2"}), 3);
  EXPECT_FALSE(Lives(Pid("worker0")));
  EXPECT_FALSE(Lives(Pid("worker1")));
  EXPECT_THAT(
      Errors(),
      HasSubstr(
          "did not stop in time, so killed: worker 0, worker 1, evaluator 0"));
}

TEST_F(LauncherTest, AStoppedProcessIsWokenToEnd) {
  Programs("until_exists worker0.ready; sleep 0.1; exit 0",
           "trap 'echo TERM > $D/$me.signals; exit 0' TERM; ready; kill -STOP "
           "$$; sleep 60 & wait $!");
  EXPECT_EQ(Launch({"--grace=300ms", "--evaluators=0"}), 0);
  EXPECT_EQ(Text("worker0.signals"), "TERM\n");
}

TEST_F(LauncherTest, WhenTheLeadIsDoneNobodyMayStay) {
  Programs("[ $me != server0 ] || exit 0; sleep 60", "sleep 60");
  EXPECT_EQ(Launch({"--servers=2", "--grace=200ms"}), 128 + SIGTERM);
}

TEST_F(LauncherTest, TheLeadMayNotStayForEverEither) {
  Programs("sleep 60", "exit 0");
  EXPECT_EQ(Launch({"--grace=100ms", "--insufficient_for=100ms"}),
            128 + SIGTERM);
}

class LauncherSignalTest : public LauncherTest,
                           public ::testing::WithParamInterface<int> {};

TEST_P(LauncherSignalTest, IsPassedOnToAllOnce) {
  const std::string name = GetParam() == SIGINT ? "INT" : "TERM";
  const std::string script =
      "n=0; trap 'n=$((n+1)); echo " + name + " >> $D/$me.signals' " + name +
      "; ready; while [ ! -e $D/go ]; do sleep 0.02; done; exit 0";
  Programs(script, script);
  Start({"--servers=2", "--workers=2"});
  const std::vector<std::string> all = {"server0", "server1", "worker0",
                                        "worker1", "evaluator0"};
  for (const std::string& who : all) AwaitFile(who + ".ready");
  ::kill(launcher_, GetParam());
  for (const std::string& who : all) AwaitFile(who + ".signals");
  Touch("go");
  EXPECT_EQ(Finish(), 0);
  for (const std::string& who : all)
    EXPECT_EQ(Text(who + ".signals"), name + "\n") << who;
}

INSTANTIATE_TEST_SUITE_P(Signals, LauncherSignalTest,
                         ::testing::Values(SIGINT, SIGTERM));

TEST_F(LauncherTest, ASecondSignalKills) {
  Programs("deaf", "deaf");
  Start({"--grace=60s"});
  for (const char* who : {"server0", "worker0", "evaluator0"})
    AwaitFile(absl::StrCat(who, ".ready"));
  ::kill(launcher_, SIGTERM);
  Await([this] {
    return absl::StrContains(Errors(), "SIGTERM is passed on; the job has 1m");
  });
  ::kill(launcher_, SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGKILL);
  EXPECT_THAT(Errors(), HasSubstr("a second signal: the processes are killed"));
  for (const char* who : {"server0", "worker0", "evaluator0"})
    EXPECT_FALSE(Lives(Pid(who)));
  EXPECT_EQ(FilesLeft(), 0);
}

TEST_F(LauncherTest, ThoseThatIgnoreASignalAreKilledAfterTheGrace) {
  Programs("deaf", "deaf");
  Start({"--grace=200ms"});
  for (const char* who : {"server0", "worker0", "evaluator0"})
    AwaitFile(absl::StrCat(who, ".ready"));
  ::kill(launcher_, SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGKILL);
}

TEST_F(LauncherTest, SigkillOfTheLauncherLeavesNobody) {
  // Deaf to everything else; exec, so that the process is the one that the
  // launcher started.
  Programs("trap '' TERM INT HUP; exec sleep 60",
           "trap '' TERM INT HUP; exec sleep 60");
  Start({"--servers=2", "--workers=4"});
  std::vector<pid_t> pids;
  for (const char* who : {"server0", "server1", "worker0", "worker1", "worker2",
                          "worker3", "evaluator0"}) {
    pids.push_back(Pid(who));
    EXPECT_TRUE(Lives(pids.back()));
  }
  ::kill(launcher_, SIGKILL);
  EXPECT_EQ(Finish(), 1000 + SIGKILL);
  for (const pid_t pid : pids) Await([pid] { return !Lives(pid); });
}

TEST_F(LauncherTest, WhatAProcessLeavesBehindIsKilled) {
  Programs("exit 0", "sleep 60 & echo $! > $D/left; exit 0");
  EXPECT_EQ(Launch({"--evaluators=0"}), 0);
  Await([this] { return !Lives(std::atoi(Text("left").c_str())); });
}

TEST_F(LauncherTest, StrangersAreLeftAlone) {
  // A process of ours, in our group, that the launcher did not start.
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  Programs("sleep 0.1; exit 3", "trap '' TERM; while :; do sleep 0.05; done");
  EXPECT_EQ(Launch({"--grace=100ms"}), 3);
  EXPECT_TRUE(Lives(stranger));
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
}

TEST_F(LauncherTest, OverTcpPortsAreLearntInTurn) {
  Programs(
      R"(sleep 0.05; echo $((7001 + ${me#server})) > "$port_file.new"; mv "$port_file.new" "$port_file"
           until_exists worker0.args; exit 0)",
      "exit 0");
  EXPECT_EQ(Launch({"--servers=3", "--transport=tcp", "--evaluators=0"}), 0);
  EXPECT_THAT(Text("server0.args"),
              HasSubstr("--servers=127.0.0.1:0,127.0.0.1:0,127.0.0.1:0 "));
  EXPECT_THAT(Text("server1.args"),
              HasSubstr("--servers=127.0.0.1:7001,127.0.0.1:0,127.0.0.1:0 "));
  EXPECT_THAT(Text("server2.args"),
              HasSubstr("--servers=127.0.0.1:7001,127.0.0.1:0,127.0.0.1:0 "));
  EXPECT_THAT(
      Text("worker0.args"),
      HasSubstr("--servers=127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 "));
}

TEST_F(LauncherTest, AServerThatDoesNotSayItsPortIsNamed) {
  Programs("sleep 60", "exit 0");
  EXPECT_EQ(Launch({"--transport=tcp", "--patience=50ms",
                    "--start_timeout=300ms", "--grace=200ms"}),
            1);
  EXPECT_THAT(Errors(),
              HasSubstr("still waiting for server 0 to say its port"));
  EXPECT_THAT(Errors(), HasSubstr("server 0 did not say its port in time"));
  EXPECT_FALSE(Exists("worker0.args"));
}

TEST_F(LauncherTest, AServerThatWritesNonsenseAsPortIsNamed) {
  Programs("echo soon > $port_file.new; mv $port_file.new $port_file; sleep 60",
           "exit 0");
  EXPECT_EQ(Launch({"--transport=tcp", "--grace=200ms"}), 1);
  EXPECT_THAT(Errors(), HasSubstr("server 0 wrote 'soon' as its port"));
}

TEST_F(LauncherTest, ALeadThatFailsBeforeItsPortEndsTheStart) {
  Programs("exit 3", "exit 0");
  EXPECT_EQ(Launch({"--transport=tcp", "--servers=2"}), 3);
  EXPECT_FALSE(Exists("worker0.args"));
  EXPECT_FALSE(Exists("server1.args"));
}

TEST_F(LauncherTest, AProgramThatIsNotThereIsNamed) {
  Program("parapet-server", "sleep 60");
  EXPECT_EQ(Launch({"--grace=200ms"}), 1);
  EXPECT_THAT(Errors(), HasSubstr("parapet-worker: No such file or directory"));
  EXPECT_THAT(Errors(), HasSubstr("server 0 "));  // it was waited for
}

TEST_F(LauncherTest, WrongFlagsAreRefusedBeforeAnythingStarts) {
  Programs("exit 0", "exit 0");
  EXPECT_EQ(Launch({"--wrokers=2"}), 2);
  EXPECT_THAT(Errors(), HasSubstr("did you mean --workers?"));
  EXPECT_FALSE(Exists("server0.args"));
  EXPECT_EQ(Launch({"--help"}), 0);
  EXPECT_THAT(Output(), HasSubstr("--summary=text|json|none"));
}

TEST_F(LauncherTest, AReaderThatGoesAwayEndsNothing) {
  Programs("for i in $(seq 5000); do echo line $i; done; exit 0", "exit 0");
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ::close(pipe[0]);
  const int before = ::dup(2);
  std::vector<std::string> arguments = {"run", "--epochs=1",
                                        "--bin_dir=" + dir_};
  launcher_ = ::fork();
  if (launcher_ == 0) {
    ::dup2(pipe[1], 2);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    ::_exit(RunJob(static_cast<int>(argv.size()), argv.data()));
  }
  ::close(pipe[1]);
  ::close(before);
  EXPECT_EQ(Finish(), 0);
}

}  // namespace
}  // namespace parapet
