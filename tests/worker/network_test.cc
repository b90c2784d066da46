#include "worker/network.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/gradients.h"
#include "tests/worker/reference_network.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const InputShape kFashion{1, 28, 28, 10};

struct Case {
  std::string spec;
  InputShape input;
};

// A network with weights, and as many random samples as are asked for.
struct Fixture {
  explicit Fixture(const Case& which, int64_t count, int threads = 1)
      : input(which.input) {
    absl::StatusOr<std::unique_ptr<Network>> made =
        MakeNetwork(which.spec, input, {threads, "default"});
    if (!made.ok()) std::abort();
    network = *std::move(made);
    elements = network->layout().elements();
    weights.resize(elements);
    Initialize(network->layout(), 3, {0, elements}, weights.data());
    Random random(17);
    inputs.resize(count * input.features());
    for (float& x : inputs) x = static_cast<float>(random.Normal());
    for (int64_t s = 0; s < count; ++s) {
      labels.push_back(static_cast<int32_t>(random.Below(input.classes)));
    }
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

  InputShape input;
  std::unique_ptr<Network> network;
  int64_t elements = 0;
  std::vector<float> weights, inputs;
  std::vector<int32_t> labels;
  PassResult result;
};

double Tolerance(const Fixture& f, int64_t batch) {
  return GradientTolerance(f.network->layout(), f.input, batch);
}

class NetworkTest : public ::testing::TestWithParam<Case> {};

void ExpectGradientOfReference(Fixture& f, const Batch& batch) {
  ReferenceNetwork reference(f.network->layout(), f.input);
  const double loss =
      reference.Train({f.weights.begin(), f.weights.end()}, batch);
  const double tolerance = Tolerance(f, batch.count);
  ASSERT_GT(reference.margin, 1e-7)
      << "choose another seed: a kink is too near";
  const std::vector<float> gradient = f.Gradient(batch);
  EXPECT_NEAR(f.result.loss_sum, loss, tolerance * loss);
  EXPECT_EQ(f.result.samples, batch.count);
  for (const Tensor& tensor : f.network->layout().tensors()) {
    const Range range{tensor.offset, tensor.offset + tensor.elements};
    const double norm = Norm(reference.gradient, range);
    // Where every ReLU is off both are 0.
    EXPECT_LE(Distance(gradient, reference.gradient, range), tolerance * norm)
        << tensor.name;
  }
}

TEST_P(NetworkTest, IsTheReferenceNetwork) {
  Fixture f(GetParam(), 5);
  ExpectGradientOfReference(f, f.All());
  ExpectGradientOfReference(f, f.Part(2, 1));
  ExpectGradientOfReference(f, f.Part(0, 3));
}

TEST_P(NetworkTest, IsTheReferenceNetworkOnTwoThreads) {
  Fixture f(GetParam(), 5, 2);
  // Primitives are made and run by any thread.
  std::thread([&] { ExpectGradientOfReference(f, f.All()); }).join();
  ExpectGradientOfReference(f, f.All());
}

// Central differences of the reference's loss: what is off is h^2 times a third
// derivative, and the float64 loss's rounding divided by h: both below 1e-8.
// Then comes float32.
TEST_P(NetworkTest, IsTheSlopeOfTheLoss) {
  Fixture f(GetParam(), 3);
  const std::vector<float> gradient = f.Gradient(f.All());
  ReferenceNetwork reference(f.network->layout(), f.input);
  std::vector<double> weights(f.weights.begin(), f.weights.end());
  Random random(23);
  for (const Tensor& tensor : f.network->layout().tensors()) {
    const int64_t at =
        tensor.offset + static_cast<int64_t>(random.Below(tensor.elements));
    constexpr double kStep = 1e-7;
    const double before = weights[at];
    weights[at] = before + kStep;
    const double up = reference.Train(weights, f.All());
    weights[at] = before - kStep;
    const double down = reference.Train(weights, f.All());
    weights[at] = before;
    EXPECT_NEAR(gradient[at], (up - down) / (2 * kStep) / 3, 1e-6)
        << f.network->layout().Describe(at);
  }
}

TEST_P(NetworkTest, EvaluateIsTrainsLoss) {
  Fixture f(GetParam(), 70);
  for (int64_t count : {1, 2, 64, 70}) {
    f.Gradient(f.Part(0, count));
    const absl::StatusOr<PassResult> evaluated =
        f.network->Evaluate(f.weights.data(), f.Part(0, count));
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    EXPECT_EQ(evaluated->loss_sum, f.result.loss_sum);
    EXPECT_EQ(evaluated->correct, f.result.correct);
    EXPECT_EQ(evaluated->samples, count);
  }
}

TEST_P(NetworkTest, LargeBatchesAreEvaluatedInSlices) {
  const int64_t count = 2 * Network::kEvaluateBatch + 3;
  Fixture f(GetParam(), count);
  const PassResult whole = *f.network->Evaluate(f.weights.data(), f.All());
  double loss = 0;
  int64_t correct = 0;
  for (int64_t s = 0; s < count; ++s) {
    const PassResult one = *f.network->Evaluate(f.weights.data(), f.Part(s, 1));
    loss += one.loss_sum;
    correct += one.correct;
  }
  EXPECT_EQ(whole.samples, count);
  EXPECT_NEAR(whole.loss_sum, loss, loss * Tolerance(f, 1));
  EXPECT_EQ(whole.correct, correct);
}

TEST_P(NetworkTest, TheSameBitsTwice) {
  Fixture f(GetParam(), 20), g(GetParam(), 20);
  const std::vector<float> first = f.Gradient(f.Part(0, 20));
  for (int64_t count = 1; count < 12; ++count)
    f.Gradient(f.Part(0, count));  // drives the plan out
  EXPECT_LE(f.network->plans(), Network::kMaxPlans);
  EXPECT_TRUE(SameBits(f.Gradient(f.Part(0, 20)), first));
  EXPECT_TRUE(SameBits(g.Gradient(g.Part(0, 20)), first));
}

TEST_P(NetworkTest, ALargeBatchIsTheMeanOfItsParts) {
  constexpr int64_t kParts = 4, kEach = 16;
  Fixture f(GetParam(), kParts * kEach);
  const std::vector<float> whole = f.Gradient(f.All());
  std::vector<double> mean(f.elements);
  for (int64_t p = 0; p < kParts; ++p) {
    const std::vector<float> part = f.Gradient(f.Part(p * kEach, kEach));
    for (int64_t e = 0; e < f.elements; ++e)
      mean[e] += double{part[e]} / kParts;
  }
  const Range all{0, f.elements};
  EXPECT_LT(Distance(whole, mean, all), 1e-5 * Norm(mean, all));
}

// Weights arrive when they are asked for, where no vector begins, and are
// spoilt when they may be; a gradient is taken when it is ready and spoilt at
// once. The pass must not notice: it has the bits of weights in a replica.
TEST_P(NetworkTest, HooksSayWhatIsNeededAndWhatIsReady) {
  Fixture f(GetParam(), 6);
  const std::vector<float> expected = f.Gradient(f.All());
  const PassResult expected_result = f.result;
  std::vector<float> gradient(f.elements, kNan), taken(f.elements, kNan);
  std::map<int64_t, std::vector<float>> weights;  // by their first's place
  int64_t needed = 0, ready = f.elements;
  PassHooks hooks;
  hooks.need_weights = [&](Range range) {
    EXPECT_EQ(range.begin, needed);
    needed = range.end;
    std::vector<float>& own = weights[range.begin];
    own.assign(1, kNan);
    own.insert(own.end(), f.weights.begin() + range.begin,
               f.weights.begin() + range.end);
    return own.data() + 1;
  };
  hooks.gradient_ready = [&](Range range) {
    EXPECT_EQ(range.end, ready);
    weights.erase(ready);  // the layer above is done with
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
  EXPECT_EQ(pass->loss_sum, expected_result.loss_sum);
  EXPECT_TRUE(SameBits(taken, expected));
  for (float g : gradient)
    ASSERT_TRUE(std::isnan(g)) << "written after it was ready";
}

TEST_P(NetworkTest, AnErrorOfAHookAbandonsThePass) {
  Fixture f(GetParam(), 4);
  const std::vector<float> expected = f.Gradient(f.All());
  std::vector<float> gradient(f.elements);
  int calls = 0;
  PassHooks hooks;
  hooks.need_weights = [&](Range) {
    ++calls;
    return absl::AbortedError("weights");
  };
  EXPECT_EQ(f.network->Train(f.weights.data(), f.All(), gradient.data(), hooks)
                .status(),
            absl::AbortedError("weights"));
  EXPECT_EQ(calls, 1);
  hooks.need_weights = nullptr;
  hooks.gradient_ready = [&](Range) {
    ++calls;
    return absl::AbortedError("gradient");
  };
  EXPECT_EQ(f.network->Train(f.weights.data(), f.All(), gradient.data(), hooks)
                .status(),
            absl::AbortedError("gradient"));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(SameBits(f.Gradient(f.All()), expected));
}

TEST_P(NetworkTest, WeightsThatAreNanShow) {
  Fixture f(GetParam(), 4);
  for (const Tensor& tensor : f.network->layout().tensors()) {
    const float before = f.weights[tensor.offset];
    f.weights[tensor.offset] = kNan;
    f.Gradient(f.All());
    EXPECT_TRUE(std::isnan(f.result.loss_sum)) << tensor.name;
    f.weights[tensor.offset] = before;
  }
}

// A reference implementation of oneDNN can take minutes.
TEST_P(NetworkTest, NoImplementationIsOneDnnsReference) {
  Fixture f(GetParam(), 1);
  for (int64_t count : {1, 2, 7, 64, 96, 256}) {
    const absl::StatusOr<std::vector<std::string>> names =
        f.network->Implementations(count);
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_GE(names->size(), 2u);
    for (const std::string& name : *names)
      EXPECT_FALSE(absl::StartsWith(name, "ref")) << name;
  }
}

TEST_P(NetworkTest, RefusesBatchesThatAreNone) {
  Fixture f(GetParam(), 2);
  std::vector<float> gradient(f.elements);
  const auto refused = [&](const Batch& batch) {
    return absl::IsInvalidArgument(
               f.network->Train(f.weights.data(), batch, gradient.data(), {})
                   .status()) &&
           absl::IsInvalidArgument(
               f.network->Evaluate(f.weights.data(), batch).status());
  };
  EXPECT_TRUE(refused(f.Part(0, 0)));
  EXPECT_TRUE(refused(f.Part(0, -1)));
  EXPECT_TRUE(refused(f.Part(0, Network::kMaxBatch + 1)));
  f.labels[1] = static_cast<int32_t>(f.input.classes);
  EXPECT_TRUE(refused(f.All()));
  f.labels[1] = -1;
  EXPECT_TRUE(refused(f.All()));
}

INSTANTIATE_TEST_SUITE_P(All, NetworkTest,
                         ::testing::Values(Case{"softmax", {1, 1, 5, 2}},
                                           Case{"softmax", kFashion},
                                           Case{"mlp:1", {1, 2, 2, 3}},
                                           Case{"mlp:13,7,9", {2, 3, 3, 4}},
                                           Case{"mlp:256,128", kFashion},
                                           Case{"cnn:small", {1, 4, 4, 2}},
                                           Case{"cnn:small", {3, 9, 11, 4}},
                                           Case{"cnn:small", kFashion}),
                         [](const ::testing::TestParamInfo<Case>& which) {
                           std::string name =
                               absl::StrCat(which.param.spec, "_",
                                            which.param.input.features());
                           for (char& c : name)
                             c = absl::ascii_isalnum(c) ? c : '_';
                           return name;
                         });

// --- MakeModel and the fingerprint ---

TEST(MakeModelTest, ItsLayoutIsTheSpecs) {
  const auto model = MakeModel("cnn:small", kFashion, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->layout().hash(),
            ModelLayout("cnn:small", kFashion)->hash());
}

TEST(MakeModelTest, RefusesInWords) {
  EXPECT_TRUE(absl::IsInvalidArgument(MakeModel("gpt", kFashion, {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeModel("softmax", kFashion, {0, "default"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeModel("softmax", kFashion, {-1, "default"}).status()));
  const absl::Status isa = MakeModel("softmax", kFashion, {1, "mmx"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(isa));
  EXPECT_THAT(std::string(isa.message()), HasSubstr("sse41"));
  const absl::Status flat = MakeModel("flat:100", kFashion, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(flat));
  EXPECT_THAT(std::string(flat.message()), HasSubstr("parapet load"));
}

TEST(ComputeFingerprintTest, NamesVersionInstructionsAndThreads) {
  EXPECT_THAT(ComputeFingerprint({1, "default"}),
              ::testing::MatchesRegex(
                  "oneDNN [0-9]+[.][0-9]+[.][0-9]+ [a-z0-9_]+ 1 thread"));
  EXPECT_THAT(ComputeFingerprint({3, "default"}), HasSubstr(" 3 threads"));
}

// In a process of its own, since the cap is for a whole process.
void TrainOnSse41AndExit() {
  const bool named =
      absl::StrContains(ComputeFingerprint({1, "sse41"}), " sse41 1 thread");
  bool good = named;
  for (const char* spec : {"mlp:13,7", "cnn:small"}) {
    Fixture f({spec, {3, 9, 11, 4}}, 5);
    ExpectGradientOfReference(f, f.All());
    const auto names = f.network->Implementations(5);
    for (const std::string& name : *names)
      good = good && !absl::StartsWith(name, "ref");
  }
  std::exit(good && !::testing::Test::HasFailure() ? 0 : 1);
}

TEST(InstructionSetDeathTest, CanBeCapped) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(TrainOnSse41AndExit(), ::testing::ExitedWithCode(0), "");
}

void CapTooLateAndExit() {
  ComputeFingerprint({1, "default"});
  const absl::Status late =
      MakeModel("softmax", kFashion, {1, "sse41"}).status();
  const bool lower_anyway =
      absl::StrContains(ComputeFingerprint({}), " sse41 ");
  std::exit(absl::IsFailedPrecondition(late) || lower_anyway ? 0 : 1);
}

TEST(InstructionSetDeathTest, CannotBeCappedTooLate) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(CapTooLateAndExit(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace parapet
