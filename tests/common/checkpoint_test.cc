#include "common/checkpoint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/memory_disk.h"
#include "common/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/checkpoint_testing.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Words(const absl::Status& status) {
  return std::string(status.message());
}

TEST(SnapshotNameTest, IsWideEnoughToSort) {
  EXPECT_EQ(SnapshotName(123), "step-000000000123");
  EXPECT_EQ(SnapshotName(~uint64_t{0}), "step-18446744073709551615");
  EXPECT_EQ(PartialPath("d", 1), "d/step-000000000001.partial");
}

TEST(CheckpointTest, TheManifestComesBack) {
  MemoryDisk disk;
  const Layout layout = ToyLayout();
  const Manifest written =
      WriteToyFiles(disk, "/s", layout, 7, 2, ToyState(layout, 1)).value();
  ASSERT_TRUE(CommitSnapshot(disk, "/s", written, 1).ok());
  const Snapshot found = FindSnapshot(disk, "/s", nullptr).value();
  EXPECT_EQ(found.path, "/s/step-000000000007");
  EXPECT_EQ(found.manifest.version, 7u);
  EXPECT_EQ(found.manifest.layout_hash, layout.hash());
  EXPECT_EQ(found.manifest.job, written.job);
  EXPECT_EQ(found.manifest.weights_hash, written.weights_hash);
  EXPECT_EQ(found.manifest.epoch, 3u);
  EXPECT_EQ(found.manifest.position, 60000u);
  EXPECT_EQ(found.manifest.term, ~uint64_t{0});
  EXPECT_EQ(found.manifest.lead_state, written.lead_state);
  EXPECT_EQ(found.manifest.files, written.files);
  EXPECT_EQ(Layout::Create(found.manifest.tensors)->hash(), layout.hash());
}

TEST(CheckpointTest, LoadsWithAnyNumberOfServers) {
  const Layout layout = ToyLayout();
  for (int writers : {1, 2, 3, 9}) {  // 9: some servers own nothing
    MemoryDisk disk;
    ASSERT_TRUE(WriteToySnapshot(disk, "/s", 1, writers, 5).ok());
    const Snapshot snapshot = FindSnapshot(disk, "/s", nullptr).value();
    EXPECT_TRUE(HoldsToyState(disk, snapshot, 5)) << writers;
    const std::vector<float> expected = ToyState(layout, 5).moment;
    const auto reader =
        SectionReader::Create(disk, snapshot, layout, "server-").value();
    // Every range there is, so those of any number of servers too.
    for (int64_t begin = 0; begin <= layout.elements(); ++begin) {
      for (int64_t end = begin; end <= layout.elements(); ++end) {
        std::vector<float> out(end - begin);
        ASSERT_TRUE(reader.Read("moment1", {begin, end}, out.data()).ok())
            << begin << " " << end;
        ASSERT_TRUE(
            SameBits(out, {expected.begin() + begin, expected.begin() + end}));
      }
    }
  }
}

TEST(CheckpointTest, PiecesAreNamedAfterTensorsAndWholeOnesKeepTheirShape) {
  MemoryDisk disk;
  const Layout layout = ToyLayout();
  const std::vector<float> values = ToyValues(layout.elements(), 1);
  const auto entry =
      WriteShardFile(disk, "/p", "server-0.safetensors", layout,
                     {{"weights",
                       {{30, 38}, {38, 48}},
                       {values.data() + 30, values.data() + 38}}});
  ASSERT_TRUE(entry.ok()) << entry.status();
  const auto file =
      SafetensorsReader::Open(disk, "/p/server-0.safetensors").value();
  std::vector<std::string> found;
  for (const SafeTensor& tensor : file.tensors()) {
    found.push_back(absl::StrCat(tensor.name, ":", tensor.shape.size()));
  }
  EXPECT_THAT(found,
              ElementsAre("weights/fc1.weight/30-35:1", "weights/scale/0-1:0",
                          "weights/fc1.bias/0-2:1", "weights/fc1.bias/2-7:1",
                          "weights/a/b-1/2-3/0-4:3", "weights/last/0-1:1"));
}

