#include "common/safetensors.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/memory_disk.h"
#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

absl::Span<const std::byte> AsBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(float)};
}

std::string FileText(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), sizeof(length));
  return text + header + data;
}

absl::StatusOr<SafetensorsReader> OpenText(const std::string& text) {
  MemoryDisk disk;
  absl::Status written = WriteWholeFile(disk, "/f", text);
  if (!written.ok()) return written;
  return SafetensorsReader::Open(disk,
                                 "/f");  // what it has read outlives the disk
}

TEST(SafetensorsTest, WhatIsWrittenIsRead) {
  MemoryDisk disk;
  std::vector<SafeTensor> tensors(4);
  tensors[0] = {"b", "F32", {2, 3}};
  tensors[1] = {"a/scalar", "F32", {}};
  tensors[2] = {"empty", "F32", {0, 7}};
  tensors[3] = {"\xc3\xa4\"half", "BF16", {2}};
  auto writer =
      SafetensorsWriter::Create(disk, "/f", tensors, {{"key", "value"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Append(AsBytes({1, 2, 3, 4})).ok());
  ASSERT_TRUE(writer->Append(AsBytes({5, 6, -7.5f, 9})).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const std::string text = ReadWholeFile(disk, "/f", 10000).value();
  EXPECT_EQ(writer->file_bytes(), static_cast<int64_t>(text.size()));
  EXPECT_EQ(writer->hash(), HashBytes(text.data(), text.size()));

  auto reader = SafetensorsReader::Open(disk, "/f");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->metadata(), (SafetensorsMetadata{{"key", "value"}}));
  ASSERT_EQ(reader->tensors().size(), 4u);
  for (const SafeTensor& tensor : tensors) {
    const SafeTensor* found = reader->Find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->dtype, tensor.dtype);
  }
  EXPECT_EQ(reader->Find("none"), nullptr);
  std::vector<float> out(4);
  ASSERT_TRUE(
      reader->ReadFloats(*reader->Find("b"), 2, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, (std::vector<float>{3, 4, 5, 6}));
  ASSERT_TRUE(
      reader->ReadFloats(*reader->Find("a/scalar"), 0, {out.data(), 1}).ok());
  EXPECT_EQ(out[0], -7.5f);
  EXPECT_TRUE(reader->ReadFloats(*reader->Find("empty"), 0, {}).ok());
}

TEST(SafetensorsTest, ReadsOnlyWhatATensorHas) {
  auto reader = OpenText(
      FileText(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}})",
               std::string(12, 'x')));
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> out(2);
  const SafeTensor& a = *reader->Find("a");
  EXPECT_TRUE(
      absl::IsInvalidArgument(reader->ReadFloats(a, 1, absl::MakeSpan(out))));
  EXPECT_TRUE(
      absl::IsInvalidArgument(reader->ReadFloats(a, -1, absl::MakeSpan(out))));
  EXPECT_TRUE(absl::IsInvalidArgument(reader->ReadFloats(
      a, std::numeric_limits<int64_t>::max(), absl::MakeSpan(out))));
  EXPECT_TRUE(absl::IsInvalidArgument(
      reader->ReadFloats(*reader->Find("b"), 0, {out.data(), 1})));
}

struct BadHeader {
  const char* header;
  size_t data_bytes;
  const char* words;
};

constexpr BadHeader kBadHeaders[] = {
    {"", 0, "does not begin"},
    {" {}", 0, "does not begin"},
    {"[]", 0, "does not begin"},
    {"{", 0, "parse error"},
    {"{}", 4, "the file has 4"},
    {R"({"a":1})", 0, "'dtype'"},
    {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "'dtype' is missing"},
    {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4,
     "unknown dtype"},
    {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
     "'shape'"},
    {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
     "'shape'"},
    {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4,
     "'shape'"},
    {R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4, "'shape'"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4,
     "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
     "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3,
     "the file has 3"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5,
     "the file has 5"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
     "needs 8 bytes"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
     "begins at byte 4"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
     R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     4, "begins at byte 0"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
     R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
     12, "ends at 4"},
    {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
     0, "too many elements"},
    {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})",
     0, "too many elements"},
    {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}})",
     0, "'shape'"},
    {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,0]}})",
     0, "'shape'"},
    {R"({"a":{"dtype":"U8","shape":[9223372036854775807],)"
     R"("data_offsets":[0,9223372036854775807]}})",
     0, "the file has 0"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
     R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     4, "twice"},
    {R"({"__metadata__":[]})", 0, "__metadata__"},
    {R"({"__metadata__":{"a":1}})", 0, "__metadata__"},
    {R"({"a":[[[[[[[[[[]]]]]]]]]]})", 0, "deeper"},
    {"{\"\xff\":1}", 0, "UTF-8"},
};

TEST(SafetensorsTest, NonsenseIsRefusedInWords) {
  for (const BadHeader& bad : kBadHeaders) {
    const auto reader =
        OpenText(FileText(bad.header, std::string(bad.data_bytes, '\0')));
    ASSERT_TRUE(absl::IsDataLoss(reader.status()))
        << bad.header << " " << reader.status();
    EXPECT_THAT(std::string(reader.status().message()), HasSubstr(bad.words))
        << bad.header;
    EXPECT_THAT(std::string(reader.status().message()), HasSubstr("'/f'"))
        << bad.header;
  }
}

