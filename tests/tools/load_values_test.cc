#include "tools/load_values.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

constexpr int64_t kElements = 1000;

class LoadValuesTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  const LoadValues values_{7, kElements, DType::kFloat32, 1, *device_};
};

TEST_F(LoadValuesTest, AreSmallWholeNumbers) {
  std::set<float> seen;
  for (int64_t i = 0; i < kElements; ++i) {
    const float value = values_.At(3, 5, i);
    EXPECT_EQ(value, std::trunc(value));
    EXPECT_GE(value, -31);
    EXPECT_LE(value, 32);
    seen.insert(value);
  }
  EXPECT_GT(seen.size(), 50u);
}

TEST_F(LoadValuesTest, AreTheSameInAnotherProcess) {
  const LoadValues again(7, kElements, DType::kFloat32, 1, *device_);
  const LoadValues other(8, kElements, DType::kFloat32, 1, *device_);
  int same = 0;
  for (int64_t i = 0; i < kElements; ++i) {
    ASSERT_EQ(values_.At(11, 22, i), again.At(11, 22, i));
    same += values_.At(11, 22, i) == other.At(11, 22, i) ? 1 : 0;
  }
  EXPECT_LT(same, kElements / 10);
}

TEST_F(LoadValuesTest, DifferByWorkerRoundAndPlace) {
  int worker = 0, round = 0, place = 0;
  for (int64_t i = 0; i + 1 < kElements; ++i) {
    worker += values_.At(1, 5, i) == values_.At(2, 5, i) ? 1 : 0;
    round += values_.At(1, 5, i) == values_.At(1, 6, i) ? 1 : 0;
    place += values_.At(1, 5, i) == values_.At(1, 5, i + 1) ? 1 : 0;
  }
  EXPECT_LT(worker, kElements / 10);
  EXPECT_LT(round, kElements / 10);
  EXPECT_LT(place, kElements / 10);
}

TEST_F(LoadValuesTest, PushesWhatItSays) {
  const Range range{100, 350};
  for (const DType wire :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const LoadValues values(7, kElements, wire, 1024, *device_);
    const Payload payload = values.Push(9, 4, range);
    ASSERT_EQ(payload.size(), static_cast<size_t>(range.size()) * SizeOf(wire));
    std::vector<float> got(static_cast<size_t>(range.size()));
    device_->Decode(payload.data(), wire, wire == DType::kFloat16 ? 1024 : 1,
                    range.size(), got.data());
    for (int64_t i = 0; i < range.size(); ++i)
      ASSERT_EQ(got[static_cast<size_t>(i)], values_.At(9, 4, range.begin + i));
  }
}

TEST_F(LoadValuesTest, SumsAreExact) {
  constexpr int kWorkers = 2000;
  const std::vector<int64_t> places = {0, 1, 500, 999};
  std::vector<float> at(places.size()), over(kElements);
  std::vector<int> workers(kWorkers);
  std::iota(workers.begin(), workers.end(), 0);
  values_.SumAt(workers, 3, places, at.data());
  values_.SumOver(workers, 3, {0, kElements}, over.data());
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t sum = 0;
    for (int worker = 0; worker < kWorkers; ++worker)
      sum += static_cast<int64_t>(values_.At(worker, 3, places[i]));
    EXPECT_EQ(at[i], static_cast<float>(sum));
    EXPECT_EQ(over[static_cast<size_t>(places[i])], static_cast<float>(sum));
  }
}

}  // namespace
}  // namespace parapet
