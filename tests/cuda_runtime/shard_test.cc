// A shard on a GPU, the runtime being imitated: pieces, streams, staging and
// failures of all that a server asks of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "common/rng.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/cuda_runtime/fake_runtime.h"

namespace parapet {
namespace {

using cuda::fake::When;
using ::testing::HasSubstr;

constexpr int kRows = 7;
constexpr int64_t kElements = 5001;
constexpr int64_t kLeaf = 512;

// Pieces of 576 elements: nine of them, the last one short.
cuda::MemoryNeeds Needs() {
  cuda::MemoryNeeds needs;
  needs.shard_elements = needs.chunk_elements = kElements;
  needs.leaf_elements = kLeaf;
  needs.rows = kRows;
  needs.moments = 2;
  needs.previous = true;
  needs.distances = true;
  needs.calls = 2;
  needs.piece_bytes = 16 * 1024;
  return needs;
}

std::vector<float> Noise(uint64_t seed) {
  Random random(seed);
  std::vector<float> values(kElements);
  for (float& value : values)
    value = static_cast<float>(2 * random.Uniform() - 1);
  return values;
}

// What a round leaves behind, all of it.
struct Outcome {
  std::vector<std::vector<float>> memory;
  std::string published, squares, sums, flags;
  std::vector<ReduceReport> reports;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    if (a.reports.size() != b.reports.size()) return false;
    for (size_t i = 0; i < a.reports.size(); ++i) {
      if (a.reports[i].bad_values != b.reports[i].bad_values ||
          a.reports[i].bad_coordinates != b.reports[i].bad_coordinates ||
          a.reports[i].first_bad != b.reports[i].first_bad) {
        return false;
      }
    }
    return a.memory == b.memory && a.published == b.published &&
           a.squares == b.squares && a.sums == b.sums && a.flags == b.flags;
  }
};

// A shard of one chunk, and what servers do with it.
class Player {
 public:
  Player(const ShardDevice& device, DType wire, double scale)
      : device_(device), wire_(wire), scale_(scale) {}

  absl::Status Play(const ReduceSpec& spec, bool measure, Outcome* outcome) {
    outcome_ = outcome;
    PARAPET_RETURN_IF_ERROR(Begin());
    std::shared_ptr<const KeptRows> kept;
    if (measure) PARAPET_RETURN_IF_ERROR(Measure(&kept));
    PARAPET_RETURN_IF_ERROR(ReduceThenStep(spec, kept.get()));
    PARAPET_RETURN_IF_ERROR(StepAtOnce(spec, kept.get()));
    for (const auto& buffer : memory_) {
      std::vector<float> values(kElements);
      PARAPET_RETURN_IF_ERROR(device_.Download(
          buffer.get(), kElements * sizeof(float), values.data()));
      outcome_->memory.push_back(values);
    }
    return absl::OkStatus();
  }

 private:
  enum { kWeights, kMoment1, kMoment2, kPrevious, kAggregate, kBuffers };
  float* At(int buffer) const {
    return reinterpret_cast<float*>(memory_[buffer].get());
  }

  absl::Status Begin() {
    for (int i = 0; i < kBuffers; ++i) {
      PARAPET_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> buffer,
                               device_.Allocate(kElements * sizeof(float)));
      std::vector<float> values = Noise(100 + i);
      if (i == kMoment2)
        for (float& value : values) value *= value;
      PARAPET_RETURN_IF_ERROR(device_.Upload(
          values.data(), kElements * sizeof(float), buffer.get()));
      memory_.push_back(std::move(buffer));
    }
    const auto cpu = MakeCpuDevice();
    for (int r = 0; r < kRows; ++r) {
      std::string& bytes =
          bytes_.emplace_back(kElements * SizeOf(wire_) + 8, '\0');
      std::vector<float> values = Noise(r);
      if (r == 2) values[4000] = -1.0f / 0.0f;
      cpu->Encode(values.data(), kElements, wire_, scale_,
                  bytes.data() + r % 4);
    }
    for (int r = 0; r < kRows; ++r) {
      rows_.push_back({bytes_[r].data() + r % 4, wire_, scale_,
                       static_cast<double>(1 + r % 3)});
    }
    return absl::OkStatus();
  }

