// Snapshots on disks that fail, fill up, lose power and rot.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/memory_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/checkpoint_testing.h"

namespace parapet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSeeds = 3;  // crashes for each operation
constexpr int kMostOperations = 1000;

// What a second snapshot follows, and what it is.
struct Scenario {
  uint64_t old_version, new_version;
  int keep;
};

void WriteOld(MemoryDisk& disk, const Scenario& scenario) {
  const absl::Status status = WriteToySnapshot(disk, "/s", scenario.old_version,
                                               2, /*seed=*/1, scenario.keep);
  ASSERT_TRUE(status.ok()) << status;
}

absl::Status WriteNew(MemoryDisk& disk, const Scenario& scenario) {
  return WriteToySnapshot(disk, "/s", scenario.new_version, 3, /*seed=*/2,
                          scenario.keep);
}

// 1 or 2: the seed of the state that FindSnapshot gives, checked whole; 0 if
// none.
int FoundState(MemoryDisk& disk) {
  const absl::StatusOr<Snapshot> found = FindSnapshot(disk, "/s", nullptr);
  if (!found.ok()) return 0;
  if (HoldsToyState(disk, *found, 1)) return 1;
  return HoldsToyState(disk, *found, 2) ? 2 : 0;
}

void ExpectTidy(MemoryDisk& disk, const Scenario& scenario) {
  const std::vector<std::string> names = disk.List("/s").value();
  for (const std::string& name : names) {
    EXPECT_TRUE(name == "latest" ||
                name == SnapshotName(scenario.old_version) ||
                name == SnapshotName(scenario.new_version))
        << name;
  }
}

// The power fails before operation `n` of writing the new snapshot. Returns
// whether it was written.
bool CrashAt(int n, uint64_t seed, const Scenario& scenario) {
  SCOPED_TRACE(absl::StrCat("operation ", n, ", seed ", seed));
  MemoryDisk disk;
  WriteOld(disk, scenario);
  disk.StopAfter(n);
  const bool written = WriteNew(disk, scenario).ok();
  disk.Crash(seed);
  const int state = FoundState(disk);
  EXPECT_NE(state, 0) << "neither the old snapshot nor the new one";
  if (written) {
    EXPECT_EQ(state, 2) << "the new snapshot was promised";
  }
  // Whatever was left behind does not hinder the next attempt.
  const absl::Status again = WriteNew(disk, scenario);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_EQ(FoundState(disk), 2);
  ExpectTidy(disk, scenario);
  return written;
}

class CrashTest : public ::testing::TestWithParam<Scenario> {};

TEST_P(CrashTest, AtEveryOperationTheOldSnapshotOrTheNewOneIsWhole) {
  int first_written = -1;
  int n = 0;
  for (; n < kMostOperations && !::testing::Test::HasFailure(); ++n) {
    int written = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed)
      written += CrashAt(n, n * 1000 + seed, GetParam());
    if (written > 0 && first_written < 0) first_written = n;
    // Some operations more: there may be something to remove after success was
    // certain.
    if (first_written >= 0 && n > first_written + 20) break;
  }
  EXPECT_GT(first_written, 30) << "crashed too few times to mean anything";
}

TEST_P(CrashTest, AtEveryErrorTheOldSnapshotOrTheNewOneIsWhole) {
  for (int n = 0; n < kMostOperations; ++n) {
    SCOPED_TRACE(absl::StrCat("operation ", n));
    MemoryDisk disk;
    WriteOld(disk, GetParam());
    const int64_t before = disk.operations();
    disk.FailAfter(n);
    const absl::Status status = WriteNew(disk, GetParam());
    const bool reached = disk.operations() - before > n;
    disk.ClearFaults();
    const int state = FoundState(disk);
    ASSERT_NE(state, 0);
    if (status.ok()) {
      ASSERT_EQ(state, 2);
    }
    ASSERT_TRUE(WriteNew(disk, GetParam()).ok());
    ASSERT_EQ(FoundState(disk), 2);
    ExpectTidy(disk, GetParam());
    if (!reached) return;
  }
  FAIL() << "never done";
}

