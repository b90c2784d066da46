#include "worker/cuda/network.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/gradients.h"
#include "tests/worker/reference_network.h"
#include "tests/worker_cuda/host_nn.h"

namespace parapet {
namespace {

using cuda::Bf16;
using cuda::HostNn;
using cuda::Lane;
using cuda::Number;
using cuda::Pace;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  std::string spec;
  InputShape input;
};

// A network on the host's GPU, with weights and random samples.
struct Fixture {
  explicit Fixture(const Case& which, int64_t count,
                   const HostNn::Options& options = {},
                   Number number = Number::kFloat32)
      : input(which.input) {
    auto made_nn = std::make_unique<HostNn>(options);
    nn = made_nn.get();
    auto made =
        CudaNetwork::Make(which.spec, input, number, std::move(made_nn));
    if (!made.ok()) std::abort();
    network = *std::move(made);
    elements = network->layout().elements();
    weights.resize(elements);
    Initialize(network->layout(), 3, {0, elements}, weights.data());
    Random random(17);
    inputs.resize(count * input.features());
    for (float& x : inputs) x = static_cast<float>(random.Normal());
    for (int64_t s = 0; s < count; ++s)
      labels.push_back(static_cast<int32_t>(random.Below(input.classes)));
  }

  Batch Part(int64_t begin, int64_t count) const {
    return {inputs.data() + begin * input.features(), labels.data() + begin,
            count};
  }
  Batch All() const { return Part(0, static_cast<int64_t>(labels.size())); }

  // The gradient, with NaN where it was not written. Fills `result`.
  std::vector<float> Gradient(const Batch& batch) {
    std::vector<float> gradient(elements, kNan);
    absl::StatusOr<PassResult> pass =
        network->Train(weights.data(), batch, gradient.data(), {});
    EXPECT_TRUE(pass.ok()) << pass.status();
    if (pass.ok()) result = *pass;
    return gradient;
  }

  // Weights of another step.
  void Step(const std::vector<float>& gradient) {
    for (int64_t e = 0; e < elements; ++e) weights[e] -= 0.1f * gradient[e];
  }

