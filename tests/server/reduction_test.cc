#include "server/reduction.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rules/apply_plan.h"
#include "server/rules/make_plan.h"

namespace parapet {
namespace {

// More than two pieces, and no whole number of anything.
constexpr int64_t kElements = 9001;
constexpr int64_t kLeaf = 512;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Noise(uint64_t seed, int64_t elements = kElements) {
  Random random(seed);
  std::vector<float> values(elements);
  for (float& value : values)
    value = static_cast<float>(2 * random.Uniform() - 1);
  return values;
}

class ReductionTest : public testing::Test {
 protected:
  static constexpr int kWorkers = 5;

  void SetUp() override {
    for (int w = 0; w < kWorkers; ++w) values_.push_back(Noise(10 + w));
  }

  // As they come from the wire; `shift` bytes from where a float would lie.
  std::vector<Row> RowsAs(DType dtype, double scale, size_t shift = 0) {
    bytes_.clear();
    std::vector<Row> rows;
    for (const auto& values : values_) {
      std::string& bytes =
          bytes_.emplace_back(values.size() * SizeOf(dtype) + shift + 8, '\0');
      device_->Encode(values.data(), kElements, dtype, scale,
                      bytes.data() + shift);
    }
    for (const std::string& bytes : bytes_)
      rows.push_back({bytes.data() + shift, dtype, scale, 1});
    return rows;
  }

  rules::Plan PlanOf(const std::string& rule, int f,
                     const std::vector<float>* previous = nullptr) {
    rules::RoundFacts facts;
    std::vector<const float*> rows;
    for (const auto& values : values_) rows.push_back(values.data());
    for (int w = 0; w < kWorkers; ++w) facts.workers.push_back(w);
    rules::PartialDistances sums(kWorkers);
    sums.AddLeaf(*device_, rows,
                 previous == nullptr ? nullptr : previous->data(), kElements);
    const rules::Distances distances = sums.Round();
    facts.distances = &distances;
    facts.f = f;
    return rules::MakePlan(*rules::Chain::Parse(rule), facts);
  }

  std::vector<float> Reduce(const rules::Plan& plan,
                            const std::vector<Row>& rows,
                            float* previous = nullptr) {
    std::vector<float> out(kElements);
    report_ = *ReduceByPlan(*shard_, plan, rows, nullptr, kElements, previous,
                            out.data());
    return out;
  }

  // All at once, by the library.
  std::vector<float> Whole(const rules::Plan& plan,
                           const float* previous = nullptr) {
    std::vector<const float*> rows;
    for (const auto& values : values_) rows.push_back(values.data());
    std::vector<float> out(kElements);
    rules::Shard shard;
    shard.rows = rows;
    shard.prev = previous;
    shard.elements = kElements;
    rules::ApplyPlan(*device_, plan, shard, out.data());
    return out;
  }