TEST_P(CrashTest, AFullDiskLeavesTheOldSnapshot) {
  int failures = 0;
  for (int64_t capacity = 0; capacity < 40000; capacity += 401) {
    MemoryDisk disk;
    WriteOld(disk, GetParam());
    disk.SetCapacity(capacity);
    const absl::Status status = WriteNew(disk, GetParam());
    const int state = FoundState(disk);
    ASSERT_NE(state, 0);
    if (status.ok()) {
      ASSERT_EQ(state, 2);
      continue;
    }
    ++failures;
    ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_GT(failures, 10);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, CrashTest,
                         ::testing::Values(Scenario{5, 6, 2}, Scenario{5, 6, 1},
                                           Scenario{5, 5, 1},
                                           Scenario{5, 4, 1}),
                         [](const auto& test) {
                           return absl::StrCat("From", test.param.old_version,
                                               "To", test.param.new_version,
                                               "Keep", test.param.keep);
                         });

TEST(RotTest, EveryFlippedByteIsNoticedAndTheOlderSnapshotUsed) {
  const std::string folder = "/s/" + SnapshotName(2);
  MemoryDisk disk;
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 1, 2, 1).ok());
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 2, 2, 2).ok());
  const std::vector<std::string> names = disk.List(folder).value();
  ASSERT_EQ(names.size(), 4u);
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    const int64_t size = disk.Open(path).value()->size();
    for (int64_t at = 0; at < size; ++at) {
      const uint8_t mask = static_cast<uint8_t>(1 << at % 8);
      ASSERT_TRUE(disk.FlipBits(path, at, mask));
      const absl::Status status = OpenSnapshot(disk, folder).status();
      ASSERT_TRUE(absl::IsDataLoss(status))
          << name << " byte " << at << ": " << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr(name));
      ASSERT_TRUE(disk.FlipBits(path, at, mask));
    }
    ASSERT_TRUE(disk.FlipBits(path, size / 2, 1));
    std::vector<std::string> passed_over;
    const absl::StatusOr<Snapshot> found =
        FindSnapshot(disk, "/s", &passed_over);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->manifest.version, 1u);
    EXPECT_THAT(passed_over, ElementsAre(HasSubstr(path)));
    ASSERT_TRUE(disk.FlipBits(path, size / 2, 1));
  }
  EXPECT_EQ(FindSnapshot(disk, "/s", nullptr)->manifest.version, 2u);
}

TEST(RotTest, EveryCutIsNoticed) {
  const std::string folder = "/s/" + SnapshotName(2);
  MemoryDisk disk;
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 2, 2, 2).ok());
  const std::vector<std::string> names = disk.List(folder).value();
  ASSERT_EQ(names.size(), 4u);
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    const std::string whole = ReadWholeFile(disk, path, 100000).value();
    // The manifest's last byte is a newline, which nobody needs.
    for (int64_t size = static_cast<int64_t>(whole.size()) - 2; size >= 0;
         --size) {
      ASSERT_TRUE(disk.Truncate(path, size));
      ASSERT_TRUE(absl::IsDataLoss(OpenSnapshot(disk, folder).status()))
          << name << " " << size;
    }
    ASSERT_TRUE(WriteWholeFile(disk, path, whole).ok());
  }
  ASSERT_TRUE(OpenSnapshot(disk, folder).ok());
}

TEST(RotTest, AMissingFileIsNoticed) {
  const std::string folder = "/s/" + SnapshotName(2);
  for (const char* name :
       {"server-0.safetensors", "worker-3.safetensors", "manifest.json"}) {
    MemoryDisk disk;
    ASSERT_TRUE(WriteToySnapshot(disk, "/s", 2, 2, 2).ok());
    ASSERT_TRUE(disk.RemoveAll(absl::StrCat(folder, "/", name)).ok());
    std::vector<std::string> passed_over;
    EXPECT_TRUE(
        absl::IsNotFound(FindSnapshot(disk, "/s", &passed_over).status()));
    EXPECT_THAT(passed_over, ElementsAre(HasSubstr(name)));
  }
}