  InputShape input;
  HostNn* nn = nullptr;  // the network's
  std::unique_ptr<CudaNetwork> network;
  int64_t elements = 0;
  std::vector<float> weights, inputs;
  std::vector<int32_t> labels;
  PassResult result;
};

void ExpectReference(Fixture& f, const Batch& batch) {
  ReferenceNetwork reference(f.network->layout(), f.input);
  const double loss =
      reference.Train({f.weights.begin(), f.weights.end()}, batch);
  ASSERT_GT(reference.margin, 1e-7)
      << "choose another seed: a kink is too near";
  const std::vector<float> gradient = f.Gradient(batch);
  const double tolerance =
      GradientTolerance(f.network->layout(), f.input, batch.count);
  EXPECT_NEAR(f.result.loss_sum, loss, tolerance * loss);
  EXPECT_EQ(f.result.samples, batch.count);
  for (const Tensor& tensor : f.network->layout().tensors()) {
    const Range range{tensor.offset, tensor.offset + tensor.elements};
    EXPECT_LE(Distance(gradient, reference.gradient, range),
              tolerance * Norm(reference.gradient, range))
        << tensor.name;
  }
}

class CudaNetworkTest : public ::testing::TestWithParam<Case> {};

TEST_P(CudaNetworkTest, IsTheReferenceNetworkForEveryBatch) {
  Fixture f(GetParam(), 5);
  for (const Batch& batch : {f.Part(2, 1), f.All(), f.Part(0, 3), f.All()})
    ExpectReference(f, batch);
}

// Against the network that the CPU trains: loss, correct ones and gradient, in
// rounds that follow upon each other.
TEST_P(CudaNetworkTest, TrainsAsOneDnnsDoes) {
  Fixture f(GetParam(), 12);
  const auto cpu = MakeModel(GetParam().spec, f.input, {});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  for (const int64_t count : {12, 5, 12, 1}) {
    const Batch batch = f.Part(12 - count, count);
    std::vector<float> expected(f.elements);
    const absl::StatusOr<PassResult> pass =
        (*cpu)->Train(f.weights.data(), batch, expected.data(), {});
    ASSERT_TRUE(pass.ok()) << pass.status();
    const std::vector<float> gradient = f.Gradient(batch);
    // Both are off by that much.
    const double tolerance =
        2 * GradientTolerance(f.network->layout(), f.input, count);
    EXPECT_NEAR(f.result.loss_sum, pass->loss_sum, tolerance * pass->loss_sum);
    EXPECT_EQ(f.result.correct, pass->correct);
    const Range all{0, f.elements};
    EXPECT_LE(Distance(gradient, expected, all),
              tolerance * Norm(expected, all));
    f.Step(gradient);
  }
}

// Where a wait is missing, the order of the lanes shows.
TEST_P(CudaNetworkTest, TheSameBitsAtEveryPace) {
  std::vector<HostNn::Options> paces(9);
  paces[0].pace = Pace::kEager;
  for (size_t i = 2; i < paces.size(); ++i)
    paces[i] = {.pace = Pace::kRandom, .seed = i};
  std::vector<std::vector<float>> gradients;
  std::vector<double> losses;
  for (const HostNn::Options& options : paces) {
    Fixture f(GetParam(), 7, options);
    for (const int64_t count : {4, 7, 2}) {
      gradients.push_back(f.Gradient(f.Part(0, count)));
      losses.push_back(f.result.loss_sum);
      f.Step(gradients.back());
      const auto evaluated =
          f.network->Evaluate(f.weights.data(), f.Part(1, 3));
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      losses.push_back(evaluated->loss_sum);
    }
  }
  for (size_t i = 3; i < gradients.size(); ++i)
    EXPECT_TRUE(SameBits(gradients[i], gradients[i % 3])) << i;
  for (size_t i = 6; i < losses.size(); ++i)
    EXPECT_EQ(losses[i], losses[i % 6]) << i;
}

TEST_P(CudaNetworkTest, EvaluateIsTrainsLoss) {
  Fixture f(GetParam(), 6);
  for (const int64_t count : {1, 6, 4}) {
    f.Gradient(f.Part(0, count));
    const absl::StatusOr<PassResult> evaluated =
        f.network->Evaluate(f.weights.data(), f.Part(0, count));
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    EXPECT_EQ(evaluated->loss_sum, f.result.loss_sum);
    EXPECT_EQ(evaluated->correct, f.result.correct);
    EXPECT_EQ(evaluated->samples, count);
  }
}

// Weights arrive when they are asked for and are spoilt when they may be; a
// gradient is taken when it is ready and spoilt at once. The pass must not
// notice.
TEST_P(CudaNetworkTest, HooksSayWhatIsNeededAndWhatIsReady) {
  for (const Pace pace : {Pace::kEager, Pace::kLazy}) {
    Fixture f(GetParam(), 3, {.pace = pace});
    const std::vector<float> expected = f.Gradient(f.All());
    std::vector<float> gradient(f.elements, kNan), taken(f.elements, kNan);
    std::map<int64_t, std::vector<float>> weights;  // by their first's place
    int64_t needed = 0, ready = f.elements;
    PassHooks hooks;
    hooks.need_weights = [&](Range range) {
      EXPECT_EQ(range.begin, needed);
      needed = range.end;
      weights[range.begin].assign(f.weights.begin() + range.begin,
                                  f.weights.begin() + range.end);
      return weights[range.begin].data();
    };
    hooks.gradient_ready = [&](Range range) {
      EXPECT_EQ(range.end, ready);
      weights.erase(ready);
      ready = range.begin;
      std::copy(gradient.begin() + range.begin, gradient.begin() + range.end,
                taken.begin() + range.begin);
      std::fill(gradient.begin() + range.begin, gradient.begin() + range.end,
                kNan);
      return absl::OkStatus();
    };
    const absl::StatusOr<PassResult> pass =
        f.network->Train(nullptr, f.All(), gradient.data(), hooks);
    ASSERT_TRUE(pass.ok()) << pass.status();
    EXPECT_EQ(needed, f.elements);
    EXPECT_EQ(ready, 0);
    EXPECT_TRUE(SameBits(taken, expected));
    for (const float g : gradient)
      ASSERT_TRUE(std::isnan(g)) << "written after it was ready";
  }
}

TEST_P(CudaNetworkTest, AnErrorOfAHookAbandonsThePass) {
  Fixture f(GetParam(), 3, {.pace = Pace::kRandom});
  const std::vector<float> expected = f.Gradient(f.All());
  std::vector<float> gradient(f.elements);
  // Other weights are half uploaded by then: they must not stay.
  std::vector<float> others(f.elements, 1.0f);
  int calls = 0;
  PassHooks hooks;
  const auto fail_second = [&](Range) {
    return ++calls % 2 == 0 ? absl::AbortedError("a hook") : absl::OkStatus();
  };
  const bool one_layer = f.network->layout().tensors().size() == 2;
  if (one_layer) calls = 1;
  hooks.need_weights = [&](Range range) -> absl::StatusOr<const float*> {
    PARAPET_RETURN_IF_ERROR(fail_second(range));
    return others.data() + range.begin;
  };
  EXPECT_EQ(
      f.network->Train(others.data(), f.All(), gradient.data(), hooks).status(),
      absl::AbortedError("a hook"));
  for (const Lane lane : {Lane::kCompute, Lane::kUpload, Lane::kDownload})
    EXPECT_EQ(f.nn->pending(lane), 0u);
  EXPECT_TRUE(SameBits(f.Gradient(f.All()), expected));
  calls = one_layer ? 1 : 0;
  hooks.need_weights = nullptr;
  hooks.gradient_ready = fail_second;
  EXPECT_EQ(
      f.network->Train(others.data(), f.All(), gradient.data(), hooks).status(),
      absl::AbortedError("a hook"));
  EXPECT_TRUE(SameBits(f.Gradient(f.All()), expected));
}

TEST_P(CudaNetworkTest, WeightsThatAreNanShow) {
  Fixture f(GetParam(), 2);
  for (const Tensor& tensor : f.network->layout().tensors()) {
    const float before = f.weights[tensor.offset];
    f.weights[tensor.offset] = kNan;
    f.Gradient(f.All());
    EXPECT_TRUE(std::isnan(f.result.loss_sum)) << tensor.name;
    f.weights[tensor.offset] = before;
  }
}

// Any call of CUDA may fail: the pass must end in words, whichever it is.
TEST_P(CudaNetworkTest, AFailureOfTheGpuEndsThePass) {
  int64_t calls = 0;
  {
    Fixture f(GetParam(), 2);
    f.Gradient(f.All());
    calls = f.nn->submitted();
  }
  for (int64_t k = 0; k < calls; ++k) {
    Fixture f(GetParam(), 2, {.fail_at = k});
    std::vector<float> gradient(f.elements);
    const absl::Status status =
        f.network->Train(f.weights.data(), f.All(), gradient.data(), {})
            .status();
    EXPECT_TRUE(absl::IsInternal(status)) << k;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("as the test wants it"));
    for (const Lane lane : {Lane::kCompute, Lane::kUpload, Lane::kDownload})
      EXPECT_EQ(f.nn->pending(lane), 0u);
  }
}

