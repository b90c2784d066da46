#include "server/audit_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/memory_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Runs work when it is told to.
class SlowExecutor final : public Executor {
 public:
  void Submit(std::function<void()> work, std::function<void()> done) override {
    work();
    done_.push_back(std::move(done));
  }
  int RunDone() override {
    if (stuck) return 0;
    std::vector<std::function<void()>> done;
    std::swap(done, done_);
    for (auto& call : done) call();
    return static_cast<int>(done.size());
  }
  void Abandon() override { done_.clear(); }
  bool stuck = false;

 private:
  std::vector<std::function<void()>> done_;
};

// Makes new files while it is told to.
class FickleDisk final : public MemoryDisk {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    if (creates) return MemoryDisk::Create(path);
    return absl::ResourceExhaustedError("no new file is to be had");
  }
  bool creates = true;
};

class AuditWriterTest : public testing::Test {
 protected:
  std::unique_ptr<AuditWriter> Make(int64_t max_bytes = 1 << 20,
                                    size_t pending = 4) {
    auto executor = std::make_unique<SlowExecutor>();
    executor_ = executor.get();
    auto writer = AuditWriter::Create(
        {"/audit", first_line_, max_bytes, pending}, &disk_,
        std::move(executor),
        [this](const std::string& words) { warnings_.push_back(words); });
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  void Settle(AuditWriter& writer) {
    for (int i = 0; i < 5; ++i) writer.Turn();
  }
  std::vector<std::string> LinesOf(const std::string& path) {
    const auto text = ReadWholeFile(disk_, path, 1 << 20);
    EXPECT_TRUE(text.ok()) << text.status();
    if (!text.ok()) return {};
    return absl::StrSplit(*text, '\n', absl::SkipEmpty());
  }

  FickleDisk disk_;
  std::string first_line_;
  SlowExecutor* executor_ = nullptr;
  std::vector<std::string> warnings_;
};

TEST_F(AuditWriterTest, LinesComeInOrder) {
  const auto writer = Make();
  EXPECT_TRUE(writer->idle());
  writer->Add("one");
  writer->Add("two");
  EXPECT_FALSE(writer->idle());
  Settle(*writer);
  writer->Add("three");
  Settle(*writer);
  EXPECT_TRUE(writer->idle());
  EXPECT_THAT(LinesOf("/audit"), ElementsAre("one", "two", "three"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(AuditWriterTest, AFullFileIsMovedAndTheOldestGoes) {
  const auto writer = Make(8);
  for (int i = 0; i < 6; ++i) {
    writer->Add(absl::StrCat("line-", i, "-x"));  // one line fills a file
    Settle(*writer);
  }
  EXPECT_THAT(LinesOf("/audit"), ElementsAre("line-5-x"));
  EXPECT_THAT(LinesOf("/audit.1"), ElementsAre("line-4-x"));
  EXPECT_THAT(LinesOf("/audit.3"), ElementsAre("line-2-x"));
  EXPECT_FALSE(disk_.Open("/audit.4").ok());
}

TEST_F(AuditWriterTest, AnotherStartOverwritesNothing) {
  {
    const auto writer = Make();
    writer->Add("first");
    Settle(*writer);
  }
  const auto writer = Make();
  writer->Add("second");
  Settle(*writer);
  EXPECT_THAT(LinesOf("/audit"), ElementsAre("second"));
  EXPECT_THAT(LinesOf("/audit.1"), ElementsAre("first"));
}

TEST_F(AuditWriterTest, ADiskThatDoesNotKeepUpCostsLinesNotMemory) {
  const auto writer = Make(1 << 20, 3);
  executor_->stuck = true;
  for (int i = 0; i < 10; ++i) writer->Add(absl::StrCat(i));
  executor_->stuck = false;
  Settle(*writer);
  EXPECT_THAT(LinesOf("/audit"),
              ElementsAre("0", "1", "2", "3", "{\"lost\":6}"));
}

TEST_F(AuditWriterTest, AFullDiskIsToldOnceAndTriedAgain) {
  const auto writer = Make();
  disk_.SetCapacity(2);
  for (const char* line : {"aaaa", "bbbb", "cccc"}) {
    writer->Add(line);
    Settle(*writer);
  }
  EXPECT_TRUE(writer->idle()) << "nothing that is worth waiting for";
  EXPECT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("account"));
  disk_.SetCapacity(1 << 20);
  writer->Add("dddd");
  Settle(*writer);
  EXPECT_TRUE(writer->idle());
  EXPECT_THAT(LinesOf("/audit"), ElementsAre("aa", "dddd", "{\"lost\":3}"));
}

TEST_F(AuditWriterTest, ADiskWithoutRoomForANewFileCostsNoOldOne) {
  const auto writer = Make(8);
  for (int i = 0; i < 4; ++i) {
    writer->Add(absl::StrCat("line-", i, "-x"));  // one line fills a file
    Settle(*writer);
  }
  disk_.creates = false;
  for (int i = 4; i < 12; ++i) {
    writer->Add(absl::StrCat("line-", i, "-x"));
    Settle(*writer);
  }
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("no new file")));
  // The first try moved them to make room for what could not be made.
  EXPECT_THAT(LinesOf("/audit.1"), ElementsAre("line-3-x"));
  EXPECT_THAT(LinesOf("/audit.2"), ElementsAre("line-2-x"));
  EXPECT_THAT(LinesOf("/audit.3"), ElementsAre("line-1-x"));
  disk_.creates = true;
  writer->Add("last");
  Settle(*writer);
  EXPECT_THAT(LinesOf("/audit"), ElementsAre("last", "{\"lost\":8}"));
  EXPECT_THAT(LinesOf("/audit.1"), ElementsAre("line-3-x"));
}

TEST_F(AuditWriterTest, AGapTakesTheFileBeforeIt) {
  for (const char* end : {"", ".1", ".3"})
    ASSERT_TRUE(WriteWholeFile(disk_, absl::StrCat("/audit", end), end).ok());
  const auto writer = Make();
  EXPECT_THAT(LinesOf("/audit.2"), ElementsAre(".1"));
  EXPECT_THAT(LinesOf("/audit.3"), ElementsAre(".3")) << "nothing had to go";
}

TEST_F(AuditWriterTest, TheFirstLineIsThereAtOnceAndOnlyOnce) {
  first_line_ = "first";
  const auto writer = Make(8);
  EXPECT_THAT(LinesOf("/audit"), ElementsAre("first"));
  for (const char* line : {"second", "third"}) {
    writer->Add(line);
    Settle(*writer);
  }
  EXPECT_THAT(LinesOf("/audit.1"), ElementsAre("first", "second"));
  EXPECT_THAT(LinesOf("/audit"), ElementsAre("third"));
}

TEST_F(AuditWriterTest, AFileThatCannotBeIsSaidAtOnce) {
  const auto writer =
      AuditWriter::Create({.path = "/no/such/folder/audit"}, &disk_,
                          MakeInlineExecutor(), [](const std::string&) {});
  EXPECT_FALSE(writer.ok());
}

}  // namespace
}  // namespace parapet