  absl::Status Measure(std::shared_ptr<const KeptRows>* kept) {
    const int64_t leaves = (kElements + kLeaf - 1) / kLeaf;
    std::vector<double> sums(leaves * PairCount(kRows));
    std::vector<uint8_t> finite(leaves * kRows);
    PARAPET_RETURN_IF_ERROR(device_.Distances(rows_, At(kPrevious), kElements,
                                              kLeaf, sums.data(), finite.data(),
                                              kept));
    // Sums of a row with an infinity mean nothing.
    for (int64_t leaf = 0; leaf < leaves; ++leaf) {
      for (int r = 0; r < kRows; ++r) {
        if (finite[leaf * kRows + r]) continue;
        std::fill_n(&sums[leaf * PairCount(kRows)], PairCount(kRows), 0.0);
      }
    }
    outcome_->sums.assign(reinterpret_cast<char*>(sums.data()),
                          sums.size() * sizeof(double));
    outcome_->flags.assign(finite.begin(), finite.end());
    return absl::OkStatus();
  }

  StepTarget Target() {
    StepTarget target;
    target.in = target.out = At(kWeights);
    target.moment1 = At(kMoment1);
    target.moment2 = At(kMoment2);
    publish_ = device_.AllocateHost(kElements * sizeof(float));
    target.publish = publish_.get();
    target.publish_dtype = wire_;
    return target;
  }
  void KeepPublished() {
    outcome_->published.append(reinterpret_cast<char*>(publish_.get()),
                               kElements * SizeOf(wire_));
  }

  absl::Status ReduceThenStep(const ReduceSpec& spec, const KeptRows* kept) {
    PARAPET_ASSIGN_OR_RETURN(ReduceReport report,
                             device_.Reduce(spec, rows_, kept, At(kPrevious),
                                            kElements, At(kAggregate)));
    outcome_->reports.push_back(report);
    std::vector<double> squares((kElements + kLeaf - 1) / kLeaf);
    PARAPET_RETURN_IF_ERROR(
        device_.LeafSquares(At(kAggregate), kElements, kLeaf, squares.data()));
    outcome_->squares.assign(reinterpret_cast<char*>(squares.data()),
                             squares.size() * sizeof(double));
    PARAPET_RETURN_IF_ERROR(
        device_.Step(optimizer_, facts_, At(kAggregate), kElements, Target()));
    KeepPublished();
    return absl::OkStatus();
  }

  absl::Status StepAtOnce(const ReduceSpec& spec, const KeptRows* kept) {
    PARAPET_ASSIGN_OR_RETURN(
        ReduceReport report,
        device_.ReduceStep(spec, rows_, kept, At(kPrevious), kElements,
                           optimizer_, facts_, Target()));
    outcome_->reports.push_back(report);
    KeepPublished();
    PARAPET_RETURN_IF_ERROR(
        device_.Encode(At(kWeights), kElements, wire_, publish_.get()));
    KeepPublished();
    return absl::OkStatus();
  }

  const ShardDevice& device_;
  const DType wire_;
  const double scale_;
  const OptimizerConfig optimizer_ = {.kind = OptimizerKind::kAdam};
  const StepFacts facts_ = {0.1, 0.5, 0.25, 1};
  Outcome* outcome_ = nullptr;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<std::string> bytes_;
  std::vector<Row> rows_;
  std::shared_ptr<std::byte> publish_;
};

struct Plan {
  std::string name;
  ReduceSpec spec;
  std::vector<double> mixing;
  bool measure = false;

  ReduceSpec Spec() const {
    ReduceSpec with = spec;
    with.mixing = mixing.data();
    return with;
  }
};

// Rows as they are, a selection, one sum, combinations with the previous
// aggregate. Row 2, which has an infinity, is in none of those that mix.
std::vector<Plan> Plans() {
  std::vector<Plan> plans(5);
  plans[0] = {"mean", {CoordinateOp::kMean}, {}, false};
  plans[1] = {"median", {CoordinateOp::kMedian, 2}, {}, true};
  plans[2] = {"selection", {CoordinateOp::kTrimmedMean, 1, 1, 4}, {}, true};
  plans[3] = {"sum", {CoordinateOp::kMean, 0, 1, 1}, {}, true};
  plans[4] = {"combinations", {CoordinateOp::kTrimmedMean, 1, 1, 3}, {}, true};
  plans[2].mixing.resize(4 * (kRows + 2));
  for (int r = 0; r < 4; ++r) plans[2].mixing[r * (kRows + 2) + 3 + r] = 1;
  plans[3].mixing = {0.25, 0, 0, 0.25, 0, 0, 0, 0.5, 0};
  plans[4].mixing = {0.5,  0, 0, 0.5, 0, 0, 0,   0,    0,  //
                     0.25, 0, 0, 0,   0, 0, 0,   0.75, 0,  //
                     0.1,  0, 0, 0.2, 0, 0, 0.7, 0,    0};
  return plans;
}

class CudaShard : public ::testing::Test {
 protected:
  ~CudaShard() override { cuda::fake::Reset(When::kAtOnce); }