  std::vector<LeafSums> Measure(absl::Span<const Row> rows,
                                const float* previous, int64_t elements,
                                int64_t leaf) {
    std::shared_ptr<const KeptRows> kept;
    return *MeasureLeaves(*shard_, rows, previous, elements, leaf, &kept);
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  const std::unique_ptr<ShardDevice> shard_ = MakeHostShardDevice(*device_);
  std::vector<std::vector<float>> values_;
  std::vector<std::string> bytes_;
  ReduceReport report_;
};

TEST_F(ReductionTest, PiecesAreTheWholeBitForBit) {
  for (const char* rule : {"median", "krum", "nnm + trimmed_mean"}) {
    const rules::Plan plan = PlanOf(rule, 1);
    const std::vector<float> whole = Whole(plan);
    for (size_t shift : {0, 1, 2, 4}) {
      EXPECT_EQ(Reduce(plan, RowsAs(DType::kFloat32, 1, shift)), whole)
          << rule << " at " << shift;
    }
    EXPECT_EQ(report_.bad_coordinates, 0);
    EXPECT_THAT(report_.bad_values, testing::IsEmpty());
  }
}

TEST_F(ReductionTest, NarrowRowsAreReadAsWhatTheySay) {
  const rules::Plan plan = PlanOf("trimmed_mean", 1);
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const double scale = dtype == DType::kFloat16 ? 64 : 1;
    const std::vector<Row> rows = RowsAs(dtype, scale, 1);
    const std::vector<std::vector<float>> exact = values_;
    for (size_t w = 0; w < values_.size(); ++w) {
      device_->Decode(rows[w].data, dtype, scale, kElements, values_[w].data());
    }
    EXPECT_EQ(Reduce(plan, rows), Whole(plan));
    values_ = exact;
  }
}

TEST_F(ReductionTest, ThePreviousAggregateIsUsedAndReplaced) {
  std::vector<float> previous = Noise(3);
  const rules::Plan plan = PlanOf("centered_clip(tau=5)", 1, &previous);
  const std::vector<float> whole = Whole(plan, previous.data());
  EXPECT_EQ(Reduce(plan, RowsAs(DType::kFloat32, 1), previous.data()), whole);
  EXPECT_EQ(previous, whole);
}

TEST_F(ReductionTest, WhatIsNotFiniteIsCountedOverThePieces) {
  values_[2][5] = kNan;
  values_[2][8999] = std::numeric_limits<float>::infinity();
  for (auto& values : values_) values[7000] = kNan;
  const rules::Plan plan = PlanOf("median", 1);
  const std::vector<float> out = Reduce(plan, RowsAs(DType::kFloat32, 1));
  EXPECT_EQ(out, Whole(plan));
  EXPECT_EQ(out[7000], 0);
  ASSERT_EQ(report_.bad_values.size(), 5u);
  EXPECT_EQ(report_.bad_values[2], 3);
  EXPECT_EQ(report_.bad_values[0], 1);
  EXPECT_EQ(report_.bad_coordinates, 1);
  EXPECT_EQ(report_.first_bad, 7000);
}

TEST_F(ReductionTest, ABadPlanGivesZerosAndReadsNothing) {
  rules::Plan plan;
  plan.bad = plan.mixes = true;
  plan.workers = {0, 1};
  const std::vector<Row> rows(2);
  EXPECT_THAT(Reduce(plan, rows), testing::Each(0));
  EXPECT_EQ(report_.bad_coordinates, 0);
}

TEST_F(ReductionTest, RowsOfWeightZeroAreNotRead) {
  const rules::Plan plan = PlanOf("krum", 1);
  const std::vector<float> whole = Whole(plan);
  std::vector<Row> rows = RowsAs(DType::kFloat32, 1);
  const std::vector<double> weights = rules::WorkerWeights(plan);
  for (size_t w = 0; w < rows.size(); ++w) {
    if (weights[w] == 0) std::memset(bytes_[w].data(), 0xff, bytes_[w].size());
  }
  EXPECT_EQ(Reduce(plan, rows), whole);
}

// ---- Distances --------------------------------------------------------------

// The whole vector's distances, from any chunks in any order.
TEST_F(ReductionTest, DistancesOfShardsAddUpToTheWhole) {
  values_[3][4000] = kNan;
  const std::vector<float> previous = Noise(4);
  rules::PartialDistances whole(kWorkers);
  for (int64_t begin = 0; begin < kElements; begin += kLeaf) {
    std::vector<const float*> rows;
    for (const auto& values : values_) rows.push_back(values.data() + begin);
    whole.AddLeaf(*device_, rows, previous.data() + begin,
                  std::min(kLeaf, kElements - begin));
  }
  const std::vector<uint32_t> ids = {2, 3, 5, 7, 11};
  std::vector<ShardDistances> shards(2, ShardDistances(ids));
  const std::vector<Row> rows = RowsAs(DType::kFloat32, 1, 2);
  const int64_t chunk = 3 * kLeaf;
  for (int64_t c = kElements / chunk; c >= 0; --c) {
    std::vector<Row> part = rows;
    for (Row& row : part)
      row.data = static_cast<const char*>(row.data) + 4 * c * chunk;
    shards[c % 2].Add(ids,
                      Measure(part, previous.data() + c * chunk,
                              std::min(chunk, kElements - c * chunk), kLeaf));
  }
  const ShardReportMessage a = shards[0].Report(9, ids);
  const ShardReportMessage b = shards[1].Report(9, ids);
  EXPECT_EQ(a.round, 9u);
  EXPECT_EQ(a.workers, ids);
  rules::PartialDistances sum(*a.sums, a.finite);
  sum.Merge(rules::PartialDistances(*b.sums, b.finite));
  EXPECT_EQ(sum.finite(), whole.finite());
  EXPECT_FALSE(sum.finite()[3]);
  const rules::Distances one = sum.Round(), other = whole.Round();
  for (int i = 0; i < one.size(); ++i) {
    for (int j = 0; j < one.size(); ++j) {
      if (i == 3 || j == 3) continue;
      EXPECT_EQ(one(i, j), other(i, j)) << i << ", " << j;
    }
  }
}

// Whoever has a row in some chunks only is not in the report.
TEST_F(ReductionTest, DistancesOfThoseWhoStayed) {
  const std::vector<Row> rows = RowsAs(DType::kFloat32, 1);
  const std::vector<Row> fewer = {rows[0], rows[1], rows[4]};
  ShardDistances distances({0, 1, 2, 3, 4}), expected({0, 1, 4});
  distances.Add({0, 1, 2, 3, 4}, Measure(rows, nullptr, kElements, kLeaf));
  distances.Add({0, 1, 4}, Measure(fewer, nullptr, kElements, kLeaf));
  for (int twice = 0; twice < 2; ++twice) {
    expected.Add({0, 1, 4}, Measure(fewer, nullptr, kElements, kLeaf));
  }
  const ShardReportMessage a = distances.Report(1, {0, 1, 4});
  const ShardReportMessage b = expected.Report(1, {0, 1, 4});
  ASSERT_EQ(a.sums->size(), 10u);
  for (size_t i = 0; i < 10; ++i)
    EXPECT_EQ((*a.sums)[i].Serialize(), (*b.sums)[i].Serialize());
}

}  // namespace
}  // namespace parapet