TEST(CheckpointTest, TheEntrySaysSizeAndHashOfTheFile) {
  MemoryDisk disk;
  const Layout layout = ToyLayout();
  const FileEntry entry =
      WriteShardFile(disk, "/p", "server-0.safetensors", layout, {}).value();
  const std::string text =
      ReadWholeFile(disk, "/p/server-0.safetensors", 10000).value();
  EXPECT_EQ(entry.name, "server-0.safetensors");
  EXPECT_EQ(entry.bytes, static_cast<int64_t>(text.size()));
  EXPECT_EQ(entry.hash, HashBytes(text.data(), text.size()));
}

TEST(CheckpointTest, WrongSectionsAreRefused) {
  MemoryDisk disk;
  const Layout layout = ToyLayout();
  const float* values = nullptr;
  const std::vector<Section> wrong = {
      {"", {}, {}},
      {"a/b", {}, {}},
      {"weights", {{0, 1}}, {}},
      {"weights", {{-1, 1}}, {values}},
      {"weights", {{0, layout.elements() + 1}}, {values}},
      {"weights", {{4, 3}}, {values}},
      {"weights", {{0, 4}, {3, 5}}, {values, values}},
      {"weights", {{4, 6}, {0, 2}}, {values, values}},
  };
  for (const Section& section : wrong) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        WriteShardFile(disk, "/p", "server-0.safetensors", layout, {section})
            .status()));
  }
  for (const char* name : {"", "server-0", "../x.safetensors",
                           "a/b.safetensors", ".safetensors"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        WriteShardFile(disk, "/p", name, layout, {}).status()));
  }
}

// Commits a snapshot of one server file that holds `sections`.
Snapshot CommitSections(Disk& disk,
                        const std::vector<std::vector<Section>>& files) {
  const Layout layout = ToyLayout();
  Manifest manifest;
  manifest.version = 1;
  manifest.layout_hash = layout.hash();
  manifest.tensors = ToyTensors();
  for (size_t i = 0; i < files.size(); ++i) {
    manifest.files.push_back(
        WriteShardFile(disk, PartialPath("/s", 1),
                       absl::StrCat("server-", i, ".safetensors"), layout,
                       files[i])
            .value());
  }
  EXPECT_TRUE(CommitSnapshot(disk, "/s", manifest, 1).ok());
  return FindSnapshot(disk, "/s", nullptr).value();
}

