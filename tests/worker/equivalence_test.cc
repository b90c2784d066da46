// k workers with a batch of b do what one worker with a batch of k b does.

#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "common/job.h"
#include "common/layout.h"
#include "common/sampler.h"
#include "gtest/gtest.h"
#include "kernels/device.h"
#include "worker/dataset.h"
#include "worker/model.h"

namespace parapet {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int kRounds = 12;
constexpr int64_t kSamples = 50;  // of a round; 4 workers take 13, 13, 12, 12
constexpr uint64_t kWorkers = 4;

double Norm(const std::vector<float>& x) {
  double sum = 0;
  for (float v : x) sum += double{v} * v;
  return std::sqrt(sum);
}

double Distance(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
  return std::sqrt(sum);
}

// A replica with its optimizer, trained on given samples.
class Replica {
 public:
  Replica(const std::string& model, const InputShape& shape,
          const OptimizerConfig& optimizer)
      : model_(*MakeModel(model, shape, {})),
        device_(MakeCpuDevice()),
        optimizer_(optimizer) {
    const auto d = static_cast<size_t>(model_->layout().elements());
    weights.resize(d);
    moment1_.resize(d);
    moment2_.resize(d);
    Initialize(model_->layout(), kSeed, {0, static_cast<int64_t>(d)},
               weights.data());
  }

  std::vector<float> Gradient(const Dataset& data,
                              absl::Span<const uint32_t> indices) {
    std::vector<float> inputs(indices.size() * data.shape().features());
    std::vector<int32_t> labels(indices.size());
    data.Gather(indices, inputs.data(), labels.data());
    std::vector<float> gradient(weights.size());
    const auto count = static_cast<int64_t>(indices.size());
    EXPECT_TRUE(model_
                    ->Train(weights.data(),
                            {inputs.data(), labels.data(), count},
                            gradient.data(), {})
                    .ok());
    return gradient;
  }

  // What the servers make of the shares of `workers` workers.
  std::vector<float> Aggregate(const Dataset& data,
                               absl::Span<const uint32_t> indices,
                               uint64_t workers) {
    std::vector<std::vector<float>> gradients;
    std::vector<Row> rows;
    for (uint64_t w = 0; w < workers; ++w) {
      const Share share = ShareOf(0, indices.size(), workers, w);
      gradients.push_back(
          Gradient(data, indices.subspan(share.begin, share.count)));
      rows.push_back(
          {nullptr, DType::kFloat32, 1, static_cast<double>(share.count)});
    }
    for (uint64_t w = 0; w < workers; ++w) rows[w].data = gradients[w].data();
    std::vector<float> aggregate(weights.size());
    device_->Reduce({}, rows, nullptr, static_cast<int64_t>(weights.size()),
                    aggregate.data());
    return aggregate;
  }

  void Step(const std::vector<float>& gradient, int round) {
    StepFacts facts{0.01, 1, 1, 1};
    if (optimizer_.moments() == 2) {
      facts.lr = 0.001;
      facts.bias1 = 1 - std::pow(optimizer_.beta1, round + 1);
      facts.bias2 = 1 - std::pow(optimizer_.beta2, round + 1);
    }
    device_->Step(optimizer_, facts, gradient.data(),
                  static_cast<int64_t>(weights.size()),
                  {weights.data(), weights.data(), moment1_.data(),
                   moment2_.data(), nullptr, DType::kFloat32});
  }

  std::vector<float> weights;

 private:
  std::unique_ptr<Model> model_;
  std::unique_ptr<Device> device_;
  const OptimizerConfig optimizer_;
  std::vector<float> moment1_, moment2_;
};

class Equivalence
    : public testing::TestWithParam<std::tuple<std::string, OptimizerKind>> {};

TEST_P(Equivalence, WorkersTogetherDoWhatOneWorkerDoes) {
  const auto& [model, kind] = GetParam();
  OptimizerConfig optimizer;
  optimizer.kind = kind;
  optimizer.weight_decay = 1e-4;
  const bool image = model != "mlp:32,16";
  // Images of the shape that the convolutions want; values do not matter here.
  const auto data =
      LoadData(image ? "synthetic:784,10,600" : "synthetic:20,5,600", kSeed);
  ASSERT_TRUE(data.ok()) << data.status();
  InputShape shape = data->train->shape();
  if (image) shape = {1, 28, 28, 10};
  Replica one(model, shape, optimizer), many(model, shape, optimizer);
  const std::vector<uint32_t> permutation = EpochPermutation(kSeed, 0, 600);
  for (int round = 0; round < kRounds; ++round) {
    const auto indices =
        absl::MakeConstSpan(permutation).subspan(round * kSamples, kSamples);
    // From equal weights: the same gradient but for rounding.
    const std::vector<float> whole = one.Aggregate(*data->train, indices, 1);
    const std::vector<float> parts =
        one.Aggregate(*data->train, indices, kWorkers);
    EXPECT_LE(Distance(whole, parts), 1e-5 * Norm(whole)) << "round " << round;
    // And each run by itself.
    many.Step(many.Aggregate(*data->train, indices, kWorkers), round);
    one.Step(whole, round);
  }
  EXPECT_LE(Distance(one.weights, many.weights), 1e-3 * Norm(one.weights));
}

INSTANTIATE_TEST_SUITE_P(
    All, Equivalence,
    testing::Combine(testing::Values("mlp:32,16", "cnn:small"),
                     testing::Values(OptimizerKind::kSgd,
                                     OptimizerKind::kMomentum,
                                     OptimizerKind::kNesterov,
                                     OptimizerKind::kAdam,
                                     OptimizerKind::kAdamW)),
    [](const auto& test) {
      return (std::get<0>(test.param) == "cnn:small" ? "cnn_" : "mlp_") +
             std::string(NameOf(std::get<1>(test.param)));
    });

}  // namespace
}  // namespace parapet
