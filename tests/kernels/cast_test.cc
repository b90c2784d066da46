#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/kernel_testing.h"

namespace parapet::kernel_testing {
namespace {

using Halves = std::vector<uint16_t>;

class CastTest : public OnEveryTarget {
 protected:
  Halves Encode(const std::vector<float>& values, DType to, double scale = 1,
                int64_t* overflows = nullptr) {
    Guarded<uint16_t> out(static_cast<int64_t>(values.size()), 1);
    const int64_t count =
        device_->Encode(values.data(), out.size(), to, scale, out.bytes());
    EXPECT_TRUE(out.Intact());
    if (overflows != nullptr) *overflows = count;
    return out.Values();
  }
  std::vector<float> Decode(const Halves& stored, DType from,
                            double scale = 1) {
    const auto size = static_cast<int64_t>(stored.size());
    Guarded<uint16_t> in(size, 3);
    in.Assign(stored);
    Guarded<float> out(size, 4);
    device_->Decode(in.bytes(), from, scale, size, out.data());
    EXPECT_TRUE(out.Intact());
    return out.Values();
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, CastTest, EveryTarget(), TargetNameOf);

Halves EveryHalf() {
  Halves all;
  for (int bits = 0; bits < 0x10000; ++bits)
    all.push_back(static_cast<uint16_t>(bits));
  return all;
}

const DType kHalfTypes[] = {DType::kBFloat16, DType::kFloat16};

// All numbers of the format, the points halfway between neighbours, and the
// floats next to both.
std::vector<float> EdgesOf(DType type) {
  std::vector<float> edges;
  for (uint16_t bits : EveryHalf()) {
    const double value = ValueOfHalf(bits, ExponentBits(type));
    const double next =
        ValueOfHalf(static_cast<uint16_t>(bits + 1), ExponentBits(type));
    for (double edge : {value, (value + next) / 2}) {
      const auto x = static_cast<float>(edge);
      if (!std::isfinite(x)) continue;
      edges.push_back(x);
      edges.push_back(std::nextafterf(x, HUGE_VALF));
      edges.push_back(std::nextafterf(x, -HUGE_VALF));
    }
  }
  // Past the largest: the first value that rounds to infinity, and its
  // neighbours.
  for (float x : {65504.0f, 65519.996f, 65520.0f, 65536.0f, 1e30f}) {
    edges.insert(edges.end(), {x, -x});
  }
  edges.push_back(std::numeric_limits<float>::max());
  edges.push_back(HUGE_VALF);
  return edges;
}

TEST_P(CastTest, EveryHalfDecodesToItsValue) {
  for (DType type : kHalfTypes) {
    const std::vector<float> values = Decode(EveryHalf(), type);
    for (uint16_t bits : EveryHalf()) {
      const auto expected =
          static_cast<float>(ValueOfHalf(bits, ExponentBits(type)));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(values[bits])) << bits;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(values[bits]),
                  std::bit_cast<uint32_t>(expected))
            << bits;
      }
    }
  }
}

TEST_P(CastTest, EveryHalfComesBack) {
  for (DType type : kHalfTypes) {
    const Halves back = Encode(Decode(EveryHalf(), type), type);
    for (uint16_t bits : EveryHalf()) {
      const bool nan = std::isnan(ValueOfHalf(bits, ExponentBits(type)));
      const int quiet = type == DType::kFloat16 ? 0x200 : 0x40;
      ASSERT_EQ(back[bits], nan ? bits | quiet : bits);
    }
  }
}

TEST_P(CastTest, RoundsToNearestEven) {
  std::mt19937_64 random(1);
  for (DType type : kHalfTypes) {
    std::vector<float> values = EdgesOf(type);
    for (int i = 0; i < 100'000; ++i) {
      const auto any = std::bit_cast<float>(static_cast<uint32_t>(random()));
      if (!std::isnan(any)) values.push_back(any);
    }
    int64_t overflows = 0, expected_overflows = 0;
    const Halves halves = Encode(values, type, 1, &overflows);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t expected = HalfOfValue(values[i], ExponentBits(type));
      ASSERT_EQ(halves[i], expected) << values[i] << " as " << NameOf(type);
      const bool infinite =
          std::isinf(ValueOfHalf(expected, ExponentBits(type)));
      expected_overflows += infinite && std::isfinite(values[i]) ? 1 : 0;
    }
    EXPECT_GT(overflows, 0);
    EXPECT_EQ(overflows, expected_overflows) << NameOf(type);
  }
}

