#include "kernels/cuda/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/leaf_squares.h"
#include "kernels/device.h"
#include "tests/cuda/host_run.h"
#include "tests/cuda/outputs.h"

namespace parapet::cuda {
namespace {

constexpr Stored kTypes[] = {Stored::kFloat32, Stored::kBFloat16,
                             Stored::kFloat16};

class CudaNumbers : public ::testing::Test {
 protected:
  const std::unique_ptr<Device> cpu_ = MakeCpuDevice();
};

// All 2^16 patterns of either type, by the CPU's kernels.
TEST_F(CudaNumbers, WidensLikeTheCpu) {
  for (Stored type : {Stored::kBFloat16, Stored::kFloat16}) {
    std::vector<uint16_t> stored(1 << 16);
    for (size_t i = 0; i < stored.size(); ++i)
      stored[i] = static_cast<uint16_t>(i);
    std::vector<float> ours(stored.size()), cpus(stored.size());
    for (double scale : {1.0, 1024.0, 3.0}) {
      for (size_t i = 0; i < stored.size(); ++i)
        DecodeAt(stored.data(), type, ScaleToDecode(scale),
                 static_cast<int64_t>(i), ours.data());
      cpu_->Decode(stored.data(), static_cast<DType>(type), scale,
                   static_cast<int64_t>(stored.size()), cpus.data());
      EXPECT_TRUE(testing::SameBits(ours, cpus)) << static_cast<int>(type);
    }
  }
}

TEST_F(CudaNumbers, NarrowsLikeTheCpu) {
  testing::Random random(1);
  std::vector<float> values;
  for (int i = 0; i < 200000; ++i)
    values.push_back(FloatOf(static_cast<uint32_t>(random.Next())));
  const auto count = static_cast<int64_t>(values.size());
  for (Stored type : kTypes) {
    for (double scale : {1.0, 1024.0, 3.0}) {
      std::vector<unsigned char> ours(values.size() * SizeOf(type)),
          cpus(ours.size());
      Report::Counter overflows = 0;
      for (int64_t j = 0; j < count; ++j)
        EncodeAt(values.data(), j, type, ScaleToEncode(scale), ours.data(),
                 &overflows);
      const int64_t cpu_overflows = cpu_->Encode(
          values.data(), count, static_cast<DType>(type), scale, cpus.data());
      EXPECT_TRUE(testing::SameBits(ours, cpus)) << static_cast<int>(type);
      EXPECT_EQ(overflows, static_cast<uint64_t>(cpu_overflows));
    }
  }
}

TEST_F(CudaNumbers, LeafSquaresLikeTheCpu) {
  testing::Random random(2);
  for (int64_t elements : {1, 15, 16, 17, 1000}) {
    for (int64_t leaf : {1, 16, 100, 4096}) {
      const std::vector<float> values = testing::RandomFloats(elements, random);
      const auto leaves = static_cast<size_t>((elements + leaf - 1) / leaf);
      std::vector<double> ours(leaves), cpus(leaves);
      host::LeafSquares({values.data(), elements, leaf, ours.data()});
      cpu_->LeafSquares(values.data(), elements, leaf, cpus.data());
      EXPECT_TRUE(testing::SameBits(ours, cpus)) << elements << " " << leaf;
    }
  }
}

TEST_F(CudaNumbers, WorkerMomentumLikeTheCpu) {
  testing::Random random(4);
  const std::vector<float> gradient = testing::RandomFloats(100, random);
  std::vector<float> ours = testing::RandomFloats(100, random), cpus = ours;
  for (int64_t j = 0; j < 100; ++j) {
    WorkerMomentumAt(0.9f, static_cast<float>(1 - 0.9), gradient.data(), j,
                     ours.data());
  }
  cpu_->WorkerMomentum(0.9, gradient.data(), 100, cpus.data());
  EXPECT_TRUE(testing::SameBits(ours, cpus));
}

}  // namespace
}  // namespace parapet::cuda
