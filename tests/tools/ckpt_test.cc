#include "tools/ckpt.h"

#include <sstream>
#include <string>
#include <vector>

#include "common/checkpoint.h"
#include "common/memory_disk.h"
#include "common/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/checkpoint_testing.h"

namespace parapet {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CkptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t version : {1, 2, 3}) {
      ASSERT_TRUE(WriteToySnapshot(disk_, "/s", version, 2, version).ok());
    }
  }

  int Run(const std::vector<std::string>& args) {
    out_.str("");
    err_.str("");
    return RunCkpt(disk_, args, out_, err_);
  }

  MemoryDisk disk_;
  std::ostringstream out_, err_;
};

TEST_F(CkptTest, ShowsASnapshotsFolder) {
  ASSERT_EQ(Run({"show", "/s/" + SnapshotName(2)}), 0) << err_.str();
  EXPECT_THAT(err_.str(), IsEmpty());
  EXPECT_THAT(
      out_.str(),
      AllOf(HasSubstr("version:       2\n"), HasSubstr("epoch:         3\n"),
            HasSubstr("position:      60000\n"),
            HasSubstr("servers:       2\n"),
            HasSubstr("server-1.safetensors  "),
            HasSubstr("fc1.weight  [5, 7]  35\n"), HasSubstr("scale  []  1\n"),
            HasSubstr("  model=mlp\n  note=\"x\"\n")));
  EXPECT_THAT(out_.str(), HasSubstr("weights hash:  "));
}

TEST_F(CkptTest, ShowsTheRootWithTheLastGoodOne) {
  ASSERT_TRUE(disk_.FlipBits("/s/" + SnapshotName(3) + "/server-0.safetensors",
                             200, 1));
  ASSERT_EQ(Run({"show", "/s"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr(SnapshotName(3) + " (latest): bad: '/s/" +
                                    SnapshotName(3) +
                                    "/server-0.safetensors' was altered"));
  EXPECT_THAT(out_.str(), HasSubstr(SnapshotName(2) + ": good\n"));
  EXPECT_THAT(out_.str(), HasSubstr("version:       2\n"));
  EXPECT_THAT(err_.str(), HasSubstr("passed over: " + SnapshotName(3)));
}

TEST_F(CkptTest, BadDataIsFive) {
  EXPECT_EQ(Run({"show", "/none"}), 5);
  EXPECT_THAT(err_.str(), HasSubstr("/none"));
  ASSERT_TRUE(disk_.Truncate("/s/" + SnapshotName(3) + "/manifest.json", 50));
  EXPECT_EQ(Run({"show", "/s/" + SnapshotName(3)}), 5);
  EXPECT_THAT(err_.str(), HasSubstr("manifest.json"));
  ASSERT_TRUE(disk_.MakeDir("/empty").ok());
  EXPECT_EQ(Run({"export", "/empty", "/m.safetensors"}), 5);
  EXPECT_THAT(err_.str(), HasSubstr("no good snapshot"));
}

TEST_F(CkptTest, ExportsTheLastGoodOne) {
  ASSERT_EQ(Run({"export", "/s", "/m.safetensors"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("version 3"));
  const auto file = SafetensorsReader::Open(disk_, "/m.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), ToyTensors().size());
  ASSERT_EQ(Run({"export", "/s/" + SnapshotName(1), "/m.safetensors"}), 0)
      << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("version 1"));
}

TEST_F(CkptTest, AFullDiskIsNotBadData) {
  disk_.SetCapacity(0);
  EXPECT_EQ(Run({"export", "/s", "/m.safetensors"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("full"));
}

TEST_F(CkptTest, WrongUsageIsTwo) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"shew", "/s"},
                                                       {"show"},
                                                       {"show", "/s", "x"},
                                                       {"export", "/s"},
                                                       {"show", "--x", "/s"}};
  for (const auto& args : wrong) {
    EXPECT_EQ(Run(args), 2);
    EXPECT_THAT(err_.str(), Not(IsEmpty()));
  }
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("export"));
}

TEST_F(CkptTest, NamesCannotReachTheTerminal) {
  const Layout layout = Layout::Create({{"evil\x1b[2J", {1}, {}}}).value();
  const ToyState state(layout, 1);
  const auto manifest = WriteToyFiles(disk_, "/e", layout, 1, 1, state);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_TRUE(CommitSnapshot(disk_, "/e", *manifest, 1).ok());
  ASSERT_EQ(Run({"show", "/e"}), 0) << err_.str();
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("evil\\x1b[2J"), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace parapet
