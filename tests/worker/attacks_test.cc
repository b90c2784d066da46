#include "worker/attacks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "common/rng.h"

namespace parapet {
namespace {

// Rows i = 0 .. 8 of ((37 i^2 + 11 i j + 5 j^2 + 3 i + 7 j) mod 101) / 10.
std::vector<std::vector<float>> Honest() {
  std::vector<std::vector<float>> rows(9, std::vector<float>(4));
  for (int i = 0; i < 9; ++i) {
    for (int j = 0; j < 4; ++j) {
      rows[i][j] =
          static_cast<float>(
              (37 * i * i + 11 * i * j + 5 * j * j + 3 * i + 7 * j) % 101) /
          10;
    }
  }
  return rows;
}

class AttackTest : public testing::Test {
 protected:
  AttackTest() {
    for (const auto& row : rows_) pointers_.push_back(row.data());
    ids_.resize(rows_.size());
    std::iota(ids_.begin(), ids_.end(), 0);
  }

  std::vector<float> Make(const std::string& text, uint64_t key = 7) {
    absl::StatusOr<Attack> attack = ParseAttack(text);
    EXPECT_TRUE(attack.ok()) << attack.status();
    const AttackView view{pointers_, ids_, own_.data(), 4, 11, 2, key};
    std::vector<float> out(4, -1);
    if (!attack.ok()) return out;
    const absl::Status status = MakeAttack(*attack, view, out.data());
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  // 1e-6 of values up to 20 in float32.
  void ExpectVector(const std::string& text,
                    const std::vector<double>& expected) {
    const std::vector<float> made = Make(text);
    for (size_t j = 0; j < expected.size(); ++j)
      EXPECT_NEAR(made[j], expected[j], 2e-6) << text;
  }

  std::vector<std::vector<float>> rows_ = Honest();
  std::vector<const float*> pointers_;
  std::vector<int> ids_;
  std::vector<float> own_ = {1, -2, 0.5, 4};
};

TEST_F(AttackTest, Oracles) {
  ExpectVector("alie(1.5)",
               {-0.072328033, 0.057122273, -0.962743363, 0.551266239});
  ExpectVector("alie", {-0.072328033, 0.057122273, -0.962743363, 0.551266239});
  ExpectVector("min_max",
               {0.668022948, 0.964971393, -0.095109379, 1.499927597});
  ExpectVector("min_sum",
               {0.619890863, 0.905949832, -0.151516453, 1.438252729});
}

TEST_F(AttackTest, Simple) {
  EXPECT_EQ(Make("sign_flip"), (std::vector<float>{-10, 20, -5, -40}));
  EXPECT_EQ(Make("sign_flip(1)"), (std::vector<float>{-1, 2, -0.5, -4}));
  EXPECT_EQ(Make("scale"), (std::vector<float>{100, -200, 50, 400}));
  EXPECT_EQ(Make("zero"), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(Make("mimic(3)"), rows_[3]);
  EXPECT_EQ(Make("mimic"), rows_[0]);
  for (float value : Make("nan")) EXPECT_TRUE(std::isnan(value));
  for (float value : Make("inf")) EXPECT_TRUE(std::isinf(value));
  const std::vector<double> mean = {4.266666667, 5.377777778, 4.122222222,
                                    6.111111111};
  ExpectVector("ipm(0.5)",
               {-mean[0] / 2, -mean[1] / 2, -mean[2] / 2, -mean[3] / 2});
}

TEST_F(AttackTest, GaussianComesFromItsKeyAlone) {
  EXPECT_EQ(Make("gaussian", 1), Make("gaussian", 1));
  EXPECT_NE(Make("gaussian", 1), Make("gaussian", 2));
  const std::vector<float> one = Make("gaussian(1)"),
                           five = Make("gaussian(5)");
  for (int j = 0; j < 4; ++j) EXPECT_NEAR(five[j], 5 * one[j], 1e-5);
}

TEST_F(AttackTest, GaussianHasItsDeviation) {
  const Attack attack = *ParseAttack("gaussian(3)");
  std::vector<float> noise(20000);
  ASSERT_TRUE(
      MakeAttack(attack, {{}, {}, nullptr, 20000, 0, 0, 11}, noise.data())
          .ok());
  double squares = 0;
  for (float value : noise) squares += static_cast<double>(value) * value;
  // The variance of 20000 draws is within 1 % of 9 at one standard error: allow
  // four.
  EXPECT_NEAR(squares / 20000, 9, 0.36);
}

double SquaredDistance(const std::vector<float>& a,
                       const std::vector<float>& b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j)
    sum += (double{a[j]} - b[j]) * (double{a[j]} - b[j]);
  return sum;
}

// Straight from what the two attacks promise: as far as the honest vectors are
// apart, no farther.
TEST_F(AttackTest, MinMaxAndMinSumTouchTheirBounds) {
  const std::vector<float> far_max = Make("min_max"), far_sum = Make("min_sum");
  double diameter = 0, widest = 0, reached = 0, sum = 0;
  for (const auto& a : rows_) {
    double row = 0;
    for (const auto& b : rows_) {
      diameter = std::max(diameter, SquaredDistance(a, b));
      row += SquaredDistance(a, b);
    }
    widest = std::max(widest, row);
    reached = std::max(reached, SquaredDistance(far_max, a));
    sum += SquaredDistance(far_sum, a);
  }
  EXPECT_NEAR(reached / diameter, 1, 1e-5);
  EXPECT_NEAR(sum / widest, 1, 1e-5);
}

TEST_F(AttackTest, HonestThatAgreeAreCopied) {
  for (auto& row : rows_) row = rows_[0];
  for (const char* text : {"alie", "min_max", "min_sum"})
    EXPECT_EQ(Make(text), rows_[0]) << text;
  pointers_.resize(1);
  for (const char* text : {"alie", "min_max", "min_sum"})
    EXPECT_EQ(Make(text), rows_[0]) << text;
}

TEST(AttackParserTest, AlieZ) {
  const std::vector<std::tuple<int, int, double>> oracles = {{11, 2, 0.13971},
                                                             {20, 4, 0.15731},
                                                             {25, 5, 0.25335},
                                                             {50, 12, 0.33604},
                                                             {50, 24, 1.42608}};
  for (const auto& [n, f, z] : oracles) {
    ASSERT_TRUE(AlieZ(n, f).ok());
    EXPECT_NEAR(*AlieZ(n, f), z, 5e-6);
  }
  EXPECT_FALSE(AlieZ(10, 2).ok());  // z = 0
  EXPECT_FALSE(AlieZ(4, 3).ok());
  EXPECT_FALSE(AlieZ(2, 2).ok());
}

TEST(AttackParserTest, EveryName) {
  for (const char* text :
       {"none", "sign_flip", "ipm", "alie", "gaussian", "mimic", "zero", "nan",
        "inf", "scale", "min_max", "min_sum"}) {
    ASSERT_TRUE(ParseAttack(text).ok()) << text;
    EXPECT_EQ(ParseAttack(text)->makes_vector(), std::string(text) != "none");
  }
  for (const char* text :
       {"label_flip", "equivocate", "partial", "silent", "replay", "flood"}) {
    ASSERT_TRUE(ParseAttack(text).ok()) << text;
    EXPECT_FALSE(ParseAttack(text)->makes_vector());
  }
  EXPECT_TRUE(ParseAttack("alie(auto)")->automatic);
  EXPECT_EQ(ParseAttack("alie(z=0.5)")->strength, 0.5);
}

TEST(AttackParserTest, RefusesInWords) {
  EXPECT_EQ(ParseAttack("sign_flop").status().message().substr(0, 56),
            "there is no attack 'sign_flop'; expected one of none, si");
  EXPECT_EQ(ParseAttack("nan(3)").status().message(),
            "nan has no option '3'; it takes none");
  EXPECT_EQ(ParseAttack("alie(much)").status().message(),
            "alie: z must be a number or auto, not 'much'");
  EXPECT_FALSE(ParseAttack("zero + nan").ok());
  EXPECT_FALSE(ParseAttack("").ok());
}

// Workers leave, and an epoch's last round has no sample for some.
TEST_F(AttackTest, MimicOfOneThatIsNotThereIsHonest) {
  EXPECT_EQ(Make("mimic(9)"), own_);
  std::vector<float> in_place = own_;
  const AttackView view{pointers_, ids_, in_place.data(), 4, 10, 2, 1};
  const Attack mimic = *ParseAttack("mimic(9)");
  ASSERT_TRUE(MakeAttack(mimic, view, in_place.data()).ok());
  EXPECT_EQ(in_place, own_);
}

TEST_F(AttackTest, RefusesWhatItCannotMake) {
  const AttackView view{pointers_, ids_, own_.data(), 4, 10, 2, 1};
  std::vector<float> out(4);
  EXPECT_FALSE(MakeAttack(*ParseAttack("alie(auto)"), view, out.data()).ok());
  EXPECT_FALSE(MakeAttack(*ParseAttack("flood"), view, out.data()).ok());
}

}  // namespace
}  // namespace parapet
