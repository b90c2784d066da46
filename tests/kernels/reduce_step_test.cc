#include <gtest/gtest.h>

#include "tests/kernels/mean_fixture.h"

namespace parapet::kernel_testing {
namespace {

// What a step leaves behind.
struct Outcome {
  std::vector<uint32_t> out, moment1, moment2;
  std::vector<uint8_t> publish;
  std::vector<int64_t> bad_values;
  int64_t bad_coordinates = 0, first_bad = -1;
  bool intact = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

class ReduceStepTest : public OnEveryTarget {
 protected:
  // One step from the same state each time, fused or as Reduce and then Step.
  Outcome Run(bool fused, const std::vector<Row>& rows, int64_t size,
              const OptimizerConfig& optimizer, DType publish_type,
              bool in_place) {
    std::mt19937_64 random(99);
    Guarded<float> in(size, 4), out(size, 8), moment1(size, 12),
        moment2(size, 4);
    Guarded<uint8_t> publish(size * SizeOf(publish_type), 1);
    in.Assign(RandomFloats(random, size));
    moment1.Assign(RandomFloats(random, size));
    std::vector<float> squares = RandomFloats(random, size);
    for (float& square : squares) square *= square;
    moment2.Assign(squares);
    const StepTarget target = {.in = in.data(),
                               .out = in_place ? in.data() : out.data(),
                               .moment1 = moment1.data(),
                               .moment2 = moment2.data(),
                               .publish = publish.bytes(),
                               .publish_dtype = publish_type};
    const StepFacts facts = {
        .lr = 0.1, .bias1 = 0.3, .bias2 = 0.2, .gradient_scale = 0.7};
    ReduceReport report;
    if (fused) {
      report = device_->ReduceStep(ReduceSpec(), rows, nullptr, size, optimizer,
                                   facts, target);
    } else {
      std::vector<float> aggregate(static_cast<size_t>(size));
      report =
          device_->Reduce(ReduceSpec(), rows, nullptr, size, aggregate.data());
      device_->Step(optimizer, facts, aggregate.data(), size, target);
    }
    return {.out = Bits(in_place ? in.Values() : out.Values()),
            .moment1 = Bits(moment1.Values()),
            .moment2 = Bits(moment2.Values()),
            .publish = publish.Values(),
            .bad_values = report.bad_values,
            .bad_coordinates = report.bad_coordinates,
            .first_bad = report.first_bad,
            .intact = in.Intact() && out.Intact() && moment1.Intact() &&
                      moment2.Intact() && publish.Intact()};
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, ReduceStepTest, EveryTarget(), TargetNameOf);

TEST_P(ReduceStepTest, HasTheBitsOfReduceThenStep) {
  std::mt19937_64 random(1);
  for (int64_t size : OddSizes()) {
    for (int kind = 0; kind <= 4; ++kind) {
      const DType type = kAllTypes[(size + kind) % 3];
      OwnedRows rows =
          RandomRows(random, 1 + kind, size, {type, DType::kFloat32});
      if (size % 2 == 1)
        rows.Add(std::vector<float>(static_cast<size_t>(size), kNan), 2);
      const OptimizerConfig optimizer = {
          .kind = static_cast<OptimizerKind>(kind),
          .weight_decay = size % 3 == 0 ? 0.1 : 0};
      const bool in_place = size % 4 < 2;
      const Outcome fused =
          Run(true, rows.rows(), size, optimizer, type, in_place);
      const Outcome apart =
          Run(false, rows.rows(), size, optimizer, type, in_place);
      ASSERT_TRUE(fused.intact);
      ASSERT_TRUE(fused == apart) << "size " << size << ", optimizer " << kind;
    }
  }
}

TEST_P(ReduceStepTest, ABadCoordinateStepsWithGradientZero) {
  OwnedRows rows(4);
  rows.Add({1, kNan, 1, kInfinity}, 1);
  const Outcome bad =
      Run(true, rows.rows(), 4, OptimizerConfig(), DType::kFloat32, false);
  OwnedRows zeros(4);
  zeros.Add({1, 0, 1, 0}, 1);
  const Outcome zero =
      Run(true, zeros.rows(), 4, OptimizerConfig(), DType::kFloat32, false);
  EXPECT_EQ(bad.out, zero.out);
  EXPECT_EQ(bad.bad_coordinates, 2);
  EXPECT_EQ(bad.first_bad, 1);
  EXPECT_EQ(bad.bad_values, (std::vector<int64_t>{2}));
}

TEST_P(ReduceStepTest, NobodyToReduceStillSteps) {
  const Outcome fused =
      Run(true, {}, 1030, OptimizerConfig(), DType::kBFloat16, true);
  EXPECT_TRUE(fused ==
              Run(false, {}, 1030, OptimizerConfig(), DType::kBFloat16, true));
  EXPECT_EQ(fused.bad_coordinates, 1030);
  EXPECT_EQ(fused.first_bad, 0);
}

}  // namespace
}  // namespace parapet::kernel_testing