TEST(SafetensorsTest, ImpossibleHeaderLengthsAreRefusedBeforeReadingThem) {
  for (uint64_t length :
       {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}}) {
    const std::string text(reinterpret_cast<const char*>(&length),
                           sizeof(length));
    const auto reader = OpenText(text + "{}");
    EXPECT_TRUE(absl::IsDataLoss(reader.status()))
        << length << " " << reader.status();
  }
  for (int bytes = 0; bytes < 8; ++bytes) {
    EXPECT_TRUE(absl::IsDataLoss(OpenText(std::string(bytes, '\0')).status()))
        << bytes;
  }
}

TEST(SafetensorsTest, TheLongestNumberOfBytesInMessagesIsBounded) {
  const auto reader =
      OpenText(FileText("{\"" + std::string(100000, 'n') + "\":1}", ""));
  ASSERT_TRUE(absl::IsDataLoss(reader.status()));
  EXPECT_LT(reader.status().message().size(), 1000u);
}

TEST(SafetensorsTest, EveryCutAndEveryFlippedBitOfTheHeaderIsSafe) {
  const std::string text = FileText(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})",
      std::string(8, 'x'));
  ASSERT_TRUE(OpenText(text).ok());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(OpenText(text.substr(0, size)).ok()) << size;
  }
  for (size_t bit = 0; bit < (text.size() - 8) * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const auto reader =
        OpenText(changed);  // a letter of a name may change; no more than that
    if (!reader.ok()) continue;
    ASSERT_EQ(reader->tensors().size(), 1u) << bit;
    ASSERT_EQ(reader->tensors()[0].bytes, 8) << bit;
  }
}

// What Python's safetensors 0.8.0 writes.
TEST(SafetensorsTest, AFileOfTheReferenceIsRead) {
  const std::vector<float> data = {0, 1, 2, 3, 3.5f};
  const auto reader = OpenText(
      FileText(R"({"__metadata__":{"format":"np"},)"
               R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},)"
               R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
               R"("y":{"dtype":"F32","shape":[],"data_offsets":[16,20]},)"
               R"("x":{"dtype":"F16","shape":[2,3],"data_offsets":[20,32]}}  )",
               std::string(reinterpret_cast<const char*>(data.data()), 20) +
                   std::string(12, '<')));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->metadata().at("format"), "np");
  EXPECT_EQ(reader->Find("e")->shape, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(reader->Find("x")->dtype, "F16");
  EXPECT_TRUE(reader->Find("y")->shape.empty());
  EXPECT_EQ(reader->Find("y")->offset, 16);
}

TEST(SafetensorsTest, AnEmptyTensorMayLieBetweenOthers) {
  const auto reader = OpenText(
      FileText(R"({"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
               R"("e":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]}}   )",
               std::string(8, '\0')));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->tensors()[1].name, "e");
}

TEST(SafetensorsTest, TheWriterKeepsToItsHeader) {
  MemoryDisk disk;
  auto writer = SafetensorsWriter::Create(disk, "/f", {{"a", "F32", {2}}}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(absl::IsOutOfRange(writer->Append(AsBytes({1, 2, 3}))));
  ASSERT_TRUE(writer->Append(AsBytes({1})).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(writer->Finish()));
  ASSERT_TRUE(writer->Append(AsBytes({2})).ok());
  EXPECT_TRUE(writer->Finish().ok());
}

TEST(SafetensorsTest, TheWriterRefusesWhatNobodyCouldRead) {
  MemoryDisk disk;
  const std::vector<std::vector<SafeTensor>> cases = {
      {{"a", "F32", {1}}, {"a", "F32", {1}}},
      {{"__metadata__", "F32", {1}}},
      {{"a", "F12", {1}}},
      {{"a", "F32", {-1}}},
      {{"a", "F32", {int64_t{1} << 40, int64_t{1} << 40}}},
      {{"a", "U8", {int64_t{1} << 62}}, {"b", "U8", {int64_t{1} << 62}}},
      {{"\xff", "F32", {1}}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const absl::Status status =
        SafetensorsWriter::Create(disk, "/f", cases[i], {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i << " " << status;
    EXPECT_FALSE(status.message().empty());
  }
}

TEST(SafetensorsTest, DiskErrorsStayWhatTheyAre) {
  for (int operation = 0; operation < 5; ++operation) {
    MemoryDisk disk;
    disk.FailAfter(operation);
    auto writer =
        SafetensorsWriter::Create(disk, "/f", {{"a", "F32", {1}}}, {});
    absl::Status status = writer.status();
    if (status.ok()) status = writer->Append(AsBytes({1}));
    if (status.ok()) status = writer->Finish();
    EXPECT_TRUE(absl::IsInternal(status)) << operation << " " << status;
  }
  MemoryDisk disk;
  EXPECT_TRUE(
      absl::IsNotFound(SafetensorsReader::Open(disk, "/none").status()));
}

}  // namespace
}  // namespace parapet
