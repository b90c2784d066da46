#include "common/flags.h"

#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/flag_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/temp_dir.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Arguments = std::vector<std::string>;

template <typename Parse>
auto Call(Parse parse, const Arguments& arguments,
          const JobCheck& check = nullptr) {
  std::vector<const char*> argv = {"program"};
  for (const std::string& argument : arguments)
    argv.push_back(argument.c_str());
  return parse(static_cast<int>(argv.size()), argv.data(), check);
}
auto Server(const Arguments& arguments) {
  return Call(ParseServerFlags, arguments);
}
auto Worker(const Arguments& arguments) {
  return Call(ParseWorkerFlags, arguments);
}
auto Launch(const Arguments& arguments, const JobCheck& check = nullptr) {
  return Call(ParseRunFlags, arguments, check);
}

// What `run` says to arguments that it must refuse.
std::string Refusal(const Arguments& arguments) {
  const auto flags = Launch(arguments);
  EXPECT_FALSE(flags.ok()) << "accepted";
  EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(flags.status().message());
}
std::string RefusalOfJob(std::string argument) {
  return Refusal({"--epochs=1", std::move(argument)});
}

class FlagsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  const TempDir temp_;
  const std::string dir_ = temp_.path();
};

TEST_F(FlagsTest, DefaultsAreThoseOfTheStructs) {
  const auto flags = Launch({"--epochs=5"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  JobConfig expected;
  expected.epochs = 5;
  expected.evaluators = 1;
  EXPECT_EQ(flags->job.ToText(), expected.ToText());
  EXPECT_EQ(flags->patience.start_timeout, absl::Minutes(5));
  EXPECT_EQ(flags->transport, "auto");
}

struct JobFlag {
  const char* flag;  // empty: not given
  const char* line;  // of the job's text
};

constexpr JobFlag kJobFlags[] = {
    {"--job_id=j", "job_id=j"},
    {"--servers=3", "servers=3"},
    {"--workers=5", "workers=5"},
    {"--evaluators=2", "evaluators=2"},
    {"--model=cnn:small", "model=cnn:small"},
    {"--data=idx:/d", "data=idx:/d"},
    {"--data_split=own", "data_split=own"},
    {"--train_samples=7", "train_samples=7"},
    {"--batch=1Ki", "batch=1024"},
    {"", "epochs=0"},
    {"--rounds=11", "rounds=11"},
    {"--seed=18446744073709551615", "seed=18446744073709551615"},
    {"--optimizer=adamw", "optimizer=adamw"},
    {"--momentum=0.5", "momentum=0.5"},
    {"--beta1=0.25", "beta1=0.25"},
    {"--beta2=0.75", "beta2=0.75"},
    {"--epsilon=1e-6", "epsilon=1e-06"},
    {"--weight_decay=0.1", "weight_decay=0.1"},
    {"--lr=0.3", "lr=0.3"},
    {"--schedule=step", "schedule=step"},
    {"--warmup=4", "warmup=4"},
    {"--step_gamma=0.2", "step_gamma=0.2"},
    {"--step_epochs=6", "step_epochs=6"},
    {"--scale_lr", "scale_lr=true"},
    {"--clip_norm=2.5", "clip_norm=2.5"},
    {"--worker_momentum=0.9", "worker_momentum=0.9"},
    {"--rule=median", "rule=median"},
    {"--byzantine=2", "byzantine=2"},
    {"--hash_every=8", "hash_every=8"},
    {"--max_bad_rounds=9", "max_bad_rounds=9"},
    {"--wire=float16", "wire=float16"},
    {"--wire_scale=64", "wire_scale=64"},
    {"--chunk=64Ki", "chunk=65536"},
    {"--connections=4", "connections=4"},
};

TEST_F(FlagsTest, EveryJobFlagReachesItsField) {
  Arguments arguments;
  std::string expected;
  for (const JobFlag& one : kJobFlags) {
    if (*one.flag != 0) arguments.emplace_back(one.flag);
    absl::StrAppend(&expected, one.line, "\n");
  }
  const auto flags = Launch(arguments);
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->job.ToText(), expected);
}

TEST_F(FlagsTest, TheTextOfAJobIsAFlagFileThatGivesTheSameJob) {
  const auto flags = Launch({"--epochs=3", "--lr=0.1",
                             "--epsilon=1.0000000000000002e-8", "--workers=9"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  const auto again =
      Launch({"--flagfile=" + Write("job.flags", flags->job.ToText())});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job.ToText(), flags->job.ToText());
  EXPECT_EQ(again->job.optimizer.epsilon, flags->job.optimizer.epsilon);
  EXPECT_NE(again->job.optimizer.epsilon, 1e-8);
}

TEST_F(FlagsTest, DurationsHaveUnits) {
  const auto flags =
      Launch({"--epochs=1", "--patience=500ms", "--start_timeout=1m30s",
              "--deadline=0", "--dead_after=4s", "--ping_every=2s",
              "--grace=2.5s", "--insufficient_for=7s", "--round_deadline=3s"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->patience.patience, absl::Milliseconds(500));
  EXPECT_EQ(flags->patience.start_timeout, absl::Seconds(90));
  EXPECT_EQ(flags->patience.quorum_deadline, absl::ZeroDuration());
  EXPECT_EQ(flags->patience.dead_after, absl::Seconds(4));
  EXPECT_EQ(flags->patience.ping_every, absl::Seconds(2));
  EXPECT_EQ(flags->patience.grace, absl::Milliseconds(2500));
  EXPECT_EQ(flags->patience.insufficient_for, absl::Seconds(7));
  EXPECT_EQ(flags->patience.round_deadline, absl::Seconds(3));
  EXPECT_THAT(RefusalOfJob("--patience=10"), HasSubstr("unit"));
  EXPECT_THAT(RefusalOfJob("--patience=inf"), HasSubstr("unit"));
  EXPECT_THAT(RefusalOfJob("--grace=-1s"), HasSubstr("above 0"));
}

TEST_F(FlagsTest, CountsMayHaveBinarySuffixes) {
  EXPECT_EQ(*ParseCount("64Ki"), 65536);
  EXPECT_EQ(*ParseCount("1Mi"), 1048576);
  EXPECT_EQ(*ParseCount("-3"), -3);
  EXPECT_EQ(*ParseCount("9223372036854775807"), INT64_MAX);
  for (const char* bad :
       {"", "Ki", "1.5", "1k", "0x10", "8589934592Gi", "9223372036854775808"}) {
    EXPECT_FALSE(ParseCount(bad).ok()) << bad;
  }
}

TEST_F(FlagsTest, ValuesOutOfRangeAreRefusedInWords) {
  EXPECT_EQ(RefusalOfJob("--batch=0"),
            "--batch=0 (command line): must be at least 1");
  EXPECT_EQ(RefusalOfJob("--lr=0"), "--lr=0 (command line): must be above 0");
  EXPECT_EQ(RefusalOfJob("--momentum=1"),
            "--momentum=1 (command line): must be below 1");
  EXPECT_THAT(RefusalOfJob("--momentum=-0.1"), HasSubstr("at least 0"));
  EXPECT_THAT(RefusalOfJob("--lr=nan"), HasSubstr("not a number"));
  EXPECT_THAT(RefusalOfJob("--lr=inf"), HasSubstr("not a number"));
  EXPECT_THAT(RefusalOfJob("--lr=fast"), HasSubstr("not a number"));
  EXPECT_THAT(RefusalOfJob("--lr="), HasSubstr("not a number"));
  EXPECT_THAT(RefusalOfJob("--seed=-1"), HasSubstr("2^64"));
  EXPECT_THAT(RefusalOfJob("--optimizer=adamm"),
              HasSubstr("sgd|momentum|nesterov|adam|adamw"));
  EXPECT_THAT(RefusalOfJob("--wire=int8"),
              HasSubstr("float32|bfloat16|float16"));
  EXPECT_THAT(RefusalOfJob("--scale_lr=maybe"), HasSubstr("true or false"));
  EXPECT_THAT(RefusalOfJob("--auth=curve"), HasSubstr("none"));
  EXPECT_THAT(RefusalOfJob("--quorum=0"), HasSubstr("all or a number"));
  EXPECT_THAT(RefusalOfJob("--connections=65"), HasSubstr("at most 64"));
  EXPECT_THAT(RefusalOfJob("--workers=3000000000"), HasSubstr("at most 65535"));
}

TEST_F(FlagsTest, UnknownFlagsGetTheNearestName) {
  EXPECT_THAT(RefusalOfJob("--bacth=3"), HasSubstr("did you mean --batch?"));
  EXPECT_THAT(RefusalOfJob("--snapshot-dir=x"),
              HasSubstr("did you mean --snapshot_dir?"));
  EXPECT_THAT(RefusalOfJob("--xyzzyplugh"), HasSubstr("--help lists them"));
  EXPECT_THAT(RefusalOfJob("--" + std::string(100000, 'x')),
              HasSubstr("--help lists them"));
}

TEST_F(FlagsTest, OnlyNameEqualsValueIsWritten) {
  EXPECT_THAT(Refusal({"--epochs=1", "--batch", "32"}),
              HasSubstr("'32'; flags are written --name=value"));
  EXPECT_THAT(Refusal({"--epochs=1", "--batch"}),
              HasSubstr("needs a value: --batch=SAMPLES"));
  EXPECT_THAT(Refusal({"-b"}), HasSubstr("--name=value"));
  EXPECT_THAT(Refusal({"--"}), HasSubstr("--name=value"));
}

TEST_F(FlagsTest, BareFlagsMeanTrueAndLatest) {
  const auto flags =
      Launch({"--epochs=1", "--scale_lr", "--resume", "--snapshot_dir=/s"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_TRUE(flags->job.schedule.scale_lr);
  EXPECT_EQ(flags->snapshot.resume, "latest");
  const auto off = Launch({"--epochs=1", "--scale_lr", "--scale_lr=false"});
  ASSERT_TRUE(off.ok());
  EXPECT_FALSE(off->job.schedule.scale_lr);
}

TEST_F(FlagsTest, ContradictionsAreRefusedInWords) {
  EXPECT_THAT(Refusal({}), HasSubstr("--epochs=N or --rounds=N"));
  EXPECT_THAT(
      Refusal({"--flagfile=" + Write("job", "\nepochs=5"), "--rounds=7"}),
      HasSubstr("job:2) and --rounds=7 (command line) contradict"));
  EXPECT_THAT(Refusal({"--rounds=5", "--warmup=6"}),
              HasSubstr("longer than the training"));
  EXPECT_THAT(
      Refusal({"--epochs=1", "--quorum=5", "--workers=4"}),
      HasSubstr(
          "--quorum=5 (command line) cannot be reached with --workers=4"));
  EXPECT_THAT(RefusalOfJob("--snapshot_every=5"), HasSubstr("--snapshot_dir"));
  EXPECT_THAT(RefusalOfJob("--resume"), HasSubstr("--snapshot_dir"));
  EXPECT_THAT(RefusalOfJob("--chunk=1000"), HasSubstr("multiple of 16384"));
  EXPECT_THAT(RefusalOfJob("--byzantine=1"),
              HasSubstr("below the number of workers"));
  EXPECT_THAT(RefusalOfJob("--dead_after=1s"), HasSubstr("--ping_every"));
  EXPECT_THAT(RefusalOfJob("--model="), HasSubstr("must not be empty"));
}

TEST_F(FlagsTest, TheCallersCheckOfTheJobCounts) {
  const JobCheck check = [](const CommonFlags& flags) {
    return flags.job.rule == "mean"
               ? absl::OkStatus()
               : absl::InvalidArgumentError("no such rule");
  };
  EXPECT_TRUE(Launch({"--epochs=1"}, check).ok());
  EXPECT_EQ(Launch({"--epochs=1", "--rule=median"}, check).status().message(),
            "no such rule");
}

TEST_F(FlagsTest, FilesAreReadInOrderAndTheCommandLineWins) {
  const std::string first =
      Write("first", "# a job\n\n--epochs=3\nbatch=8   # small\nmodel=a#b\r\n");
  const std::string second = Write("second", "batch=16\nscale_lr\nlr=0.5\n");
  const auto flags =
      Launch({"--lr=0.25", "--flagfile=" + first, "--flagfile=" + second});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->job.epochs, 3);
  EXPECT_EQ(flags->job.batch, 16);
  EXPECT_EQ(flags->job.model, "a#b");
  EXPECT_TRUE(flags->job.schedule.scale_lr);
  EXPECT_EQ(flags->job.schedule.lr, 0.25);
}

TEST_F(FlagsTest, FilesNameOthersBesideThem) {
  Write("inner", "epochs=4\n");
  const auto flags =
      Launch({"--flagfile=" + Write("outer", "flagfile=inner\n")});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->job.epochs, 4);
}

TEST_F(FlagsTest, NestingHasALimit) {
  for (int i = 1; i <= 4; ++i)
    Write(absl::StrCat("f", i), absl::StrCat("flagfile=f", i + 1, "\n"));
  Write("f5", "epochs=1\n");
  EXPECT_TRUE(Launch({"--flagfile=" + dir_ + "/f2"}).ok());  // f2 to f5: four
  EXPECT_THAT(Refusal({"--flagfile=" + dir_ + "/f1"}),
              HasSubstr("nested more than 4 deep"));
  // Two mentions of itself would be 2^depth files, were only depth limited.
  const std::string self = Write("self", "flagfile=self\nflagfile=self\n");
  EXPECT_THAT(Refusal({"--flagfile=" + self}),
              HasSubstr("does one name itself?"));
}

TEST_F(FlagsTest, ErrorsInFilesHaveTheirLine) {
  const std::string path = Write("job.flags", "epochs=1\n\nbatch=zero\n");
  EXPECT_THAT(Refusal({"--flagfile=" + path}),
              HasSubstr("job.flags:3): is not a whole number"));
  EXPECT_THAT(Refusal({"--flagfile=" + Write("two", "epochs 5\n")}),
              HasSubstr("two:1: 'epochs 5'"));
  EXPECT_THAT(Refusal({"--flagfile=" + dir_ + "/none"}),
              HasSubstr("cannot be read"));
  EXPECT_THAT(Refusal({"--flagfile=" + dir_}), HasSubstr("cannot be read"));
  EXPECT_THAT(Refusal({"--flagfile"}), HasSubstr("cannot be read"));
  EXPECT_THAT(
      Refusal({"--flagfile=" + Write("big", std::string((1 << 20) + 1, '\n'))}),
      HasSubstr("longer than 1 MiB"));
}

TEST_F(FlagsTest, ThreadsAreANumberOrChosen) {
  const auto chosen = Server({"--servers=ipc:///tmp/s", "--index=0",
                              "--epochs=1", "--server_threads=auto"});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->threads, kAuto);
  EXPECT_GE(ReducingThreads(*chosen), 1);
  EXPECT_LE(ReducingThreads(*chosen), 8);
  EXPECT_GE(NetworkThreads(*chosen), 1);
  const auto given =
      Server({"--servers=ipc:///tmp/s", "--index=0", "--epochs=1",
              "--server_threads=0", "--network_threads=20"});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(ReducingThreads(*given), 0);
  EXPECT_EQ(NetworkThreads(*given), 20);
  EXPECT_THAT(Refusal({"--network_threads=0"}), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(Refusal({"--server_threads=many"}), HasSubstr("must be auto"));
}

TEST_F(FlagsTest, ServersAreAddressesForAServer) {
  const auto flags = Server(
      {"--servers=localhost:7000,tcp://127.0.0.1:0,ipc:///tmp/s", "--index=1",
       "--epochs=1", "--server_threads=2", "--port_file=/p"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_THAT(flags->servers, ElementsAre("tcp://localhost:7000",
                                          "tcp://127.0.0.1:0", "ipc:///tmp/s"));
  EXPECT_EQ(flags->job.servers, 3);
  EXPECT_EQ(flags->listen, "tcp://127.0.0.1:0");
  EXPECT_EQ(flags->threads, 2);
  EXPECT_EQ(flags->port_file, "/p");
}

TEST_F(FlagsTest, AShardIsOnTheCpuOrAGpuByNumber) {
  const std::vector<std::string> rest = {"--servers=localhost:7000",
                                         "--index=0", "--epochs=1"};
  const auto with = [&](const std::string& device) {
    std::vector<std::string> args = rest;
    args.push_back("--server_device=" + device);
    return Server(args);
  };
  EXPECT_EQ(Server(rest)->device, "auto");
  for (const char* good : {"auto", "cpu", "cuda:0", "cuda:15"})
    EXPECT_EQ(with(good)->device, good);
  for (const char* bad : {"", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:x"}) {
    EXPECT_THAT(std::string(with(bad).status().message()),
                HasSubstr("must be auto, cpu or cuda:N"))
        << bad;
  }
}

TEST_F(FlagsTest, WrongAddressesAreRefused) {
  for (const char* bad :
       {"2", "", "host", "host:", ":80", "host:65536", "host:-1", "udp://h:1",
        "ipc://", "localhost:1,", "h:1x"}) {
    const auto flags = Server({absl::StrCat("--servers=", bad), "--epochs=1",
                               "--insecure", "--index=0"});
    EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST_F(FlagsTest, AServerMustKnowWhichItIs) {
  const std::string two = "--servers=localhost:1,localhost:2";
  EXPECT_THAT(std::string(Server({two, "--epochs=1"}).status().message()),
              HasSubstr("--index=K"));
  EXPECT_THAT(
      std::string(Server({two, "--epochs=1", "--index=2"}).status().message()),
      HasSubstr("2 servers, numbered from 0"));
  EXPECT_EQ(Server({"--servers=localhost:1", "--epochs=1"})->index, 0);
}

TEST_F(FlagsTest, OpenAddressesNeedInsecure) {
  const std::string open = "--servers=10.0.0.1:7000";
  EXPECT_THAT(std::string(Server({open, "--epochs=1"}).status().message()),
              HasSubstr("--insecure"));
  EXPECT_THAT(std::string(Worker({open, "--epochs=1"}).status().message()),
              HasSubstr("--insecure"));
  EXPECT_TRUE(Server({open, "--epochs=1", "--insecure"}).ok());
  EXPECT_FALSE(Server({"--servers=localhost:7000", "--listen=0.0.0.0:7000",
                       "--epochs=1"})
                   .ok());
}

TEST_F(FlagsTest, LocalAddresses) {
  for (const char* yes : {"ipc:///x", "tcp://127.0.0.1:1", "tcp://localhost:1",
                          "tcp://[::1]:1", "tcp://127.9.9.9:0"}) {
    EXPECT_TRUE(IsLocal(yes)) << yes;
  }
  for (const char* no : {"tcp://0.0.0.0:1", "tcp://*:1", "tcp://127.evil.org:1",
                         "tcp://host:1", "tcp://[::]:1"}) {
    EXPECT_FALSE(IsLocal(no)) << no;
  }
}

TEST_F(FlagsTest, WorkersKnowTheirIdAndData) {
  const std::string servers = "--servers=ipc:///s";
  const auto flags =
      Worker({servers, "--id=3", "--workers=4", "--epochs=1",
              "--data=idx:/d/{id}/x{id}", "--threads=2", "--isa=avx2",
              "--device=cuda:3", "--compute=bfloat16"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->id, 3);
  EXPECT_EQ(flags->data, "idx:/d/3/x3");
  // The job's text is compared between workers, so it must not differ between
  // them.
  EXPECT_EQ(flags->job.data, "idx:/d/{id}/x{id}");
  EXPECT_EQ(flags->threads, 2);
  EXPECT_EQ(flags->isa, "avx2");
  EXPECT_EQ(flags->device, "cuda:3");
  EXPECT_EQ(flags->compute, "bfloat16");
  EXPECT_FALSE(Worker({servers, "--id=4", "--workers=4", "--epochs=1"}).ok());
  EXPECT_FALSE(Worker({servers, "--workers=4", "--epochs=1"}).ok());
}

TEST_F(FlagsTest, EvaluatorsAreCountedByThemselves) {
  const std::string servers = "--servers=ipc:///s";
  EXPECT_THAT(
      std::string(Worker({servers, "--evaluator", "--id=0", "--epochs=1"})
                      .status()
                      .message()),
      HasSubstr("0 evaluators"));
  const auto flags = Worker({servers, "--evaluator", "--id=0", "--epochs=1",
                             "--evaluators=1", "--workers=3"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_TRUE(flags->evaluator);
}

TEST_F(FlagsTest, OneFileServesAllRoles) {
  const std::string file =
      "--flagfile=" + Write("job.flags",
                            "servers=localhost:7000,localhost:7001\nworkers="
                            "2\nevaluators=1\nepochs=1\nindex=0\nid=1\n"
                            "threads=3\nserver_threads=2\nisa=sse41\ntransport="
                            "tcp\nsummary=json\nsnapshot_dir=/s\n");
  const auto server = Server({file});
  const auto worker = Worker({file});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(server->job.ToText(), worker->job.ToText());
  EXPECT_EQ(server->threads, 2);
  EXPECT_EQ(worker->threads, 3);
}

TEST_F(FlagsTest, WhatOnlyTheLeadIsToKnowIsNotForwarded) {
  const auto flags = Launch({"--epochs=1", "--rule_secret=18446744073709551615",
                             "--audit=a.jsonl", "--audit_bytes=8Ki"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->rule_secret, ~uint64_t{0});
  EXPECT_EQ(flags->audit, "a.jsonl");
  EXPECT_EQ(flags->audit_bytes, 8192);
  EXPECT_THAT(flags->forward, ElementsAre("--epochs=1"));
  EXPECT_EQ(flags->job.ToText().find("secret"), std::string::npos);
  EXPECT_FALSE(Launch({"--epochs=1"})->rule_secret);
  EXPECT_FALSE(Launch({"--epochs=1", "--rule_secret=-1"}).ok());
  EXPECT_FALSE(Launch({"--epochs=1", "--rule_secret="}).ok());
}

TEST_F(FlagsTest, TheLauncherForwardsWhatOthersUse) {
  const std::string file =
      "--flagfile=" + Write("job.flags", "batch=8\nservers=3\ntransport=tcp\n");
  const auto flags = Launch({"--epochs=1", file, "--workers=2", "--scale_lr",
                             "--summary=json", "--data=x={id}"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->job.servers, 3);
  EXPECT_THAT(flags->forward, ElementsAre("--batch=8", "--epochs=1",
                                          "--scale_lr", "--data=x={id}"));
  EXPECT_THAT(Refusal({"--epochs=1", "--servers=localhost:1"}),
              HasSubstr("number of servers"));
  EXPECT_THAT(Refusal({"--epochs=1", "--servers=0"}),
              HasSubstr("number of servers"));
}

TEST_F(FlagsTest, HelpShowsOwnGroupsWithUnitsAndDefaults) {
  const auto server = Server({"--help", "--batch=7"});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(server->print, HasSubstr("--batch=SAMPLES [32]"));
  EXPECT_THAT(server->print, HasSubstr("--patience=DURATION [10s]"));
  EXPECT_THAT(server->print, HasSubstr("--port_file=FILE"));
  EXPECT_THAT(server->print, HasSubstr("This server:"));
  EXPECT_THAT(server->print, Not(HasSubstr("--id=")));
  EXPECT_THAT(server->print, Not(HasSubstr("--transport=")));
  EXPECT_THAT(Worker({"--help"})->print, HasSubstr("--id=K"));
  EXPECT_THAT(Launch({"--help"})->print,
              HasSubstr("--transport=auto|shm|ipc|tcp [auto]"));
  EXPECT_THAT(Launch({"--version"})->print, HasSubstr("parapet "));
}

}  // namespace
}  // namespace parapet
