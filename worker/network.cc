#include "worker/network.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/check_batch.h"
#include "worker/layer.h"
#include "worker/loss.h"

namespace parapet {
namespace {

// Calls a function that may throw what oneDNN and the allocator throw.
template <typename Function>
auto Caught(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "no memory for this batch: make it smaller");
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) {
      return absl::ResourceExhaustedError(
          "no memory for this batch: make it smaller");
    }
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
}

void Add(const PassResult& part, PassResult* sum) {
  sum->loss_sum += part.loss_sum;
  sum->correct += part.correct;
  sum->samples += part.samples;
}

}  // namespace

struct Network::Plan {
  int64_t batch = 0;
  bool training = false;
  Edge input;
  std::vector<std::unique_ptr<BuiltLayer>> layers;
  std::vector<const float*> weights;  // of each layer, in this pass
};

Network::Network(Layout layout, const InputShape& input,
                 std::vector<std::unique_ptr<Layer>> layers, int threads)
    : layout_(std::move(layout)),
      input_(input),
      layers_(std::move(layers)),
      threads_(threads),
      dnnl_(std::make_unique<OneDnn>()) {}

Network::~Network() = default;

Network::Plan& Network::PlanFor(int64_t batch, bool training) {
  auto at = std::find_if(
      plans_.begin(), plans_.end(), [&](const std::unique_ptr<Plan>& plan) {
        return plan->batch == batch && plan->training == training;
      });
  if (at != plans_.end()) {
    std::rotate(at, at + 1, plans_.end());
    return *plans_.back();
  }
  if (plans_.size() == kMaxPlans) plans_.erase(plans_.begin());
  plans_.push_back(Build(batch, training));
  return *plans_.back();
}

std::unique_ptr<Network::Plan> Network::Build(int64_t batch,
                                              bool training) const {
  auto plan = std::make_unique<Plan>();
  plan->batch = batch;
  plan->training = training;
  const dnnl::memory::dims dims = {batch, input_.channels, input_.height,
                                   input_.width};
  plan->input.value = dnnl::memory(PlainDesc(dims), dnnl_->engine, nullptr);
  const Edge* below = &plan->input;
  for (const std::unique_ptr<Layer>& layer : layers_) {
    plan->layers.push_back(layer->Build(*dnnl_, *below, batch, training));
    below = &plan->layers.back()->above();
  }
  plan->weights.resize(layers_.size());
  return plan;
}

absl::Status Network::Forward(Plan& plan, const float* weights,
                              const float* inputs,
                              const PassHooks& hooks) const {
  PointAt(inputs, &plan.input.value);
  for (size_t i = 0; i < layers_.size(); ++i) {
    PARAPET_ASSIGN_OR_RETURN(plan.weights[i],
                             hooks.Weights(layers_[i]->range(), weights));
    plan.layers[i]->Forward(plan.weights[i]);
  }
  return absl::OkStatus();
}

absl::Status Network::Backward(Plan& plan, float* gradient,
                               const PassHooks& hooks) const {
  for (size_t i = layers_.size(); i-- > 0;) {
    plan.layers[i]->WeightGradient(gradient + layers_[i]->range().begin);
    // Said before the gradient of the layer below is begun, so that it is on
    // its way meanwhile.
    PARAPET_RETURN_IF_ERROR(hooks.Ready(layers_[i]->range()));
    if (i > 0) plan.layers[i]->InputGradient(plan.weights[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<PassResult> Network::TrainChecked(const float* weights,
                                                 const Batch& batch,
                                                 float* gradient,
                                                 const PassHooks& hooks) {
  Plan& plan = PlanFor(batch.count, true);
  PARAPET_RETURN_IF_ERROR(Forward(plan, weights, batch.inputs, hooks));
  const Edge& outputs = plan.layers.back()->above();
  const PassResult result =
      SoftmaxCrossEntropy(Data(outputs.value), batch.labels, batch.count,
                          input_.classes, Data(outputs.gradient));
  PARAPET_RETURN_IF_ERROR(Backward(plan, gradient, hooks));
  return result;
}

absl::StatusOr<PassResult> Network::Train(const float* weights,
                                          const Batch& batch, float* gradient,
                                          const PassHooks& hooks) {
  PARAPET_RETURN_IF_ERROR(CheckBatch(batch, input_, kMaxBatch));
  const ThreadScope scope(threads_);
  return Caught([&] { return TrainChecked(weights, batch, gradient, hooks); });
}

absl::StatusOr<PassResult> Network::EvaluateSlice(const float* weights,
                                                  const Batch& batch) {
  Plan& plan = PlanFor(batch.count, false);
  PARAPET_RETURN_IF_ERROR(Forward(plan, weights, batch.inputs, {}));
  const Edge& outputs = plan.layers.back()->above();
  return SoftmaxCrossEntropy(Data(outputs.value), batch.labels, batch.count,
                             input_.classes, nullptr);
}

absl::StatusOr<PassResult> Network::Evaluate(const float* weights,
                                             const Batch& batch) {
  PARAPET_RETURN_IF_ERROR(CheckBatch(batch, input_, kMaxBatch));
  const ThreadScope scope(threads_);
  PassResult sum;
  for (int64_t at = 0; at < batch.count; at += kEvaluateBatch) {
    const Batch slice{batch.inputs + at * input_.features(), batch.labels + at,
                      std::min(kEvaluateBatch, batch.count - at)};
    absl::StatusOr<PassResult> part =
        Caught([&] { return EvaluateSlice(weights, slice); });
    if (!part.ok()) return part;
    Add(*part, &sum);
  }
  return sum;
}

absl::StatusOr<std::vector<std::string>> Network::Implementations(
    int64_t batch) {
  using Names = std::vector<std::string>;
  const ThreadScope scope(threads_);
  return Caught([&]() -> absl::StatusOr<Names> {
    Names names;
    for (const std::unique_ptr<BuiltLayer>& layer :
         PlanFor(batch, true).layers) {
      const Names& chosen = layer->implementations();
      names.insert(names.end(), chosen.begin(), chosen.end());
    }
    return names;
  });
}

}  // namespace parapet
