// The networks on this machine's GPU, if it has one and the build has CUDA.

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"
#include "tests/worker/gradients.h"
#include "tests/worker/reference_network.h"
#include "worker/gpu.h"
#include "worker/model.h"

namespace parapet {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class OnAGpuTest : public ::testing::TestWithParam<std::string> {
 protected:
  OnAGpuTest() {
    Random random(17);
    inputs_.resize(5 * input_.features());
    for (float& x : inputs_) x = static_cast<float>(random.Normal());
  }

  void SetUp() override {
    const cuda::DriverFacts facts = AskGpus();
    if (facts.gpus.empty()) GTEST_SKIP() << facts.why_none;
    compute_.gpu = 0;
    auto made = MakeModel(GetParam(), input_, compute_);
    ASSERT_TRUE(made.ok()) << made.status();
    model_ = *std::move(made);
    const int64_t elements = model_->layout().elements();
    weights_.resize(elements);
    Initialize(model_->layout(), 3, {0, elements}, weights_.data());
  }

  std::vector<float> Gradient(int64_t count, PassResult* result) {
    std::vector<float> gradient(weights_.size(), kNan);
    const absl::StatusOr<PassResult> pass = model_->Train(
        weights_.data(), {inputs_.data(), labels_, count}, gradient.data(), {});
    EXPECT_TRUE(pass.ok()) << pass.status();
    if (pass.ok()) *result = *pass;
    return gradient;
  }

  const InputShape input_{1, 28, 28, 10};
  const int32_t labels_[5] = {3, 9, 0, 3, 7};
  ComputeConfig compute_;
  std::unique_ptr<Model> model_;
  std::vector<float> weights_, inputs_;
};

TEST_P(OnAGpuTest, IsTheReferenceNetwork) {
  for (const int64_t count : {5, 1, 3}) {
    PassResult result;
    const std::vector<float> gradient = Gradient(count, &result);
    ReferenceNetwork reference(model_->layout(), input_);
    const double loss = reference.Train({weights_.begin(), weights_.end()},
                                        {inputs_.data(), labels_, count});
    const double tolerance = GradientTolerance(model_->layout(), input_, count);
    EXPECT_NEAR(result.loss_sum, loss, tolerance * loss);
    for (const Tensor& tensor : model_->layout().tensors()) {
      const Range range{tensor.offset, tensor.offset + tensor.elements};
      EXPECT_LE(Distance(gradient, reference.gradient, range),
                tolerance * Norm(reference.gradient, range))
          << tensor.name;
    }
  }
}

TEST_P(OnAGpuTest, TheSameBitsTwice) {
  PassResult first, second;
  const std::vector<float> gradient = Gradient(5, &first);
  EXPECT_TRUE(SameBits(Gradient(5, &second), gradient));
  EXPECT_EQ(first.loss_sum, second.loss_sum);
}

INSTANTIATE_TEST_SUITE_P(All, OnAGpuTest,
                         ::testing::Values("softmax", "mlp:256,128",
                                           "cnn:small"),
                         [](const ::testing::TestParamInfo<std::string>& spec) {
                           return spec.param.substr(0, 3);
                         });

}  // namespace
}  // namespace parapet
