#include "common/exact_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace parapet {
namespace {

constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ExactSum SumOf(const std::vector<double>& values) {
  ExactSum sum;
  for (double value : values) sum.Add(value);
  return sum;
}

double RoundedSum(const std::vector<double>& values) {
  return SumOf(values).Round();
}

absl::Span<const std::byte> AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }

// Shewchuk's partial sums and the last rounding of Python's math.fsum. Right
// while no partial sum overflows.
class Partials {
 public:
  void Add(double x) {
    size_t kept = 0;
    for (double y : partials_) {
      if (std::abs(x) < std::abs(y)) std::swap(x, y);
      const double high = x + y;
      const double low = y - (high - x);
      if (low != 0) partials_[kept++] = low;
      x = high;
    }
    partials_.resize(kept);
    partials_.push_back(x);
  }

  double Round() const {
    size_t n = partials_.size();
    if (n == 0) return 0;
    double high = partials_[--n], low = 0;
    while (n > 0 && low == 0) {
      const double x = high, y = partials_[--n];
      high = x + y;
      low = y - (high - x);
    }
    // A tie was rounded to even, but a smaller part decides it.
    if (n > 0 && low != 0 && (low < 0) == (partials_[n - 1] < 0)) {
      const double twice = 2 * low, moved = high + twice;
      if (twice == moved - high) high = moved;
    }
    return high;
  }

 private:
  std::vector<double> partials_;
};

double FSum(const std::vector<double>& values) {
  Partials partials;
  for (double value : values) partials.Add(value);
  return partials.Round();
}

// Any sign and significand, exponents uniform over [low, high].
double RandomDouble(std::mt19937_64& random, int low, int high) {
  const double significand = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
  const int exponent = std::uniform_int_distribution<int>(low, high)(random);
  return std::ldexp(random() % 2 == 0 ? significand : -significand, exponent);
}

std::vector<double> RandomDoubles(std::mt19937_64& random, size_t count,
                                  int low, int high) {
  std::vector<double> values(count);
  for (double& value : values) value = RandomDouble(random, low, high);
  return values;
}

TEST(ExactSumTest, SumsOfOneAreTheValueItself) {
  std::mt19937_64 random(1);
  for (double value : {0.0, 1.0, -1.0, kMax, -kMax, kTiny, -kTiny, 0x1p-1022,
                       0x1p-1022 - kTiny}) {
    EXPECT_EQ(Bits(RoundedSum({value})), Bits(value)) << value;
  }
  for (int i = 0; i < 100'000; ++i) {
    const double value = RandomDouble(random, -1080, 1023);
    ASSERT_EQ(RoundedSum({value}), value);
  }
}

TEST(ExactSumTest, NothingAndCancellationGivePlusZero) {
  EXPECT_EQ(Bits(ExactSum().Round()), 0u);
  EXPECT_EQ(Bits(RoundedSum({-0.0})), 0u);
  EXPECT_EQ(Bits(RoundedSum({1e300, kTiny, -1e300, -kTiny})), 0u);
}

TEST(ExactSumTest, KeepsWhatDoublesWouldLose) {
  EXPECT_EQ(RoundedSum({1e308, 1, -1e308}), 1);
  EXPECT_EQ(RoundedSum({kMax, kTiny, -kMax}), kTiny);
  EXPECT_EQ(RoundedSum(std::vector<double>(10, 0.1)), 1);
}

TEST(ExactSumTest, RoundsToNearestEven) {
  EXPECT_EQ(RoundedSum({1, 0x1p-53}), 1);
  EXPECT_EQ(RoundedSum({1, 0x1p-53, kTiny}), 1 + 0x1p-52);
  EXPECT_EQ(RoundedSum({1, 0x1p-53, -kTiny}), 1);
  EXPECT_EQ(RoundedSum({1 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);
  EXPECT_EQ(RoundedSum({-1 - 0x1p-52, -0x1p-53}), -1 - 0x1p-51);
  EXPECT_EQ(RoundedSum({-1, -0x1p-53, -0x1p-200}), -1 - 0x1p-52);
}

TEST(ExactSumTest, OverflowsOnlyWhenTheRoundedSumDoes) {
  EXPECT_EQ(RoundedSum({kMax, kMax}), kInfinity);
  EXPECT_EQ(RoundedSum({-kMax, -kMax}), -kInfinity);
  EXPECT_EQ(RoundedSum({kMax, kMax, -kMax}), kMax);
  EXPECT_EQ(RoundedSum({kMax, 0x1p969}), kMax);
  EXPECT_EQ(RoundedSum({kMax, 0x1p970}), kInfinity)
      << "a tie goes to the even neighbour";
  EXPECT_EQ(RoundedSum({kMax, 0x1p970, -kTiny}), kMax);
}

TEST(ExactSumTest, SubnormalSumsAreExact) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10'000; ++i) {
    const double a = RandomDouble(random, -1074, -1024),
                 b = RandomDouble(random, -1074, -1024);
    ASSERT_EQ(RoundedSum({a, b}), a + b);
  }
}