  static std::unique_ptr<ShardDevice> Make(
      const cuda::MemoryNeeds& needs = Needs()) {
    cuda::GpuFacts gpu;
    gpu.name = "an imitation";
    gpu.major = 9;
    auto device = MakeCudaShardDevice(gpu, needs);
    EXPECT_TRUE(device.ok()) << device.status();
    return device.ok() ? *std::move(device) : nullptr;
  }

  Outcome OnHost(const Plan& plan, DType wire, double scale) {
    const auto host = MakeHostShardDevice(*cpu_);
    Outcome outcome;
    EXPECT_TRUE(Player(*host, wire, scale)
                    .Play(plan.Spec(), plan.measure, &outcome)
                    .ok());
    return outcome;
  }

  const std::unique_ptr<Device> cpu_ = MakeCpuDevice();
};

TEST_F(CudaShard, HasTheBitsOfTheHostWheneverItsWorkIsDone) {
  for (const Plan& plan : Plans()) {
    for (DType wire : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const double scale = wire == DType::kFloat16 ? 3 : 1;
      const Outcome expected = OnHost(plan, wire, scale);
      for (When when : {When::kAtOnce, When::kLate, When::kRandom}) {
        cuda::fake::Reset(when, 5);
        const auto device = Make();
        Outcome outcome;
        const absl::Status played =
            Player(*device, wire, scale)
                .Play(plan.Spec(), plan.measure, &outcome);
        ASSERT_TRUE(played.ok()) << played;
        EXPECT_TRUE(outcome == expected)
            << plan.name << ", " << std::string(NameOf(wire)) << ", "
            << static_cast<int>(when);
      }
    }
  }
}

TEST_F(CudaShard, RowsThatFindNoRoomAreStagedAgain) {
  const Plan plan = Plans()[4];
  const Outcome expected = OnHost(plan, DType::kFloat32, 1);
  cuda::fake::Reset(When::kLate);
  const cuda::MemoryPlan memory = cuda::PlanMemory(Needs());
  cuda::fake::SetFree(memory.needed() + (300 << 20));
  for (int64_t room : {int64_t{0}, memory.kept_wanted}) {
    cuda::fake::SetFree(memory.needed() + (256 << 20) + room);
    const auto device = Make();
    Outcome outcome;
    ASSERT_TRUE(Player(*device, DType::kFloat32, 1)
                    .Play(plan.Spec(), true, &outcome)
                    .ok());
    EXPECT_TRUE(outcome == expected) << room;
  }
}

TEST_F(CudaShard, TooLittleMemoryIsSaidInFigures) {
  cuda::fake::SetFree(1 << 20);
  cuda::GpuFacts gpu;
  gpu.name = "a small one";
  const auto device = MakeCudaShardDevice(gpu, Needs());
  EXPECT_TRUE(absl::IsResourceExhausted(device.status()));
  EXPECT_THAT(std::string(device.status().message()),
              HasSubstr("of which 1.0 MiB are free: weights "));
}

// Every call may fail: the caller hears of it, and nothing is left behind.
TEST_F(CudaShard, EveryFailureIsAnError) {
  for (const Plan& plan : {Plans()[1], Plans()[4]}) {
    cuda::fake::Reset(When::kRandom);
    auto device = Make();
    Outcome outcome;
    const int64_t before = cuda::fake::calls();
    ASSERT_TRUE(Player(*device, DType::kBFloat16, 1)
                    .Play(plan.Spec(), true, &outcome)
                    .ok());
    const int64_t all = cuda::fake::calls() - before;
    for (bool once : {false, true}) {
      // Two have another way: memory that is not pinned, and rows not kept.
      int survived = 0;
      for (int64_t call = 0; call < all; ++call) {
        cuda::fake::Reset(When::kRandom, static_cast<uint64_t>(call));
        device = Make();
        cuda::fake::FailAfter(call, once);
        Outcome failed;
        survived += Player(*device, DType::kBFloat16, 1)
                        .Play(plan.Spec(), true, &failed)
                        .ok();
        cuda::fake::FailAfter(-1);
      }
      EXPECT_LE(survived, once ? 8 : 0);
    }
  }
}

TEST_F(CudaShard, ThreadsShareWhatThereIs) {
  const Plan plan = Plans()[2];
  const Outcome expected = OnHost(plan, DType::kFloat32, 1);
  cuda::fake::Reset(When::kRandom);
  const auto device = Make();
  std::vector<Outcome> outcomes(5);
  std::vector<std::thread> threads;
  for (Outcome& outcome : outcomes) {
    threads.emplace_back([&] {
      EXPECT_TRUE(Player(*device, DType::kFloat32, 1)
                      .Play(plan.Spec(), true, &outcome)
                      .ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome == expected);
}

}  // namespace
}  // namespace parapet
