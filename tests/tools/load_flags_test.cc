#include "tools/load_flags.h"

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/temp_dir.h"
#include "tools/load_files.h"
#include "tools/load_player.h"

namespace parapet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

absl::StatusOr<LoadFlags> Parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"load"};
  for (const std::string& argument : arguments)
    argv.push_back(argument.c_str());
  return ParseLoadFlags(static_cast<int>(argv.size()), argv.data());
}

std::string Complaint(const std::vector<std::string>& arguments) {
  const absl::StatusOr<LoadFlags> flags = Parse(arguments);
  EXPECT_TRUE(absl::IsInvalidArgument(flags.status())) << flags.status();
  return std::string(flags.status().message());
}

TEST(LoadFlagsTest, PlaysAllWorkersAgainstServersOfItsOwn) {
  const absl::StatusOr<LoadFlags> flags =
      Parse({"--servers=2", "--workers=200", "--parameters=262144"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->own_servers, 2);
  EXPECT_EQ(flags->players, 200);
  EXPECT_EQ(flags->common.job.model, "flat:262144");
  EXPECT_EQ(flags->common.job.rounds, flags->warmup + flags->rounds);
  EXPECT_EQ(flags->check, LoadCheck::kSampled);
}

TEST(LoadFlagsTest, PlaysAPartAgainstServersThatAreThere) {
  const absl::StatusOr<LoadFlags> flags =
      Parse({"--servers=127.0.0.1:7001,ipc:///tmp/x", "--workers=3000",
             "--first_worker=1000", "--players=500"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->own_servers, 0);
  EXPECT_THAT(flags->servers,
              ElementsAre("tcp://127.0.0.1:7001", "ipc:///tmp/x"));
  EXPECT_EQ(flags->first_worker, 1000);
  EXPECT_EQ(flags->players, 500);
  EXPECT_EQ(flags->common.job.servers, 2);
}

TEST(LoadFlagsTest, SaysWhatServersMustBeToldForIt) {
  const absl::StatusOr<LoadFlags> flags =
      Parse({"--workers=4", "--wire=bfloat16", "--rule=median"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  const std::vector<std::string> told = LoadServerFlags(*flags);
  EXPECT_THAT(told, Contains("--model=flat:1048576"));
  EXPECT_THAT(told, Contains("--optimizer=sgd"));
  EXPECT_THAT(told, Contains("--wire=bfloat16"));
  EXPECT_THAT(told, Contains("--rule=median"));
  EXPECT_THAT(told, Not(Contains(StartsWith("--servers="))));
}

TEST(LoadFlagsTest, RefusesInWords) {
  EXPECT_THAT(Complaint({"--servers=0"}), HasSubstr("from 1 to 256"));
  EXPECT_THAT(Complaint({"--servers=nowhere"}), HasSubstr("host:port"));
  EXPECT_THAT(Complaint({"--servers=10.0.0.1:7000"}), HasSubstr("--insecure"));
  EXPECT_THAT(Complaint({"--workers=2001"}), HasSubstr("--players=N"));
  EXPECT_THAT(Complaint({"--workers=4", "--players=2"}),
              HasSubstr("have all their workers here"));
  EXPECT_THAT(Complaint({"--workers=4", "--first_worker=4"}),
              HasSubstr("numbered from 0"));
  EXPECT_THAT(Complaint({"--rounds=3", "--duration=1s"}),
              HasSubstr("contradict"));
  EXPECT_THAT(Complaint({"--stragglers=0.5"}), HasSubstr("as in 0.1,20ms"));
  EXPECT_THAT(Complaint({"--stragglers=2,1s"}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(Complaint({"--slow_readers=0.1,3s"}), HasSubstr("up to 2s"));
  EXPECT_THAT(Complaint({"--rule=krum", "--workers=4", "--byzantine=2"}),
              HasSubstr("at least 7 workers"));
  EXPECT_THAT(Complaint({"--chunk=1000"}), HasSubstr("multiple"));
  EXPECT_THAT(Complaint({"--wire=int8"}), HasSubstr("bfloat16"));
  EXPECT_THAT(Complaint({"--rates=3"}), HasSubstr("--rate"));
}

TEST(LoadFlagsTest, RefusesAttacksThatMakeNoSense) {
  const auto complaint = [](const std::string& attack) {
    return Complaint(
        {"--servers=2", "--workers=4", "--attackers=1", "--attack=" + attack});
  };
  EXPECT_THAT(complaint("nonsense"), HasSubstr("nonsense"));
}

TEST(LoadFlagsTest, ALayoutSaysHowManyParametersThereAre) {
  const TempDir dir;
  const std::string path = dir / "layout.json";
  std::ofstream(path) << R"([{"name": "a", "shape": [100, 7]}])";
  EXPECT_EQ(Parse({"--layout=" + path})->parameters, 700);
  EXPECT_EQ(Parse({"--layout=" + path})->common.job.model, "layout:" + path);
  EXPECT_THAT(Complaint({"--layout=" + path, "--parameters=5"}),
              HasSubstr("contradict"));
  EXPECT_THAT(Complaint({"--layout=" + path, "--skew=2"}),
              HasSubstr("contradict"));
  EXPECT_EQ(Parse({"--parameters=1000", "--tensors=10", "--skew=2"})
                ->common.job.model,
            "zipf:1000,10,2,1");
}

TEST(LoadFlagsTest, SharedMemoryIsForSomeHundreds) {
  EXPECT_EQ(Parse({"--workers=256"})->transport, "shm");
  EXPECT_EQ(Parse({"--workers=257"})->transport, "ipc");
  EXPECT_EQ(Parse({"--workers=257", "--transport=shm"})->transport, "shm");
  EXPECT_EQ(Parse({"--workers=2", "--transport=ipc"})->transport, "ipc");
}

TEST(LoadFlagsTest, RoundsEndSoonWhereAttackersNeverPush) {
  const auto deadline = [](const std::string& attack) {
    return Parse({"--servers=2", "--workers=4", "--attackers=1",
                  "--attack=" + attack})
        ->common.patience.round_deadline;
  };
  EXPECT_EQ(deadline("silent"), absl::Seconds(5));
  EXPECT_EQ(deadline("partial"), absl::Seconds(5));
  EXPECT_EQ(deadline("flood"), absl::Seconds(5));
  EXPECT_EQ(deadline("nan"), absl::Minutes(10));
  EXPECT_EQ(Parse({"--round_deadline=3s"})->common.patience.round_deadline,
            absl::Seconds(3));
}

TEST(LoadFlagsTest, ManyAttackersThatComeAndGoHideTheSums) {
  const auto knows = [](const std::string& attack, int attackers) {
    return Parse({"--workers=30", absl::StrCat("--attackers=", attackers),
                  "--attack=" + attack})
        ->KnowsValues();
  };
  EXPECT_TRUE(knows("flood", 8));
  EXPECT_FALSE(knows("flood", 9));
  EXPECT_TRUE(knows("sign_flip", 20));
}

TEST(LoadFlagsTest, PicksTheShareThatIsHeldUp) {
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    int held = 0;
    for (int worker = 0; worker < 50; ++worker)
      held += IsHeldUp({share, absl::Seconds(1)}, 9, worker, 50) ? 1 : 0;
    EXPECT_EQ(held, static_cast<int>(share * 50));
  }
}

TEST(LoadFlagsTest, SaysWhenTooManyFilesAreNeeded) {
  EXPECT_TRUE(RaiseOpenFiles(16).ok());
  const absl::Status status = RaiseOpenFiles(int64_t{1} << 40);
  // A machine may have no limit at all.
  if (!status.ok()) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -Hn"));
  }
  EXPECT_GT(LoadOpenFiles(200, 2, 1), 200 * 2 * 2);
}

TEST(LoadScheduleTest, CountsFromTheEndOfTheWarmUp) {
  LoadSchedule schedule(50, 5);
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_EQ(schedule.DueAt(4, now), std::nullopt);
  EXPECT_EQ(schedule.DueAt(5, now), now);
  // Whoever comes later, and however late, is told the same.
  EXPECT_EQ(schedule.DueAt(5, now + absl::Seconds(1)), now);
  EXPECT_EQ(schedule.DueAt(15, now + absl::Seconds(9)),
            now + absl::Milliseconds(200));
  LoadSchedule closed(0, 5);
  EXPECT_EQ(closed.DueAt(15, now), std::nullopt);
}

}  // namespace
}  // namespace parapet