TEST(ExactSumTest, AgreesWithFsum) {
  const struct {
    size_t count;
    int low, high;
  } cases[] = {{2, -60, 60},
               {3, -120, 120},
               {10, -30, 0},
               {200, -1074, 900},
               {1000, -1074, -900}};
  for (const auto& c : cases) {
    std::mt19937_64 random(c.count);
    for (int i = 0; i < 500; ++i) {
      std::vector<double> values =
          RandomDoubles(random, c.count, c.low, c.high);
      if (i % 2 == 1)
        values.push_back(
            -FSum(values));  // all that is left is the rounding error
      ASSERT_EQ(Bits(RoundedSum(values)), Bits(FSum(values) + 0.0))
          << c.count << " case " << i;
    }
  }
}

// A quadruple has 113 bits: sums of a few doubles within 2^50 of each other are
// exact in it, and its conversion is the one rounding.
TEST(ExactSumTest, AgreesWithQuadruples) {
  __extension__ typedef __float128 Quadruple;
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    const int low = std::uniform_int_distribution<int>(-1074, 970)(random);
    const std::vector<double> values = RandomDoubles(random, 8, low, low + 50);
    Quadruple sum = 0;
    for (double value : values) sum += static_cast<Quadruple>(value);
    ASSERT_EQ(RoundedSum(values), static_cast<double>(sum));
  }
}

TEST(ExactSumTest, OrderAndGroupingDoNotMatter) {
  std::mt19937_64 random(4);
  std::vector<double> values = RandomDoubles(random, 300, -1074, 1023);
  const std::string expected = SumOf(values).Serialize();
  for (int i = 0; i < 50; ++i) {
    std::shuffle(values.begin(), values.end(), random);
    std::vector<ExactSum> parts(1 + random() % 20);
    for (double value : values) parts[random() % parts.size()].Add(value);
    ExactSum sum;
    for (const ExactSum& part : parts) {
      const bool travels = random() % 2 == 0;
      sum.Merge(travels ? ExactSum::Parse(AsBytes(part.Serialize())).value()
                        : part);
    }
    ASSERT_EQ(sum.Serialize(), expected);
  }
}

// By doubling, 2^30 additions of the value that fills the limbs most.
TEST(ExactSumTest, HoldsTheStatedNumberOfAdditions) {
  for (double value : {kMax, -kMax}) {
    ExactSum sum = SumOf({value});
    for (int i = 0; i < 30; ++i) sum.Merge(ExactSum(sum));
    ASSERT_TRUE(ExactSum::Parse(AsBytes(sum.Serialize())).ok());
    EXPECT_EQ(sum.Round(), value * 2);
    ExactSum opposite = SumOf({-value});
    for (int i = 0; i < 29; ++i) opposite.Merge(ExactSum(opposite));
    sum.Merge(opposite);
    sum.Merge(opposite);
    EXPECT_EQ(sum.Round(), 0);
  }
}

TEST(ExactSumTest, ValuesThatAreNotFinite) {
  EXPECT_EQ(RoundedSum({1, kInfinity, -kMax}), kInfinity);
  EXPECT_EQ(RoundedSum({-kInfinity, kMax, kMax}), -kInfinity);
  EXPECT_TRUE(std::isnan(RoundedSum({kInfinity, -kInfinity})));
  EXPECT_TRUE(std::isnan(RoundedSum({kNan, 1})));
  EXPECT_TRUE(std::isnan(RoundedSum({-kNan, kInfinity})));
  EXPECT_EQ(SumOf({kInfinity, 1}).Serialize(),
            SumOf({2, kInfinity}).Serialize());
  EXPECT_EQ(SumOf({kInfinity, -kInfinity}).Serialize(),
            SumOf({kNan}).Serialize());
  for (double value : {kInfinity, -kInfinity, kNan}) {
    const std::string text = SumOf({value}).Serialize();
    EXPECT_EQ(ExactSum::Parse(AsBytes(text)).value().Serialize(), text);
    EXPECT_FALSE(std::isfinite(ExactSum::Parse(AsBytes(text)).value().Round()));
  }
}

TEST(ExactSumTest, SerializesToAFixedLengthAndBack) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    const ExactSum sum =
        SumOf(RandomDoubles(random, random() % 5, -1074, 1023));
    const std::string text = sum.Serialize();
    ASSERT_EQ(text.size(), ExactSum::kBytes);
    const absl::StatusOr<ExactSum> parsed = ExactSum::Parse(AsBytes(text));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->Round(), sum.Round());
    EXPECT_EQ(parsed->Serialize(), text);
  }
}