TEST(ReadSectionTest, NamesTheElementThatIsMissing) {
  MemoryDisk disk;
  const Layout layout = ToyLayout();
  const std::vector<float> values(8, 1);
  const Snapshot snapshot = CommitSections(
      disk, {{{"weights", {{0, 4}, {6, 8}}, {values.data(), values.data()}}}});
  std::vector<float> out(8);
  EXPECT_TRUE(ReadSection(disk, snapshot, layout, "server-", "weights", {6, 8},
                          out.data())
                  .ok());
  absl::Status status = ReadSection(disk, snapshot, layout, "server-",
                                    "weights", {2, 8}, out.data());
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(Words(status), HasSubstr("fc1.weight[4]"));
  status = ReadSection(disk, snapshot, layout, "server-", "weights", {7, 9},
                       out.data());
  EXPECT_THAT(Words(status), HasSubstr("fc1.weight[8]"));
  status = ReadSection(disk, snapshot, layout, "server-", "moment1", {0, 1},
                       out.data());
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  status = ReadSection(disk, snapshot, layout, "worker-", "weights", {0, 1},
                       out.data());
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_TRUE(
      ReadSection(disk, snapshot, layout, "worker-", "weights", {3, 3}, nullptr)
          .ok());
  for (Range range :
       {Range{-1, 1}, Range{2, 1}, Range{0, layout.elements() + 1}}) {
    status = ReadSection(disk, snapshot, layout, "server-", "weights", range,
                         out.data());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

TEST(ReadSectionTest, AnElementInTwoFilesIsRefused) {
  MemoryDisk disk;
  const std::vector<float> values(8, 1);
  const Snapshot snapshot =
      CommitSections(disk, {{{"weights", {{0, 8}}, {values.data()}}},
                            {{"weights", {{7, 9}}, {values.data()}}}});
  float out;
  const absl::Status status = ReadSection(disk, snapshot, ToyLayout(),
                                          "server-", "weights", {0, 1}, &out);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Words(status), HasSubstr("server-0.safetensors"));
  EXPECT_THAT(Words(status), HasSubstr("fc1.weight[7]"));
}

TEST(ReadSectionTest, AnotherModelIsRefused) {
  MemoryDisk disk;
  const Snapshot snapshot = CommitSections(disk, {{}});
  const Layout other = Layout::Create({{"x", {3}, {}}}).value();
  float out;
  const absl::Status status =
      ReadSection(disk, snapshot, other, "server-", "weights", {0, 1}, &out);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// Files that a manifest could name but WriteShardFile does not write.
TEST(ReadSectionTest, StrangeFilesAreRefused) {
  const Layout layout = ToyLayout();
  const std::string hash =
      absl::StrCat(absl::Hex(layout.hash(), absl::kZeroPad16));
  struct Strange {
    SafeTensor tensor;
    std::string layout_hash;
  };
  const std::vector<Strange> cases = {
      {{"weights/last/0-2", "F32", {2}}, "0000000000000000"},
      {{"weights/none/0-2", "F32", {2}}, hash},
      {{"weights/last/0-2", "F32", {3}}, hash},
      {{"weights/last/0-2", "F16", {4}}, hash},
      {{"weights/last/5-7", "F32", {2}}, hash},
      {{"weights/last/-1-1", "F32", {2}}, hash},
      {{"weights/last/+0-2", "F32", {2}}, hash},
      {{"weights/last/2-0", "F32", {2}}, hash},
      {{"weights/last", "F32", {2}}, hash},
      {{"/last/0-2", "F32", {2}}, hash},
      {{"last", "F32", {2}}, hash},
      {{"weights/last/99999999999999999999-2", "F32", {2}}, hash},
  };
  for (const Strange& strange : cases) {
    MemoryDisk disk;
    ASSERT_TRUE(disk.MakeDir("/s").ok());
    auto writer = SafetensorsWriter::Create(
        disk, "/s/server-0.safetensors", {strange.tensor},
        {{"layout_hash", strange.layout_hash}});
    ASSERT_TRUE(writer.ok());
    const int64_t bytes =
        strange.tensor.shape[0] * (strange.tensor.dtype == "F16" ? 2 : 4);
    ASSERT_TRUE(writer->Append(std::vector<std::byte>(bytes)).ok());
    ASSERT_TRUE(writer->Finish().ok());
    Snapshot snapshot{"/s", {}};
    snapshot.manifest.layout_hash = layout.hash();
    snapshot.manifest.files = {
        {"server-0.safetensors", writer->file_bytes(), writer->hash()}};
    float out;
    const absl::Status status =
        ReadSection(disk, snapshot, layout, "server-", "weights", {0, 1}, &out);
    EXPECT_TRUE(absl::IsDataLoss(status))
        << strange.tensor.name << " " << status;
    EXPECT_THAT(Words(status), HasSubstr("server-0.safetensors"));
  }
}

TEST(ExportTest, EveryTensorHasItsNameShapeAndValues) {
  MemoryDisk disk;
  const Layout layout = ToyLayout();
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 1, 3, 9).ok());
  const Snapshot snapshot = FindSnapshot(disk, "/s", nullptr).value();
  ASSERT_TRUE(ExportSnapshot(disk, snapshot, "/model.safetensors").ok());
  const auto file = SafetensorsReader::Open(disk, "/model.safetensors").value();
  const std::vector<float> weights = ToyState(layout, 9).weights;
  ASSERT_EQ(file.tensors().size(), layout.tensors().size());
  for (const Tensor& tensor : layout.tensors()) {
    const SafeTensor* found = file.Find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    std::vector<float> out(tensor.elements);
    ASSERT_TRUE(file.ReadFloats(*found, 0, absl::MakeSpan(out)).ok());
    const auto begin = weights.begin() + tensor.offset;
    EXPECT_TRUE(SameBits(out, {begin, begin + tensor.elements})) << tensor.name;
  }
  EXPECT_THAT(disk.List("/").value(), ElementsAre("model.safetensors", "s"));
}

