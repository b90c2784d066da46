#ifndef PARAPET_TESTS_TOOLS_LAUNCHER_TESTING_H_
#define PARAPET_TESTS_TOOLS_LAUNCHER_TESTING_H_

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/common/temp_dir.h"
#include "tools/run.h"

namespace parapet {

inline std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Whether a process runs: a zombie does not (nobody may be there to reap one
// that lost its parent).
inline bool Lives(pid_t pid) {
  const std::string stat = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat[name_end + 2] != 'Z';
}

// What every fake program begins with: its arguments as shell variables, and
// its pid and arguments in files named after it.
inline constexpr char kPrelude[] = R"(#!/bin/bash
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
    ::setenv("D", dir_.c_str(), 1);
    ::mkdir((dir_ + "/tmp").c_str(), 0755);
  }
  ~LauncherTest() override {
    if (launcher_ > 0) {
      ::kill(launcher_, SIGKILL);
      ::waitpid(launcher_, nullptr, 0);
    }
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

  const TempDir temp_;
  const std::string dir_ = temp_.path();
  pid_t launcher_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_TOOLS_LAUNCHER_TESTING_H_
