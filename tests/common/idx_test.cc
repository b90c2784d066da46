#include "common/idx.h"

#include <sys/resource.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/idx_files.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_idx::Gzip;
using testing_idx::Idx;
using testing_idx::Word;
using testing_idx::Write;

int64_t PeakKib() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss;
}

class IdxTest : public ::testing::Test {
 protected:
  absl::StatusOr<IdxArray> Read(const std::string& bytes, int rank) {
    Write(path_, bytes);
    return ReadIdx(path_, rank);
  }
  // Reads, expects a DataLoss that names the file, and returns its words.
  std::string Complaint(const std::string& bytes, int rank) {
    const absl::Status status = Read(bytes, rank).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    return std::string(status.message());
  }

  TempDir dir_;
  const std::string path_ = dir_ / "file";
  const std::string good_ = Idx({2, 3, 1}, "abcdef");
};

TEST_F(IdxTest, ReadsPlainAndPacked) {
  for (const std::string& bytes : {good_, Gzip(good_)}) {
    const absl::StatusOr<IdxArray> array = Read(bytes, 3);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->dims, ElementsAre(2, 3, 1));
    EXPECT_EQ(std::string(array->values.begin(), array->values.end()),
              "abcdef");
    EXPECT_THAT(*ReadIdxHeader(path_, 3), ElementsAre(2, 3, 1));
  }
}

TEST_F(IdxTest, ReadsMoreThanABuffer) {
  std::string values(3'000'001, '\0');
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<char>(i * 2654435761u >> 24);
  const std::string bytes = Idx({3'000'001}, values);
  for (const std::string& file : {bytes, Gzip(bytes)}) {
    const absl::StatusOr<IdxArray> array = Read(file, 1);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_TRUE(std::equal(
        values.begin(), values.end(), array->values.begin(),
        [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }));
  }
}

TEST_F(IdxTest, ReadsSeveralGzipMembers) {
  const absl::StatusOr<IdxArray> array =
      Read(Gzip(good_.substr(0, 7)) + Gzip("") + Gzip(good_.substr(7)), 3);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->values.size(), 6u);
}

TEST_F(IdxTest, TruncationsAtEveryByte) {
  for (size_t size = 0; size < good_.size(); ++size) {
    EXPECT_THAT(Complaint(good_.substr(0, size), 3), HasSubstr("truncated"))
        << size;
    EXPECT_EQ(ReadIdxHeader(path_, 3).ok(), size >= 16) << size;
  }
}

TEST_F(IdxTest, TruncationsOfAPackedFileAtEveryByte) {
  const std::string packed = Gzip(good_);
  for (size_t size = 0; size < packed.size(); ++size) {
    EXPECT_THAT(
        Complaint(packed.substr(0, size), 3),
        ::testing::AnyOf(HasSubstr("truncated"), HasSubstr("bad magic")))
        << size;
  }
}

// A damaged file is refused or, where the byte says nothing (the time stamp),
// read as it is.
TEST_F(IdxTest, DamageOfAPackedFileAtEveryByte) {
  const std::string packed = Gzip(good_);
  int refused = 0;
  for (size_t at = 0; at < packed.size(); ++at) {
    std::string bytes = packed;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    const absl::StatusOr<IdxArray> array = Read(bytes, 3);
    if (!array.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(array.status()));
      ++refused;
    } else {
      EXPECT_EQ(std::string(array->values.begin(), array->values.end()),
                "abcdef");
    }
  }
  EXPECT_GE(refused, static_cast<int>(packed.size()) - 6);
}

TEST_F(IdxTest, TrailingBytes) {
  EXPECT_THAT(Complaint(good_ + "x", 3), HasSubstr("trailing bytes"));
  EXPECT_THAT(Complaint(Gzip(good_ + "x"), 3), HasSubstr("trailing bytes"));
  EXPECT_THAT(Complaint(Gzip(good_) + "x", 3), HasSubstr("truncated"));
  EXPECT_THAT(Complaint(Gzip(good_) + std::string(100, 'x'), 3),
              HasSubstr("trailing bytes"));
  EXPECT_THAT(Complaint(Gzip(good_) + Gzip("x"), 3),
              HasSubstr("trailing bytes"));
}

TEST_F(IdxTest, BadMagic) {
  EXPECT_THAT(Complaint(Idx({6}, "abcdef"), 3), HasSubstr("0x00000801"));
  EXPECT_THAT(Complaint(Word(0x00000d01) + Word(1) + "abcd", 1),
              HasSubstr("bad magic"));
  EXPECT_THAT(Complaint(std::string("\x7f"
                                    "ELF0000"),
                        1),
              HasSubstr("bad magic"));
}

TEST_F(IdxTest, WrongSizes) {
  EXPECT_THAT(Complaint(Idx({2, 0, 3}, ""), 3), HasSubstr("dimension 1 is 0"));
  EXPECT_THAT(Complaint(Idx({0xffffffff, 0xffffffff, 0xffffffff}, "abc"), 3),
              HasSubstr("limit"));
  EXPECT_THAT(Complaint(Idx({0x80000001}, "abc"), 1), HasSubstr("limit"));
}

TEST_F(IdxTest, AClaimAloneTakesNoMemory) {
  const int64_t before = PeakKib();
  EXPECT_THAT(Complaint(Idx({0x80000000}, "abc"), 1),
              HasSubstr("truncated: 3 of 2147483648"));
  const int64_t after = PeakKib();
  EXPECT_LT(after - before, 64 * 1024);
}

// 256 MB of zeros in 256 KB, behind a header that claims ten bytes.
TEST_F(IdxTest, ABombIsNotUnpacked) {
  const std::string piece(16 << 20, '\0');
  std::string bomb = Gzip(Idx({10}, ""));
  const std::string packed = Gzip(piece);
  for (int i = 0; i < 16; ++i) bomb += packed;
  const int64_t before = PeakKib();
  EXPECT_THAT(Complaint(bomb, 1), HasSubstr("trailing bytes"));
  const int64_t after = PeakKib();
  EXPECT_LT(after - before, 16 * 1024);
}

TEST_F(IdxTest, WhatIsNoFile) {
  EXPECT_TRUE(absl::IsNotFound(ReadIdx(dir_ / "absent", 1).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadIdx(dir_.path(), 1).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadIdxHeader("/dev/zero", 1).status()));
}

}  // namespace
}  // namespace parapet