TEST(RotTest, ATornFileFoundWhileReadingIsDataLoss) {
  const std::string path = "/s/" + SnapshotName(2) + "/server-0.safetensors";
  const Layout layout = ToyLayout();
  std::vector<float> out(layout.elements());
  for (bool gone : {false, true}) {
    MemoryDisk disk;
    ASSERT_TRUE(WriteToySnapshot(disk, "/s", 2, 2, 2).ok());
    const Snapshot snapshot = FindSnapshot(disk, "/s", nullptr).value();
    ASSERT_TRUE(gone ? disk.RemoveAll(path).ok() : disk.Truncate(path, 100));
    const absl::Status status =
        ReadSection(disk, snapshot, layout, "server-", "weights",
                    {0, layout.elements()}, out.data());
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

TEST(CommitTest, WhatIsNotAsTheManifestSaysIsNotMadeVisible) {
  const Layout layout = ToyLayout();
  for (int change = 0; change < 4; ++change) {
    MemoryDisk disk;
    ASSERT_TRUE(WriteToySnapshot(disk, "/s", 1, 2, 1, 1).ok());
    Manifest manifest =
        WriteToyFiles(disk, "/s", layout, 2, 2, ToyState(layout, 2)).value();
    if (change == 0) manifest.files[0].hash ^= 1;
    if (change == 1) manifest.files[0].bytes += 1;
    if (change == 2) manifest.files.push_back({"server-9.safetensors", 8, 0});
    if (change == 3) manifest.layout_hash ^= 1;
    EXPECT_FALSE(CommitSnapshot(disk, "/s", manifest, 1).ok()) << change;
    EXPECT_EQ(FoundState(disk), 1) << change;
    EXPECT_EQ(ReadLatest(disk, "/s").value(), SnapshotName(1));
  }
}

TEST(CommitTest, FilesOfAnEarlierAttemptAreRemoved) {
  MemoryDisk disk;
  ASSERT_TRUE(disk.MakeDir(PartialPath("/s", 2)).ok());
  ASSERT_TRUE(
      WriteWholeFile(disk, PartialPath("/s", 2) + "/server-7.safetensors", "x")
          .ok());
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 2, 1, 2).ok());
  EXPECT_THAT(disk.List("/s/" + SnapshotName(2)).value(),
              ElementsAre("manifest.json", "server-0.safetensors",
                          "worker-3.safetensors"));
}

TEST(CommitTest, TheNewestAreKept) {
  MemoryDisk disk;
  ASSERT_TRUE(disk.MakeDir("/s/notes").ok());  // not ours: stays
  for (uint64_t version : {10, 20, 30, 40}) {
    ASSERT_TRUE(disk.MakeDir(PartialPath("/s", version - 1)).ok());
    ASSERT_TRUE(WriteToySnapshot(disk, "/s", version, 1, version, 2).ok());
  }
  EXPECT_THAT(
      disk.List("/s").value(),
      ElementsAre("latest", "notes", SnapshotName(30), SnapshotName(40)));
  const Layout layout = ToyLayout();
  const Manifest manifest =
      WriteToyFiles(disk, "/s", layout, 50, 1, ToyState(layout, 1)).value();
  EXPECT_TRUE(absl::IsInvalidArgument(CommitSnapshot(disk, "/s", manifest, 0)));
}

TEST(CommitTest, AfterGoingBackTheOneThatLatestNamesIsKept) {
  MemoryDisk disk;
  for (uint64_t version : {10, 20, 30}) {
    ASSERT_TRUE(WriteToySnapshot(disk, "/s", version, 1, version, 3).ok());
  }
  ASSERT_TRUE(
      disk.MakeDir(PartialPath("/s", 40)).ok());  // a later one in the making
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 15, 1, 15, 1).ok());
  EXPECT_THAT(disk.List("/s").value(),
              ElementsAre("latest", SnapshotName(15), SnapshotName(20),
                          SnapshotName(30), SnapshotName(40) + ".partial"));
  EXPECT_EQ(FindSnapshot(disk, "/s", nullptr)->manifest.version, 15u);
}