TEST(ExactSumTest, ParseRefusesOtherLengths) {
  const std::string text = SumOf({1}).Serialize();
  EXPECT_FALSE(ExactSum::Parse({}).ok());
  EXPECT_FALSE(ExactSum::Parse(AsBytes(text.substr(1))).ok());
  EXPECT_FALSE(ExactSum::Parse(AsBytes(text + '\0')).ok());
}

// Whatever is accepted must be the one form of a sum: each flipped bit is
// refused, or is the form of another sum.
TEST(ExactSumTest, ParseAcceptsOnlyTheFormOfASum) {
  for (double value : {0.0, 3.5, -3.5, kMax, -kTiny, kInfinity, kNan}) {
    const std::string text = SumOf({value}).Serialize();
    int refused = 0;
    for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
      std::string changed = text;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
      const absl::StatusOr<ExactSum> parsed = ExactSum::Parse(AsBytes(changed));
      if (parsed.ok()) {
        ASSERT_EQ(parsed->Serialize(), changed) << value << " bit " << bit;
      }
      refused += parsed.ok() ? 0 : 1;
    }
    EXPECT_GT(refused, 70 * 32)
        << "the upper half of every limb, at least, for " << value;
  }
}

TEST(ExactSumTest, CompactFormsReadBackOneAfterTheOther) {
  const std::vector<ExactSum> sums = {SumOf({}),
                                      SumOf({1}),
                                      SumOf({kTiny}),
                                      SumOf({kMax, kMax, kTiny}),
                                      SumOf({1e-30, 1e30, 0x1p256, 0x1p-298}),
                                      SumOf({kInfinity}),
                                      SumOf({-kInfinity}),
                                      SumOf({kNan, 1}),
                                      SumOf({0x1p-10, 0x1p54})};
  std::string bytes;
  for (const ExactSum& sum : sums) sum.AppendCompact(&bytes);
  absl::Span<const std::byte> rest = AsBytes(bytes);
  for (const ExactSum& sum : sums) {
    const auto back = ExactSum::ReadCompact(&rest);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->Serialize(), sum.Serialize());
  }
  EXPECT_TRUE(rest.empty());
}

// What a sum of squares of float32 takes at most: 100 bytes, as common/wire.h
// counts on.
TEST(ExactSumTest, CompactFormsAreShort) {
  std::string bytes;
  SumOf({0x1p256, 0x1p-298, 0x1p286}).AppendCompact(&bytes);
  EXPECT_LE(bytes.size(), 100u);
  bytes.clear();
  SumOf({}).AppendCompact(&bytes);
  EXPECT_EQ(bytes.size(), 2u);
}

TEST(ExactSumTest, OtherCompactFormsAreRefused) {
  const auto read = [](const std::string& text) {
    absl::Span<const std::byte> bytes = AsBytes(text);
    return ExactSum::ReadCompact(&bytes).ok();
  };
  std::string good;
  SumOf({1, 0x1p-100}).AppendCompact(&good);
  ASSERT_TRUE(read(good));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(read(good.substr(0, size))) << size;
  const std::string limb(4, 1), zero(4, 0);
  const auto form = [](int first, int count) {
    return std::string{static_cast<char>(first), static_cast<char>(count)};
  };
  EXPECT_TRUE(read(form(3, 1) + limb));
  EXPECT_FALSE(read(form(3, 1) + zero)) << "longer than need be";
  EXPECT_FALSE(read(form(3, 2) + zero + limb));
  EXPECT_FALSE(read(form(3, 2) + limb + zero));
  EXPECT_FALSE(read(form(3, 0)));
  EXPECT_FALSE(read(form(69, 1) + limb)) << "the sign";
  EXPECT_FALSE(read(form(68, 1) + limb)) << "above what can add up";
  EXPECT_FALSE(read(form(69, 2) + limb + limb));
  EXPECT_FALSE(read(form(200, 1) + limb));
  for (int flags = 0; flags < 256; ++flags) {
    EXPECT_EQ(read(form(255, flags)), flags == 1 || flags == 2 || flags == 4);
  }
}

TEST(ExactSumTest, ParseRefusesSumsThatAreTooLarge) {
  std::string text = SumOf({0.0}).Serialize();
  text[66 * 8 + 2] = 1;  // 2^2128 units
  EXPECT_FALSE(ExactSum::Parse(AsBytes(text)).ok());
  text[66 * 8 + 2] = 0;
  text[66 * 8 + 1] = 1;
  EXPECT_TRUE(ExactSum::Parse(AsBytes(text)).ok());
}

}  // namespace
}  // namespace parapet
