#include "common/npy.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/memory_disk.h"
#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// A file of version `major`.0 with a header as NumPy writes it.
std::string File(const std::string& dictionary, const std::string& data,
                 int major = 1) {
  std::string length;
  for (int k = 0; k < (major == 1 ? 2 : 4); ++k)
    length.push_back(static_cast<char>(dictionary.size() >> (8 * k)));
  return absl::StrCat("\x93NUMPY", std::string(1, static_cast<char>(major)),
                      std::string(1, '\0'), length, dictionary, data);
}

std::string Dictionary(const std::string& shape,
                       const std::string& type = "<f4",
                       const std::string& fortran = "False") {
  return absl::StrCat("{'descr': '", type, "', 'fortran_order': ", fortran,
                      ", 'shape': ", shape, ", }   \n");
}

class NpyTest : public ::testing::Test {
 protected:
  absl::StatusOr<NpyArray> Read(const std::string& file, int64_t most = 1000) {
    EXPECT_TRUE(WriteWholeFile(disk_, "/x.npy", file).ok());
    return ReadNpy(disk_, "/x.npy", most);
  }
  std::string ErrorOf(const std::string& file) {
    const absl::StatusOr<NpyArray> array = Read(file);
    EXPECT_TRUE(absl::IsDataLoss(array.status())) << array.status();
    EXPECT_THAT(std::string(array.status().message()), HasSubstr("'/x.npy'"));
    return std::string(array.status().message());
  }

  MemoryDisk disk_;
  const std::string six_ = BytesOf<float>({1, 2, 3, 4, 5, 6});
};

TEST_F(NpyTest, ReadsEveryVersion) {
  for (int major : {1, 2, 3}) {
    const auto array = Read(File(Dictionary("(2, 3)"), six_, major));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->shape, ElementsAre(2, 3));
    EXPECT_THAT(array->values, ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(NpyTest, ReadsFortranOrder) {
  const auto array = Read(File(Dictionary("(2, 3)", "<f4", "True"), six_));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->values, ElementsAre(1, 3, 5, 2, 4, 6));
  const auto row = Read(File(Dictionary("(6,)", "<f4", "True"), six_));
  EXPECT_THAT(row->values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(NpyTest, NarrowsFloat64AndCountsWhatDoesNotFit) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto array = Read(File(Dictionary("(4,)", "<f8"),
                               BytesOf<double>({0.1, -1e300, inf, 3e38})));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->values, ElementsAre(0.1f, -HUGE_VALF, HUGE_VALF, 3e38f));
  EXPECT_EQ(array->overflowed, 1);
}

TEST_F(NpyTest, ReadsOtherSpellings) {
  for (const std::string dictionary :
       {"{'shape':(2,3),'descr':'<f4','fortran_order':False}",
        "{ \"descr\" : \"<f4\", 'fortran_order' : False, 'shape' : (2, 3,) "
        "}"}) {
    EXPECT_TRUE(Read(File(dictionary, six_)).ok()) << dictionary;
  }
  EXPECT_THAT(Read(File(Dictionary("()"), BytesOf<float>({7})))->values,
              ElementsAre(7));
  EXPECT_THAT(Read(File(Dictionary("(0, 5)"), ""))->shape, ElementsAre(0, 5));
}

TEST_F(NpyTest, RefusesInWords) {
  EXPECT_THAT(ErrorOf("PK\x03\x04 something else"), HasSubstr("no .npy file"));
  EXPECT_THAT(ErrorOf("\x93NUM"), HasSubstr("it has 4 bytes"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(2, 3)"), six_, 4)),
              HasSubstr("version 4.0"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(2, 3)", "<i8"), six_)),
              HasSubstr("type '<i8'; expected little-endian float32"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(2, 3)", ">f4"), six_)),
              HasSubstr("type '>f4'"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(2, 3)"), six_ + "x")),
              HasSubstr("has 25 bytes of values; the shape (2, 3) needs 24"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(2, 3)"), six_.substr(1))),
              HasSubstr("has 23 bytes"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(3)"), six_)), HasSubstr("not a tuple"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(2, -3)"), six_)), HasSubstr("tuple"));
  EXPECT_THAT(ErrorOf(File(Dictionary("(1,1,1,1,1,1,1,1,1)"), "abcd")),
              HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(ErrorOf(File("{'descr': '<f4', 'shape': (6,)}", six_)),
              HasSubstr("has no fortran_order"));
  EXPECT_THAT(ErrorOf(File("{'descr': '<f4', 'descr': '<f4'}", six_)),
              HasSubstr("gives descr twice"));
  EXPECT_THAT(ErrorOf(File("{'descr': [('a', '<f4')]}", six_)),
              HasSubstr("no simple type"));
  EXPECT_THAT(ErrorOf(File("6 numbers", six_)), HasSubstr("not a dictionary"));
  std::string cut = File(Dictionary("(2, 3)"), six_);
  cut[9] = '\x7f';
  EXPECT_THAT(ErrorOf(cut), HasSubstr("header claims"));
}

TEST_F(NpyTest, LimitsAreKeptBeforeAnythingIsMade) {
  for (const char* shape :
       {"(1001,)", "(4611686018427387904, 4611686018427387904)",
        "(9223372036854775807, 2)"}) {
    EXPECT_TRUE(
        absl::IsResourceExhausted(Read(File(Dictionary(shape), six_)).status()))
        << shape;
  }
  EXPECT_TRUE(absl::IsNotFound(ReadNpy(disk_, "/none.npy", 10).status()));
}

TEST_F(NpyTest, WritesWhatItReads) {
  const std::vector<float> values = {1, -2.5f, 3e-45f, NAN, HUGE_VALF, 0};
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{6}, {2, 3}, {1, 6, 1}}) {
    ASSERT_TRUE(WriteNpy(disk_, "/y.npy", shape, values).ok());
    const auto file = *ReadWholeFile(disk_, "/y.npy", 1 << 20);
    EXPECT_EQ((file.size() - 24) % 64, 0u);  // the values are aligned
    const auto array = ReadNpy(disk_, "/y.npy", 6);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(std::memcmp(array->values.data(), values.data(), 24), 0);
  }
}

// Whatever bytes come: an array of the file's size or a refusal in words.
TEST_F(NpyTest, AlteredFiles) {
  const std::string good = File(Dictionary("(2, 3)"), six_);
  int read = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    Random random(trial);
    std::string bad = good;
    for (uint64_t k = random.Below(4); k < 4; ++k) {
      const size_t at = random.Below(bad.size());
      switch (random.Below(4)) {
        case 0:
          bad[at] = static_cast<char>(random.Below(256));
          break;
        case 1:
          bad.erase(at, random.Below(8));
          break;
        case 2:
          bad.insert(at, good.substr(random.Below(good.size()), 5));
          break;
        default:
          bad[at] = "(),:'{}0 T"[random.Below(10)];
      }
      if (bad.empty()) bad = "x";
    }
    const absl::StatusOr<NpyArray> array = Read(bad);
    if (!array.ok()) {
      EXPECT_FALSE(array.status().message().empty());
      continue;
    }
    ++read;
    EXPECT_LE(array->values.size() * 4, bad.size());
  }
  EXPECT_GT(read, 20);  // values may be altered, and spaces
  EXPECT_LT(read, 15000);
}

}  // namespace
}  // namespace parapet
