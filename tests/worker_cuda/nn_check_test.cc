// The GPU's check, on the host: so that it is known to be right before it meets
// a GPU, and to find what is wrong.

#include "tests/cuda/gpu/nn_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker_cuda/host_nn.h"

namespace parapet::cuda {
namespace {

TEST(NnCheckTest, TheHostsGpuPasses) {
  HostNn nn({});
  const std::vector<NnLine> lines = CheckNn(&nn);
  EXPECT_GT(lines.size(), 50u);
  for (const NnLine& line : lines) EXPECT_TRUE(line.good) << line.words;
  nn.Drain();
}

// What computes one thing wrong.
class WrongNn : public HostNn {
 public:
  using HostNn::HostNn;
  using HostNn::Run;
  void Run(const BiasElement& element, int64_t elements) override {
    HostNn::Run(element, elements - 1);
  }
  void Multiply(const Product& product, Number stored, const void* a,
                const void* b, float* c) override {
    Product other = product;
    if (product.m == product.n) other.transpose_a = !product.transpose_a;
    HostNn::Multiply(other, stored, a, b, c);
  }
};

TEST(NnCheckTest, WhatIsWrongIsFound) {
  WrongNn nn({.convolutions = false});
  int bad = 0;
  for (const NnLine& line : CheckNn(&nn)) {
    if (!line.good) ++bad;
    if (line.words.find("bias") == 0) {
      EXPECT_FALSE(line.good) << line.words;
    }
  }
  EXPECT_GE(bad, 16);
  nn.Drain();
}

TEST(NnCheckTest, AFailureOfTheGpuIsBad) {
  HostNn nn({.fail_at = 20});
  const std::vector<NnLine> lines = CheckNn(&nn);
  EXPECT_FALSE(lines.back().good);
  EXPECT_THAT(lines.back().words, ::testing::HasSubstr("as the test wants it"));
  nn.Drain();
}

TEST(NnCheckTest, MeasuresInLines) {
  HostNn nn({});
  const std::vector<std::string> lines = MeasureNn(&nn, 9);
  EXPECT_EQ(lines.size(), 17u);
  EXPECT_THAT(lines.front(), ::testing::HasSubstr("TFLOP/s"));
  nn.Drain();
}

}  // namespace
}  // namespace parapet::cuda