TEST(CommitTest, WhatCannotBeRemovedIsAWarning) {
  const Layout layout = ToyLayout();
  MemoryDisk disk;
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 1, 1, 1, 1).ok());
  const Manifest manifest =
      WriteToyFiles(disk, "/s", layout, 2, 1, ToyState(layout, 2)).value();
  // The last operation of a commit removes a folder; how many there are is
  // counted on a twin.
  MemoryDisk twin;
  ASSERT_TRUE(WriteToySnapshot(twin, "/s", 1, 1, 1, 1).ok());
  ASSERT_TRUE(
      WriteToyFiles(twin, "/s", layout, 2, 1, ToyState(layout, 2)).ok());
  const int64_t before = twin.operations();
  ASSERT_TRUE(CommitSnapshot(twin, "/s", manifest, 1).ok());
  disk.FailAfter(twin.operations() - before - 1);
  std::vector<std::string> warnings;
  EXPECT_TRUE(CommitSnapshot(disk, "/s", manifest, 1, &warnings).ok());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr(SnapshotName(1))));
  EXPECT_THAT(disk.List("/s").value(), Contains(SnapshotName(1) + ".partial"));
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 3, 1, 3, 1).ok());
  EXPECT_THAT(disk.List("/s").value(), ElementsAre("latest", SnapshotName(3)));
}

TEST(FindSnapshotTest, LatestDecidesAndMayBeMissingOrNonsense) {
  MemoryDisk disk;
  for (uint64_t version : {1, 2, 3}) {
    ASSERT_TRUE(WriteToySnapshot(disk, "/s", version, 1, version).ok());
  }
  const auto found = [&](std::vector<std::string>* passed_over) {
    return FindSnapshot(disk, "/s", passed_over)->manifest.version;
  };
  std::vector<std::string> passed_over;
  ASSERT_TRUE(WriteWholeFile(disk, "/s/latest", SnapshotName(2)).ok());
  EXPECT_EQ(found(&passed_over), 2u);
  ASSERT_TRUE(disk.RemoveAll("/s/latest").ok());
  EXPECT_EQ(found(&passed_over), 3u);
  EXPECT_THAT(passed_over, IsEmpty());
  for (std::string nonsense :
       {std::string("../../etc"), std::string("step-1"), std::string(),
        SnapshotName(9), SnapshotName(2) + ".partial", std::string(5000, 'x'),
        std::string("\0\n", 2)}) {
    passed_over.clear();
    ASSERT_TRUE(WriteWholeFile(disk, "/s/latest", nonsense).ok());
    EXPECT_EQ(found(&passed_over), 3u);
    EXPECT_THAT(passed_over, ElementsAre(HasSubstr("/s/latest")));
  }
}

TEST(FindSnapshotTest, AFolderOfAnotherVersionThanItsNameIsPassedOver) {
  MemoryDisk disk;
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 1, 1, 1).ok());
  ASSERT_TRUE(
      disk.Rename("/s/" + SnapshotName(1), "/s/" + SnapshotName(2)).ok());
  std::vector<std::string> passed_over;
  EXPECT_TRUE(
      absl::IsNotFound(FindSnapshot(disk, "/s", &passed_over).status()));
  EXPECT_THAT(passed_over, Contains(HasSubstr("holds version 1")));
  EXPECT_TRUE(OpenSnapshot(disk, "/s/" + SnapshotName(2))
                  .ok());  // named outright it may be used
}

TEST(FindSnapshotTest, NoFolderOrAnEmptyOneIsNotFound) {
  MemoryDisk disk;
  EXPECT_TRUE(absl::IsNotFound(FindSnapshot(disk, "/s", nullptr).status()));
  ASSERT_TRUE(disk.MakeDir(PartialPath("/s", 1)).ok());
  std::vector<std::string> passed_over;
  EXPECT_TRUE(
      absl::IsNotFound(FindSnapshot(disk, "/s", &passed_over).status()));
  EXPECT_THAT(passed_over, IsEmpty());
}

}  // namespace
}  // namespace parapet
