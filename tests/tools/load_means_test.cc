#include "tools/load_means.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

constexpr int64_t kElements = 5000, kLeaf = 1024, kChunk = 2048;
constexpr int kWorkers = 6, kAttackers = 2;

// The means of what an attack pushes, beside those of the servers' kernels.
class LoadMeansTest : public ::testing::TestWithParam<const char*> {
 protected:
  void Prepare(DType wire) {
    values_ =
        std::make_unique<LoadValues>(5, kElements, wire, kScale, *device_);
    const AttackPlan plan{.attack = ParseAttack(GetParam()).value(),
                          .text = GetParam(),
                          .workers = kWorkers,
                          .attackers = kAttackers};
    attacks_ =
        LoadAttacks::Create({plan, 5, wire, kScale}, *values_, map_, *device_)
            .value();
    means_ =
        std::make_unique<LoadMeans>(*values_, attacks_.get(), map_, *device_);
  }
  // As servers make it of the payloads, by a step of size 1 from 0.
  std::vector<float> ByKernels(const LoadTurnout& turnout, uint64_t round,
                               int64_t chunk) {
    const Range range = map_.ChunkRange(chunk);
    std::vector<Payload> payloads;
    for (const int id : turnout.honest)
      payloads.push_back(values_->Push(id, round, range));
    for (const int id : turnout.attackers)
      payloads.push_back(attacks_->Push(id, round, chunk));
    std::vector<Row> rows;
    for (const Payload& payload : payloads)
      rows.push_back({payload.data(), attacks_->wire(), attacks_->scale()});
    const auto size = static_cast<size_t>(range.size());
    std::vector<float> zeros(size, 0.0f), out(size);
    OptimizerConfig optimizer;
    optimizer.kind = OptimizerKind::kSgd;
    device_->ReduceStep({}, rows, nullptr, range.size(), optimizer, {1},
                        {zeros.data(), out.data()});
    for (float& value : out) value = -value;
    return out;
  }

  static constexpr double kScale = 8;
  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  const ShardMap map_ = ShardMap::Create(kElements, 2, kChunk, kLeaf).value();
  std::unique_ptr<LoadValues> values_;
  std::unique_ptr<LoadAttacks> attacks_;
  std::unique_ptr<LoadMeans> means_;
};

TEST_P(LoadMeansTest, AreThoseOfTheServers) {
  const LoadTurnout all{{0, 1, 2, 3}, {4, 5}}, some{{0, 2}, {5}};
  for (const DType wire :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    Prepare(wire);
    for (const LoadTurnout& turnout : {all, some}) {
      for (int64_t chunk = 0; chunk < map_.chunks(); ++chunk) {
        const std::vector<float> want = ByKernels(turnout, 7, chunk);
        const std::vector<float> got = means_->Of(turnout, 7, chunk, {});
        ASSERT_EQ(got, want) << chunk;
        // At some places the same.
        const int64_t begin = map_.ChunkRange(chunk).begin;
        const std::vector<int64_t> places = {begin, begin + 17, begin + 300};
        EXPECT_THAT(means_->Of(turnout, 7, chunk, places),
                    ::testing::ElementsAre(want[0], want[17], want[300]));
      }
    }
  }
}

TEST_P(LoadMeansTest, AttackersCount) {
  Prepare(DType::kFloat32);
  const bool none = std::string(GetParam()) == "nan";  // left out everywhere
  EXPECT_EQ(means_->Of({{0, 1, 2, 3}, {4, 5}}, 3, 1, {}) ==
                means_->Of({{0, 1, 2, 3}, {}}, 3, 1, {}),
            none);
}

INSTANTIATE_TEST_SUITE_P(Attacks, LoadMeansTest,
                         ::testing::Values("sign_flip", "scale", "ipm", "alie",
                                           "gaussian", "zero", "nan", "mimic",
                                           "min_max", "label_flip",
                                           "equivocate", "replay"));

}  // namespace
}  // namespace parapet
