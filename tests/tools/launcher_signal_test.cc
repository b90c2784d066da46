// Signals and deaths: what `parapet run` passes on, and that it leaves nobody.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/launcher_testing.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

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

TEST_F(LauncherTest, WhoDiesOfThatSignalHasStoppedAsItWasAskedTo) {
  Programs("ready; sleep 60", "ready; sleep 60");
  Start({});
  for (const char* who : {"server0", "worker0", "evaluator0"})
    AwaitFile(absl::StrCat(who, ".ready"));
  ::kill(launcher_, SIGTERM);
  EXPECT_EQ(Finish(), 0);
}

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

}  // namespace
}  // namespace parapet