// Each product's operands are rounded by at most 2^-9 of themselves. There are
// two a layer on the way up and two on the way down, for each of the layers
// that a gradient has passed; a ReLU that flips adds no more than what it cuts.
TEST_P(CudaNetworkTest, BFloat16RoundsWhatProductsRead) {
  Fixture f(GetParam(), 5), g(GetParam(), 5, {}, Number::kBf16);
  const std::vector<float> exact = f.Gradient(f.All()),
                           rounded = g.Gradient(g.All());
  EXPECT_FALSE(SameBits(rounded, exact));
  const double layers =
      static_cast<double>(f.network->layout().tensors().size()) / 2;
  EXPECT_NEAR(g.result.loss_sum, f.result.loss_sum,
              2 * layers * 0x1p-9 * f.result.loss_sum);
  const Range all{0, f.elements};
  EXPECT_LE(Distance(rounded, exact, all),
            4 * layers * 0x1p-9 * Norm(exact, all));
}

INSTANTIATE_TEST_SUITE_P(All, CudaNetworkTest,
                         ::testing::Values(Case{"softmax", {1, 1, 5, 2}},
                                           Case{"softmax", {1, 6, 6, 40}},
                                           Case{"mlp:1", {1, 2, 2, 3}},
                                           Case{"mlp:13,7,9", {2, 3, 3, 4}},
                                           Case{"cnn:small", {1, 4, 4, 2}},
                                           Case{"cnn:small", {3, 9, 7, 4}}),
                         [](const ::testing::TestParamInfo<Case>& which) {
                           std::string name =
                               absl::StrCat(which.param.spec, "_",
                                            which.param.input.features());
                           for (char& c : name)
                             c = absl::ascii_isalnum(c) ? c : '_';
                           return name;
                         });

