#include "tools/load_checker.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using Verdict = LoadChecker::Verdict;

constexpr int64_t kElements = 100000, kChunk = 16384;
constexpr int kWorkers = 5;
constexpr double kLr = 1.0 / 1024;

// What servers would publish: mean and sgd step of the device, of all workers.
class Reference {
 public:
  Reference(const Device& device, const LoadValues& values)
      : device_(device), values_(values), weights_(kElements, 0.0f) {}

  void Step(uint64_t round) {
    std::vector<Row> rows;
    for (int worker = 0; worker < kWorkers; ++worker)
      rows.push_back({values_.VectorOf(worker, round)});
    const std::vector<float> before = weights_;
    OptimizerConfig optimizer;
    optimizer.kind = OptimizerKind::kSgd;
    device_.ReduceStep({}, rows, nullptr, kElements, optimizer, {kLr},
                       {before.data(), weights_.data()});
  }
  Payload Chunk(const ShardMap& map, int64_t chunk, DType wire) const {
    const Range range = map.ChunkRange(chunk);
    std::string stored(static_cast<size_t>(range.size()) * SizeOf(wire), '\0');
    device_.Encode(weights_.data() + range.begin, range.size(), wire, 1,
                   stored.data());
    return Payload::FromString(std::move(stored));
  }

 private:
  const Device& device_;
  const LoadValues& values_;
  std::vector<float> weights_;
};

class LoadCheckerTest : public ::testing::TestWithParam<LoadCheck> {
 protected:
  LoadChecker Make(DType wire, bool values = true) {
    return LoadChecker({GetParam(), values, kLr, wire}, 3, map_, means_,
                       attendance_, *device_);
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  const ShardMap map_ = ShardMap::Create(kElements, 2, kChunk).value();
  const LoadValues values_{3, kElements, DType::kFloat32, 1, *device_};
  const LoadMeans means_{values_, nullptr, map_, *device_};
  // Nobody of this process: all are taken to have pushed.
  const LoadAttendance attendance_{
      {.attack = {}, .text = "none", .workers = kWorkers, .attackers = 0},
      0,
      0};
  Reference reference_{*device_, values_};
};

TEST_P(LoadCheckerTest, WhatServersMakeIsRight) {
  for (const DType wire :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    LoadChecker checker = Make(wire);
    Reference reference(*device_, values_);
    for (uint64_t version = 0; version < 6; ++version) {
      for (int64_t chunk = 0; chunk < map_.chunks(); ++chunk) {
        const Payload data = reference.Chunk(map_, chunk, wire);
        // Two players.
        EXPECT_EQ(checker.Check(version, chunk, data).verdict, Verdict::kRight);
        EXPECT_EQ(checker.Check(version, chunk, data).verdict, Verdict::kRight);
      }
      reference.Step(version);
    }
  }
}

TEST_P(LoadCheckerTest, AnOldVersionIsWrong) {
  LoadChecker checker = Make(DType::kFloat32);
  for (uint64_t round = 0; round < 3; ++round) reference_.Step(round);
  const Payload old = reference_.Chunk(map_, 1, DType::kFloat32);
  // Few values of a step are 0, so some may be as before.
  EXPECT_NE(checker.Check(4, 1, old).verdict, Verdict::kRight);
  EXPECT_EQ(checker.Check(3, 1, old).verdict, Verdict::kRight);
}

TEST_P(LoadCheckerTest, HalfOfAnotherVersionIsTorn) {
  LoadChecker checker = Make(DType::kFloat32);
  reference_.Step(0);
  const std::string old = reference_.Chunk(map_, 2, DType::kFloat32).ToString();
  reference_.Step(1);
  std::string data = reference_.Chunk(map_, 2, DType::kFloat32).ToString();
  std::memcpy(data.data() + data.size() / 2, old.data() + data.size() / 2,
              data.size() / 2);
  EXPECT_EQ(checker.Check(2, 2, Payload::FromString(data)).verdict,
            Verdict::kTorn);
}

TEST_P(LoadCheckerTest, OneBitThatAnotherPlayerDidNotGetIsTorn) {
  for (const bool values : {true, false}) {
    LoadChecker checker = Make(DType::kFloat32, values);
    const Payload right = reference_.Chunk(map_, 0, DType::kFloat32);
    EXPECT_EQ(checker.Check(0, 0, right).verdict, Verdict::kRight);
    for (const size_t at : {size_t{0}, size_t{12345}, right.size() - 1}) {
      std::string data = right.ToString();
      data[at] = static_cast<char>(data[at] ^ 1);
      EXPECT_EQ(checker.Check(0, 0, Payload::FromString(data)).verdict,
                Verdict::kTorn)
          << at;
    }
    EXPECT_EQ(checker.Check(0, 0, right).verdict, Verdict::kRight);
  }
}

TEST_P(LoadCheckerTest, OneWorkerLessIsSeen) {
  const LoadAttendance more(
      {.attack = {}, .text = "none", .workers = kWorkers + 1, .attackers = 0},
      0, 0);
  LoadChecker checker({GetParam(), true, kLr, DType::kFloat32}, 3, map_, means_,
                      more, *device_);
  reference_.Step(0);
  EXPECT_NE(
      checker.Check(1, 0, reference_.Chunk(map_, 0, DType::kFloat32)).verdict,
      Verdict::kRight);
}

INSTANTIATE_TEST_SUITE_P(HowMuch, LoadCheckerTest,
                         ::testing::Values(LoadCheck::kSampled,
                                           LoadCheck::kFull));

}  // namespace
}  // namespace parapet