TEST(ExportTest, AFailureLeavesTheFormerFileAndNoOther) {
  MemoryDisk disk;
  ASSERT_TRUE(WriteToySnapshot(disk, "/s", 1, 3, 9).ok());
  ASSERT_TRUE(WriteWholeFile(disk, "/model.safetensors", "former").ok());
  const Snapshot snapshot = FindSnapshot(disk, "/s", nullptr).value();
  for (int operation = 0; operation < 1000; ++operation) {
    disk.FailAfter(operation);
    if (ExportSnapshot(disk, snapshot, "/model.safetensors").ok()) {
      EXPECT_GT(operation, 10);
      disk.ClearFaults();
      EXPECT_TRUE(SafetensorsReader::Open(disk, "/model.safetensors").ok());
      return;
    }
    EXPECT_THAT(disk.List("/").value(), ElementsAre("model.safetensors", "s"));
  }
  FAIL() << "never done";
}

TEST(ExportTest, WeightsThatAreMissingAreNamed) {
  MemoryDisk disk;
  const std::vector<float> values(8, 1);
  const Snapshot snapshot =
      CommitSections(disk, {{{"weights", {{0, 8}}, {values.data()}}}});
  const absl::Status status =
      ExportSnapshot(disk, snapshot, "/model.safetensors");
  EXPECT_THAT(Words(status), HasSubstr("fc1.weight[8]"));
}

TEST(CheckpointTest, FilesLargerThanAPieceAreHashedAndJoined) {
  // 2.5 pieces of 4 MiB, and a tensor's boundary inside one.
  const Layout layout =
      Layout::Create({{"a", {1000, 1000}, {}}, {"b", {1621440}, {}}}).value();
  std::vector<float> values(layout.elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  MemoryDisk disk;
  Manifest manifest;
  manifest.layout_hash = layout.hash();
  manifest.tensors = {{"a", {1000, 1000}, {}}, {"b", {1621440}, {}}};
  manifest.files.push_back(
      WriteShardFile(disk, PartialPath("/s", 0), "server-0.safetensors", layout,
                     {{"weights", {{0, layout.elements()}}, {values.data()}}})
          .value());
  ASSERT_TRUE(CommitSnapshot(disk, "/s", manifest, 1).ok());
  const Snapshot snapshot = FindSnapshot(disk, "/s", nullptr).value();
  ASSERT_TRUE(ExportSnapshot(disk, snapshot, "/m.safetensors").ok());
  const auto file = SafetensorsReader::Open(disk, "/m.safetensors").value();
  std::vector<float> out(1621440);
  ASSERT_TRUE(file.ReadFloats(*file.Find("b"), 0, absl::MakeSpan(out)).ok());
  EXPECT_TRUE(SameBits(out, {values.begin() + 1000000, values.end()}));
  ASSERT_TRUE(disk.FlipBits("/s/step-000000000000/server-0.safetensors",
                            10'000'000, 1));
  EXPECT_TRUE(absl::IsDataLoss(OpenSnapshot(disk, snapshot.path).status()));
}

TEST(PosixCheckpointTest, WorksOnTheRealDisk) {
  const std::string dir =
      absl::StrCat(::testing::TempDir(), "/parapet_checkpoint_test");
  const std::unique_ptr<Disk> disk = MakePosixDisk();
  ASSERT_TRUE(disk->RemoveAll(dir).ok());
  for (uint64_t version : {1, 2, 2, 3}) {
    const absl::Status status =
        WriteToySnapshot(*disk, dir, version, 2, version, 2);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_THAT(disk->List(dir).value(),
              ElementsAre("latest", "step-000000000002", "step-000000000003"));
  EXPECT_EQ(ReadWholeFile(*disk, dir + "/latest", 100).value(),
            "step-000000000003\n");
  std::vector<std::string> passed_over;
  const Snapshot snapshot = FindSnapshot(*disk, dir, &passed_over).value();
  EXPECT_THAT(passed_over, IsEmpty());
  EXPECT_TRUE(HoldsToyState(*disk, snapshot, 3));
  ASSERT_TRUE(disk->RemoveAll(dir).ok());
}

}  // namespace
}  // namespace parapet