TEST_P(CastTest, NansStayNans) {
  std::vector<float> nans;
  for (uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + 1) {
    nans.push_back(std::bit_cast<float>(0x7F800000 | payload));
    nans.push_back(std::bit_cast<float>(0xFF800000 | payload));
  }
  for (DType type : kHalfTypes) {
    int64_t overflows = -1;
    const Halves halves = Encode(nans, type, 1, &overflows);
    EXPECT_EQ(overflows, 0);
    const int shift = type == DType::kFloat16 ? 13 : 16,
              quiet = type == DType::kFloat16 ? 0x200 : 0x40;
    for (size_t i = 0; i < nans.size(); ++i) {
      EXPECT_TRUE(std::isnan(ValueOfHalf(halves[i], ExponentBits(type))));
      const uint32_t fraction = std::bit_cast<uint32_t>(nans[i]) & 0x7FFFFF;
      EXPECT_EQ(halves[i] & (2 * quiet - 1),
                (fraction >> shift) | static_cast<uint32_t>(quiet));
    }
  }
}

TEST_P(CastTest, EverySizeAtEveryAddress) {
  std::mt19937_64 random(2);
  for (DType type : kAllTypes) {
    for (int64_t size : OddSizes()) {
      const auto offset = static_cast<size_t>(random() % 8);
      const std::vector<float> values = RandomFloats(random, size);
      Guarded<uint8_t> stored(size * SizeOf(type), offset),
          expected(size * SizeOf(type), offset);
      device_->Encode(values.data(), size, type, 1, stored.bytes());
      for (int64_t i = 0; i < size; ++i) {
        StoreValue(values[static_cast<size_t>(i)], type, i, expected.bytes());
      }
      ASSERT_TRUE(stored.Intact());
      ASSERT_EQ(stored.Values(), expected.Values())
          << NameOf(type) << " " << size;
      Guarded<float> back(size, 4);
      device_->Decode(stored.bytes(), type, 1, size, back.data());
      ASSERT_TRUE(back.Intact());
      for (int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(back.data()[i], StoredValue(stored.bytes(), type, i));
      }
    }
  }
}

// The product and the quotient are float32, computed from float64: exact for
// powers of two.
TEST_P(CastTest, ScalesByAnyNumber) {
  std::mt19937_64 random(3);
  for (DType type : kAllTypes) {
    for (double scale : {1024.0, 0x1p-12, 0x1p140, 1000.0, 0.1, 3.0}) {
      const int64_t size = 301;
      const std::vector<float> values = RandomFloats(random, size);
      Guarded<uint8_t> stored(size * SizeOf(type), 2),
          expected(size * SizeOf(type), 2);
      const int64_t overflows =
          device_->Encode(values.data(), size, type, scale, stored.bytes());
      int64_t expected_overflows = 0;
      for (int64_t i = 0; i < size; ++i) {
        const double product = values[static_cast<size_t>(i)] * scale;
        StoreValue(static_cast<float>(product), type, i, expected.bytes());
        expected_overflows +=
            std::isinf(StoredValue(expected.bytes(), type, i)) ? 1 : 0;
      }
      ASSERT_EQ(stored.Values(), expected.Values())
          << NameOf(type) << " " << scale;
      EXPECT_EQ(overflows, expected_overflows);
      Guarded<float> back(size, 4);
      device_->Decode(stored.bytes(), type, scale, size, back.data());
      for (int64_t i = 0; i < size; ++i) {
        const auto quotient =
            static_cast<float>(StoredValue(stored.bytes(), type, i) / scale);
        ASSERT_EQ(std::bit_cast<uint32_t>(back.data()[i]),
                  std::bit_cast<uint32_t>(quotient));
      }
    }
  }
}

TEST_P(CastTest, AScaleSavesWhatFloat16WouldLose) {
  int64_t overflows = -1;
  const std::vector<float> tiny = {0x1p-30f, -0x1.8p-28f};
  EXPECT_EQ(Encode(tiny, DType::kFloat16), (Halves{0, 0x8000}));
  const Halves scaled = Encode(tiny, DType::kFloat16, 0x1p20, &overflows);
  EXPECT_EQ(Decode(scaled, DType::kFloat16, 0x1p20), tiny);
  EXPECT_EQ(overflows, 0);
  Encode({1.0f, 64.0f, -100.0f, HUGE_VALF}, DType::kFloat16, 1024, &overflows);
  EXPECT_EQ(overflows, 2)
      << "64 * 1024 and -100 * 1024; the infinity was one before";
}

}  // namespace
}  // namespace parapet::kernel_testing
