#include "common/memory_disk.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSeeds = 200;

std::string ReadOr(Disk& disk, const std::string& path,
                   const std::string& other) {
  return ReadWholeFile(disk, path, 1000).value_or(other);
}

void AppendUnsynced(Disk& disk, const std::string& path,
                    absl::string_view text) {
  auto file = disk.Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)
                  ->Append({reinterpret_cast<const std::byte*>(text.data()),
                            text.size()})
                  .ok());
}

TEST(MemoryDiskTest, SyncedFilesInSyncedFoldersOutliveCrashes) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    MemoryDisk disk;
    ASSERT_TRUE(disk.MakeDir("/d").ok());
    ASSERT_TRUE(WriteWholeFile(disk, "/d/f", "content").ok());
    ASSERT_TRUE(disk.SyncDir("/d").ok());
    disk.Crash(seed);
    ASSERT_EQ(ReadOr(disk, "/d/f", "lost"), "content") << "seed " << seed;
  }
}

TEST(MemoryDiskTest, UnsyncedEntriesAreSometimesLostAndSometimesKept) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    MemoryDisk disk;
    ASSERT_TRUE(disk.MakeDir("/d").ok());
    ASSERT_TRUE(WriteWholeFile(disk, "/d/f", "old").ok());
    ASSERT_TRUE(disk.SyncDir("/d").ok());
    ASSERT_TRUE(WriteWholeFile(disk, "/d/t", "new").ok());
    ASSERT_TRUE(disk.Rename("/d/t", "/d/f").ok());
    disk.Crash(seed);
    seen.insert(ReadOr(disk, "/d/f", "lost"));
  }
  EXPECT_THAT(
      seen,
      ElementsAre("new", "old"));  // a rename is atomic, so it is never lost
}

TEST(MemoryDiskTest, UnsyncedFilesAreTorn) {
  std::set<size_t> sizes;
  bool zeroed = false;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    MemoryDisk disk;
    ASSERT_NO_FATAL_FAILURE(AppendUnsynced(disk, "/f", "abcdefgh"));
    ASSERT_TRUE(disk.SyncDir("/").ok());
    disk.Crash(seed);
    const std::string content = ReadOr(disk, "/f", "lost");
    ASSERT_NE(content, "lost") << "seed " << seed;
    sizes.insert(content.size());
    zeroed = zeroed || content.find('\0') != std::string::npos;
  }
  EXPECT_EQ(sizes.size(), 9u);
  EXPECT_TRUE(zeroed);
}

TEST(MemoryDiskTest, RemovedFilesMayComeBack) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    MemoryDisk disk;
    ASSERT_TRUE(disk.MakeDir("/d/e").ok());
    ASSERT_TRUE(WriteWholeFile(disk, "/d/e/f", "x").ok());
    ASSERT_TRUE(disk.SyncDir("/d/e").ok());
    ASSERT_TRUE(disk.RemoveAll("/d/e").ok());
    disk.Crash(seed);
    auto names = disk.List("/d/e");
    seen.insert(!names.ok() ? "gone" : names->empty() ? "empty" : "whole");
  }
  EXPECT_THAT(seen, ElementsAre("empty", "gone", "whole"));
}

TEST(MemoryDiskTest, OpenFilesDoNotOutliveACrash) {
  MemoryDisk disk;
  ASSERT_TRUE(WriteWholeFile(disk, "/f", "x").ok());
  ASSERT_TRUE(disk.SyncDir("/").ok());
  auto reader = disk.Open("/f");
  auto writer = disk.Create("/g");
  ASSERT_TRUE(reader.ok() && writer.ok());
  disk.Crash(1);
  std::byte byte;
  EXPECT_FALSE((*reader)->Read(0, {&byte, 1}).ok());
  EXPECT_FALSE((*writer)->Append({&byte, 1}).ok());
  EXPECT_FALSE((*writer)->SyncAndClose().ok());
}

TEST(MemoryDiskTest, TheChosenOperationFailsOnce) {
  MemoryDisk disk;
  disk.FailAfter(2);  // create, append, then the sync
  EXPECT_TRUE(absl::IsInternal(WriteWholeFile(disk, "/f", "x")));
  EXPECT_EQ(disk.operations(), 3);
  EXPECT_TRUE(WriteWholeFile(disk, "/f", "x").ok());
}

TEST(MemoryDiskTest, NothingWorksBetweenStopAndCrash) {
  MemoryDisk disk;
  disk.StopAfter(1);
  EXPECT_TRUE(disk.MakeDir("/d").ok());
  EXPECT_TRUE(absl::IsUnavailable(disk.MakeDir("/e")));
  EXPECT_TRUE(absl::IsUnavailable(disk.List("/").status()));
  disk.Crash(1);
  EXPECT_THAT(disk.List("/").value(), ElementsAre("d"));
}

TEST(MemoryDiskTest, AFullDiskTakesWhatFits) {
  MemoryDisk disk;
  disk.SetCapacity(5);
  ASSERT_TRUE(WriteWholeFile(disk, "/a", "123").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(WriteWholeFile(disk, "/b", "456")));
  EXPECT_EQ(ReadOr(disk, "/b", "lost"), "45");
  ASSERT_TRUE(disk.RemoveAll("/a").ok());
  EXPECT_TRUE(WriteWholeFile(disk, "/b", "45678").ok());
}

TEST(MemoryDiskTest, DamageIsDone) {
  MemoryDisk disk;
  ASSERT_TRUE(WriteWholeFile(disk, "/a", "abc").ok());
  EXPECT_TRUE(disk.FlipBits("/a", 1, 'b' ^ 'x'));
  EXPECT_TRUE(disk.Truncate("/a", 2));
  EXPECT_EQ(ReadOr(disk, "/a", "lost"), "ax");
  EXPECT_FALSE(disk.FlipBits("/a", 2, 1));
  EXPECT_FALSE(disk.Truncate("/none", 0));
}

}  // namespace
}  // namespace parapet