// ---- What overlaps

const Case kMlp{"mlp:13,7,9", {2, 3, 3, 4}};

// By the time that the weights of a layer are asked for, the layers below can
// be done: nothing holds their work back.
TEST(CudaOverlapTest, LayersComputeWhileTheNextWeightsAreAwaited) {
  Fixture f(kMlp, 3, {.pace = Pace::kEager});
  int64_t layer = 0;
  PassHooks hooks;
  hooks.need_weights = [&](Range range) {
    EXPECT_EQ(f.nn->products(), layer++);
    return f.weights.data() + range.begin;
  };
  std::vector<float> gradient(f.elements);
  ASSERT_TRUE(
      f.network->Train(f.weights.data(), f.All(), gradient.data(), hooks).ok());
  EXPECT_EQ(layer, 4);
}

// When a gradient is ready, the layers below have been submitted but need not
// have computed: 4 products forward, then one for the top's gradient, two for
// each below it.
TEST(CudaOverlapTest, AGradientIsReadyWhileTheLayersBelowCompute) {
  Fixture f(kMlp, 3, {.pace = Pace::kLazy});
  int64_t products = 5;
  PassHooks hooks;
  hooks.gradient_ready = [&](Range) {
    EXPECT_EQ(f.nn->products(), products);
    if (products < 11) {
      EXPECT_GT(f.nn->pending(Lane::kCompute), 0u);
    }
    products += 2;
    return absl::OkStatus();
  };
  std::vector<float> gradient(f.elements);
  ASSERT_TRUE(
      f.network->Train(f.weights.data(), f.All(), gradient.data(), hooks).ok());
  EXPECT_EQ(products, 13);
}

TEST(CudaOverlapTest, AStepWaitsForNoDeviceAndAllocatesNothing) {
  Fixture f(kMlp, 9);
  f.Gradient(f.All());
  const int64_t allocations = f.nn->allocations();
  for (const int64_t count : {9, 1, 5, 8, 2}) f.Gradient(f.Part(0, count));
  EXPECT_EQ(f.nn->allocations(), allocations);
  EXPECT_EQ(f.nn->drains(), 0);
}

TEST(CudaOverlapTest, AnEvaluationSendsItsWeightsOnce) {
  Fixture f(kMlp, 4);
  const auto uploaded = [&f] {
    const int64_t before = f.nn->uploaded_bytes();
    EXPECT_TRUE(f.network->Evaluate(f.weights.data(), f.All()).ok());
    return f.nn->uploaded_bytes() - before;
  };
  const auto batch =
      static_cast<int64_t>(f.inputs.size() + f.labels.size()) * 4;
  EXPECT_EQ(uploaded(), batch + f.elements * 4);
  EXPECT_EQ(uploaded(), batch);
  f.weights[0] = 5;
  EXPECT_GT(uploaded(), batch);
}

TEST(CudaModelTest, LargeBatchesAreEvaluatedInSlices) {
  const int64_t count = 2 * CudaNetwork::kEvaluateBatch + 3;
  Fixture f({"softmax", {1, 1, 5, 3}}, count);
  const PassResult whole = *f.network->Evaluate(f.weights.data(), f.All());
  double loss = 0;
  int64_t correct = 0;
  for (const int64_t begin : {int64_t{0}, count / 2}) {
    const PassResult part = *f.network->Evaluate(
        f.weights.data(),
        f.Part(begin, begin == 0 ? count / 2 : count - count / 2));
    loss += part.loss_sum;
    correct += part.correct;
  }
  EXPECT_EQ(whole.samples, count);
  EXPECT_NEAR(whole.loss_sum, loss,
              static_cast<double>(count) * 0x1p-50 * loss);
  EXPECT_EQ(whole.correct, correct);
}

