#include "common/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "common/memory_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/temp_dir.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const std::byte> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// What every Disk promises, for both of them.
class DiskTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      root_ = temp_.emplace().path();
      disk_ = MakePosixDisk();
    } else {
      root_ = "/root";
      disk_ = std::make_unique<MemoryDisk>();
      ASSERT_TRUE(disk_->MakeDir(root_).ok());
    }
  }

  std::optional<TempDir> temp_;
  std::string root_;
  std::unique_ptr<Disk> disk_;
};

TEST_P(DiskTest, WritesAndReadsAtAnyPosition) {
  const std::string path = root_ + "/file";
  auto writer = disk_->Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(AsBytes("hello ")).ok());
  ASSERT_TRUE((*writer)->Append({}).ok());
  ASSERT_TRUE((*writer)->Append(AsBytes("world")).ok());
  ASSERT_TRUE((*writer)->SyncAndClose().ok());
  auto reader = disk_->Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->size(), 11);
  std::string out(5, '?');
  auto* bytes = reinterpret_cast<std::byte*>(out.data());
  ASSERT_TRUE((*reader)->Read(6, {bytes, 5}).ok());
  EXPECT_EQ(out, "world");
  EXPECT_TRUE((*reader)->Read(11, {}).ok());
  const absl::Status beyond = (*reader)->Read(7, {bytes, 5});
  EXPECT_TRUE(absl::IsDataLoss(beyond)) << beyond;
  EXPECT_THAT(std::string(beyond.message()), HasSubstr(path));
}

TEST_P(DiskTest, MakesFoldersWithParentsAndListsSorted) {
  ASSERT_TRUE(disk_->MakeDir(root_ + "/a/b/c").ok());
  ASSERT_TRUE(disk_->MakeDir(root_ + "/a/b/c").ok());
  ASSERT_TRUE(WriteWholeFile(*disk_, root_ + "/a/z", "1").ok());
  ASSERT_TRUE(WriteWholeFile(*disk_, root_ + "/a/A", "2").ok());
  EXPECT_THAT(disk_->List(root_ + "/a").value(), ElementsAre("A", "b", "z"));
  EXPECT_TRUE(absl::IsNotFound(disk_->List(root_ + "/none").status()));
  EXPECT_TRUE(disk_->SyncDir(root_ + "/a").ok());
  EXPECT_FALSE(disk_->SyncDir(root_ + "/none").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(disk_->MakeDir(root_ + "/a/z")));
}

TEST_P(DiskTest, RenameReplacesAFileButNotAFullFolder) {
  ASSERT_TRUE(WriteWholeFile(*disk_, root_ + "/old", "old").ok());
  ASSERT_TRUE(WriteWholeFile(*disk_, root_ + "/new", "new").ok());
  ASSERT_TRUE(disk_->Rename(root_ + "/new", root_ + "/old").ok());
  EXPECT_EQ(ReadWholeFile(*disk_, root_ + "/old", 10).value(), "new");
  EXPECT_TRUE(absl::IsNotFound(disk_->Open(root_ + "/new").status()));
  EXPECT_TRUE(absl::IsNotFound(disk_->Rename(root_ + "/new", root_ + "/x")));
  for (std::string folder : {"/p", "/q"}) {
    ASSERT_TRUE(disk_->MakeDir(root_ + folder).ok());
    ASSERT_TRUE(WriteWholeFile(*disk_, root_ + folder + "/f", folder).ok());
  }
  EXPECT_FALSE(disk_->Rename(root_ + "/p", root_ + "/q").ok());
  EXPECT_EQ(ReadWholeFile(*disk_, root_ + "/q/f", 10).value(), "/q");
  ASSERT_TRUE(disk_->Rename(root_ + "/p", root_ + "/r").ok());
  EXPECT_EQ(ReadWholeFile(*disk_, root_ + "/r/f", 10).value(), "/p");
}

TEST_P(DiskTest, RemoveAllTakesEverythingAndWhatIsNotThere) {
  ASSERT_TRUE(disk_->MakeDir(root_ + "/a/b").ok());
  ASSERT_TRUE(WriteWholeFile(*disk_, root_ + "/a/b/f", "x").ok());
  EXPECT_TRUE(disk_->RemoveAll(root_ + "/a").ok());
  EXPECT_TRUE(disk_->List(root_).value().empty());
  EXPECT_TRUE(disk_->RemoveAll(root_ + "/a").ok());
}

TEST_P(DiskTest, ErrorsNameThePath) {
  const std::string path = root_ + "/no/such";
  EXPECT_THAT(std::string(disk_->Create(path).status().message()),
              HasSubstr(root_ + "/no"));
  EXPECT_THAT(std::string(disk_->Open(path).status().message()),
              HasSubstr(path));
  EXPECT_TRUE(absl::IsInvalidArgument(disk_->Open(root_).status()));
}

TEST_P(DiskTest, WholeFilesHaveALimit) {
  const std::string path = root_ + "/file";
  ASSERT_TRUE(WriteWholeFile(*disk_, path, "12345").ok());
  EXPECT_EQ(ReadWholeFile(*disk_, path, 5).value(), "12345");
  EXPECT_TRUE(
      absl::IsResourceExhausted(ReadWholeFile(*disk_, path, 4).status()));
  ASSERT_TRUE(ReplaceFile(*disk_, path, "").ok());
  EXPECT_EQ(ReadWholeFile(*disk_, path, 0).value(), "");
  EXPECT_THAT(disk_->List(root_).value(), ElementsAre("file"));
}

INSTANTIATE_TEST_SUITE_P(Both, DiskTest, ::testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Posix" : "Memory";
                         });

TEST(PosixDiskTest, APipeIsRefusedWithoutWaiting) {
  const TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(MakePosixDisk()->Open(pipe).status()));
}

TEST(PosixDiskTest, AFullDiskIsToldInWords) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  auto file = MakePosixDisk()->Create("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = (*file)->Append(AsBytes("x"));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full"));
}

TEST(ParentPathTest, AllForms) {
  EXPECT_EQ(ParentPath("a"), ".");
  EXPECT_EQ(ParentPath("a/"), ".");
  EXPECT_EQ(ParentPath("a/b"), "a");
  EXPECT_EQ(ParentPath("/a/b//"), "/a");
  EXPECT_EQ(ParentPath("/a//b"), "/a");
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("//"), "/");
  EXPECT_EQ(ParentPath(""), ".");
}

}  // namespace
}  // namespace parapet
