#include <signal.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/launcher_testing.h"

namespace parapet {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LauncherTest, StartsEverybodyWithItsArguments) {
  Programs("exit 0", "exit 0");
  EXPECT_EQ(
      Launch({"--servers=2", "--workers=3", "--batch=8", "--trace=/x/t.json"}),
      0);
  const std::string lead = Text("server0.args"), second = Text("server1.args");
  EXPECT_THAT(lead, HasSubstr("--epochs=1 --batch=8 --servers=shm://"));
  EXPECT_THAT(lead, HasSubstr("/server-0,shm://"));
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

// A worker that knew the secret could choose its bucket.
TEST_F(LauncherTest, OnlyTheLeadIsToldTheSecretAndTheAccount) {
  Programs("exit 0", "exit 0");
  EXPECT_EQ(Launch({"--servers=2", "--workers=1", "--evaluators=1",
                    "--rule_secret=77", "--audit=/x/a", "--audit_bytes=2Ki"}),
            0);
  EXPECT_THAT(Text("server0.args"),
              HasSubstr("--rule_secret=77 --audit=/x/a --audit_bytes=2048"));
  for (const char* other :
       {"server1.args", "worker0.args", "evaluator0.args"}) {
    EXPECT_THAT(Text(other), Not(HasSubstr("77")));
    EXPECT_THAT(Text(other), Not(HasSubstr("audit")));
  }
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