// The one layer's rounding by hand: products of rounded numbers, all else as it
// is.
TEST(CudaModelTest, BFloat16ByHand) {
  Fixture f({"softmax", {1, 1, 5, 3}}, 4, {}, Number::kBf16);
  const std::vector<float> gradient = f.Gradient(f.All());
  const auto rounded = [](double value) {
    return double{
        cuda::WidenBFloat16(cuda::NarrowBFloat16(static_cast<float>(value)))};
  };
  std::vector<double> expected(f.elements);
  for (int s = 0; s < 4; ++s) {
    double outputs[3], sum = 0;
    for (int o = 0; o < 3; ++o) {
      outputs[o] = f.weights[15 + o];
      for (int k = 0; k < 5; ++k)
        outputs[o] +=
            rounded(f.weights[o * 5 + k]) * rounded(f.inputs[s * 5 + k]);
      sum += std::exp(outputs[o]);
    }
    for (int o = 0; o < 3; ++o) {
      const double g =
          (std::exp(outputs[o]) / sum - (o == f.labels[s] ? 1 : 0)) / 4;
      expected[15 + o] += g;
      for (int k = 0; k < 5; ++k)
        expected[o * 5 + k] += rounded(g) * rounded(f.inputs[s * 5 + k]);
    }
  }
  const Range all{0, f.elements};
  EXPECT_LE(Distance(gradient, expected, all), 0x1p-20 * Norm(expected, all));
}

// ---- What it refuses

TEST(CudaModelTest, RefusesBatchesThatAreNone) {
  Fixture f(kMlp, 2);
  std::vector<float> gradient(f.elements);
  const auto refused = [&](const Batch& batch) {
    return absl::IsInvalidArgument(
               f.network->Train(f.weights.data(), batch, gradient.data(), {})
                   .status()) &&
           absl::IsInvalidArgument(
               f.network->Evaluate(f.weights.data(), batch).status());
  };
  EXPECT_TRUE(refused(f.Part(0, 0)));
  EXPECT_TRUE(refused(f.Part(0, CudaNetwork::kMaxBatch + 1)));
  f.labels[1] = 4;
  EXPECT_TRUE(refused(f.All()));
}

TEST(CudaModelTest, ABatchThatDoesNotFitIsRefusedWithFigures) {
  Fixture f(kMlp, 64, {.device_bytes = 20000});
  std::vector<float> gradient(f.elements);
  const absl::Status status =
      f.network->Train(f.weights.data(), f.All(), gradient.data(), {}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::AllOf(HasSubstr("a batch of 64 samples"),
                       HasSubstr("MiB are wanted"), HasSubstr("MiB are free")));
  ExpectReference(f, f.Part(0, 5));
}

TEST(CudaModelTest, WeightsThatDoNotFitAreRefused) {
  const auto made = CudaNetwork::Make(
      "mlp:100", {1, 28, 28, 10}, Number::kFloat32,
      std::make_unique<HostNn>(HostNn::Options{.device_bytes = 1000}));
  EXPECT_TRUE(absl::IsResourceExhausted(made.status())) << made.status();
}

TEST(CudaModelTest, ConvolutionsWithoutALibraryAreRefusedInWords) {
  const HostNn::Options options{.convolutions = false};
  const auto made =
      CudaNetwork::Make("cnn:small", {1, 28, 28, 10}, Number::kFloat32,
                        std::make_unique<HostNn>(options));
  EXPECT_TRUE(absl::IsUnimplemented(made.status()));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("cuDNN"));
  Fixture f(kMlp, 3, options);
  ExpectReference(f, f.All());
}

TEST(CudaModelTest, RefusesAModelThatIsNone) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      CudaNetwork::Make("gpt", {1, 28, 28, 10}, Number::kFloat32,
                        std::make_unique<HostNn>(HostNn::Options{}))
          .status()));
}

}  // namespace
}  // namespace parapet
