// The GPU's kernels, run by the CPU, against the CPU's own: the same bits.

#include <gtest/gtest.h>

#include <memory>

#include "kernels/device.h"
#include "tests/cuda/outputs.h"

namespace parapet::cuda::testing {
namespace {

std::vector<parapet::Row> DeviceRows(const ReduceCase& c,
                                     const ReduceData& data) {
  std::vector<parapet::Row> rows;
  for (int r = 0; r < c.rows; ++r) {
    rows.push_back({data.Row(r), static_cast<DType>(c.stored), c.scale,
                    data.specification.rows[r].weight});
  }
  return rows;
}

ReduceSpec DeviceSpec(const ReduceCase& c, const ReduceData& data) {
  const ReduceSpecification& s = data.specification;
  ReduceSpec spec;
  spec.op = static_cast<CoordinateOp>(c.op);
  spec.f = s.f;
  spec.scale = s.scale;
  spec.mixed_rows = s.mixed_rows;
  spec.mixing = data.mixing.data();
  return spec;
}

// The report of kernels as a device reports it.
ReduceReport ReportOf(const ReduceOutputs& outputs, const ReducePlan& plan,
                      int rows) {
  ReduceReport report;
  report.bad_coordinates = static_cast<int64_t>(outputs.report[0]);
  report.first_bad = static_cast<int64_t>(outputs.report[1]);
  for (size_t i = 0; i < plan.reported().size(); ++i) {
    if (outputs.report[2 + i] == 0) continue;
    report.bad_values.resize(static_cast<size_t>(rows));
    report.bad_values[plan.reported()[i]] =
        static_cast<int64_t>(outputs.report[2 + i]);
  }
  return report;
}

TEST(CudaSameBits, Reductions) {
  const std::unique_ptr<Device> cpu = MakeCpuDevice();
  for (const ReduceCase& c : AllReduceCases(3)) {
    const ReduceData data = MakeData(c);
    const ReduceOutputs ours = RunOnHost(c, data, Limits());
    std::vector<float> aggregate(static_cast<size_t>(c.elements));
    const ReduceReport report =
        cpu->Reduce(DeviceSpec(c, data), DeviceRows(c, data),
                    c.previous ? data.previous.data() : nullptr, c.elements,
                    aggregate.data());
    ASSERT_TRUE(SameBits(ours.aggregate, aggregate)) << c.Name();
    const ReduceReport our_report = ReportOf(ours, PlanOf(data), c.rows);
    ASSERT_EQ(our_report.bad_coordinates, report.bad_coordinates) << c.Name();
    ASSERT_EQ(our_report.first_bad, report.first_bad) << c.Name();
    ASSERT_EQ(our_report.bad_values, report.bad_values) << c.Name();
  }
}

TEST(CudaSameBits, Steps) {
  const std::unique_ptr<Device> cpu = MakeCpuDevice();
  for (int kind = 0; kind < 5; ++kind) {
    ReduceCase c;
    c.rows = 3;
    c.elements = 100;
    c.optimizer = kind;
    c.published = Stored::kBFloat16;
    const ReduceData data = MakeData(c);
    OptimizerConfig optimizer;
    optimizer.kind = static_cast<OptimizerKind>(kind);
    optimizer.weight_decay = static_cast<double>(NumbersFor(kind).weight_decay);
    const StepFacts facts = {0.1, 0.3, 0.4, 0.5};
    std::vector<float> out(100), m1 = data.moment1, m2 = data.moment2;
    std::vector<unsigned char> publish(200);
    const StepTarget target = {data.weights.data(), out.data(),
                               m1.data(),           m2.data(),
                               publish.data(),      DType::kBFloat16};
    cpu->Step(optimizer, facts, data.previous.data(), c.elements, target);

    // The numbers as a device makes them.
    const auto f = [](double x) { return static_cast<float>(x); };
    const StepNumbers numbers = {.kind = static_cast<Optimizer>(kind),
                                 .decay = true,
                                 .gradient_scale = 0.5f,
                                 .weight_decay = f(optimizer.weight_decay),
                                 .shrink = f(1 - 0.1 * optimizer.weight_decay),
                                 .lr = f(0.1),
                                 .momentum = f(optimizer.momentum),
                                 .beta1 = f(optimizer.beta1),
                                 .one_minus_beta1 = f(1 - optimizer.beta1),
                                 .beta2 = f(optimizer.beta2),
                                 .one_minus_beta2 = f(1 - optimizer.beta2),
                                 .step_size = f(0.1 / 0.3),
                                 .root_bias2 = f(std::sqrt(0.4)),
                                 .epsilon = f(optimizer.epsilon)};
    std::vector<float> our_out(100), our_m1 = data.moment1,
                                     our_m2 = data.moment2;
    std::vector<unsigned char> our_publish(200);
    for (int64_t j = 0; j < 100; ++j) {
      StepElement(numbers, data.previous[j], j,
                  {data.weights.data(), our_out.data(), our_m1.data(),
                   our_m2.data(), our_publish.data(), Stored::kBFloat16});
    }
    EXPECT_TRUE(SameBits(out, our_out)) << kind;
    EXPECT_TRUE(SameBits(m1, our_m1)) << kind;
    EXPECT_TRUE(SameBits(m2, our_m2)) << kind;
    EXPECT_TRUE(SameBits(publish, our_publish)) << kind;
  }
}

TEST(CudaSameBits, Distances) {
  const std::unique_ptr<Device> cpu = MakeCpuDevice();
  for (const DistanceCase& c : AllDistanceCases()) {
    const DistanceData data = MakeData(c);
    const DistanceOutputs ours = RunOnHost(c, data, Limits());
    std::vector<double> sums(ours.sums.size());
    std::vector<uint8_t> finite(ours.finite.size());
    std::vector<parapet::Row> rows;
    for (int r = 0; r < c.rows; ++r) {
      rows.push_back({data.rows.data() + r * data.row_stride,
                      static_cast<DType>(c.stored), c.scale, 1});
    }
    cpu->Distances(rows, c.previous ? data.previous.data() : nullptr,
                   c.elements, c.leaf, sums.data(), finite.data());
    ASSERT_EQ(ours.finite, finite) << c.Name();
    if (c.bad_values) continue;  // sums of such rows mean nothing
    ASSERT_TRUE(SameBits(ours.sums, sums)) << c.Name();
  }
}

}  // namespace
}  // namespace parapet::cuda::testing
