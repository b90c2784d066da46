#include "worker/cuda/network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/check_batch.h"

namespace parapet {
namespace {

using cuda::Lane;

int64_t Bytes(Range range) {
  return range.size() * static_cast<int64_t>(sizeof(float));
}

bool HasConvolutions(const Layout& layout) {
  return absl::StartsWith(layout.tensors().front().name, "conv");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaNetwork>> CudaNetwork::Make(
    const std::string& spec, const InputShape& input, cuda::Number number,
    std::unique_ptr<cuda::Nn> nn) {
  PARAPET_ASSIGN_OR_RETURN(Layout layout, ModelLayout(spec, input));
  if (HasConvolutions(layout) && !nn->has_convolutions()) {
    return absl::UnimplementedError(absl::StrCat(
        "this build has no cuDNN, which the convolutions of ", spec,
        " need on a GPU: give --device=cpu, or build where cuDNN is"));
  }
  std::unique_ptr<CudaNetwork> network(
      new CudaNetwork(std::move(layout), input, std::move(nn)));
  network->AddLayers(number);
  PARAPET_RETURN_IF_ERROR(network->memory_.ReserveWeights());
  PARAPET_RETURN_IF_ERROR(network->Failure());
  return network;
}

CudaNetwork::CudaNetwork(Layout layout, const InputShape& input,
                         std::unique_ptr<cuda::Nn> nn)
    : layout_(std::move(layout)),
      input_(input),
      nn_(std::move(nn)),
      memory_(nn_.get(), layout_.elements(), input_),
      batch_here_(nn_->MakeEvent()),
      loss_done_(nn_->MakeEvent()),
      loss_here_(nn_->MakeEvent()) {}

// A layer for each weight and bias of the layout, which alone says what the
// network is.
void CudaNetwork::AddLayers(cuda::Number number) {
  const std::vector<Tensor>& tensors = layout_.tensors();
  int64_t height = input_.height, width = input_.width;
  for (size_t i = 0; i + 1 < tensors.size(); i += 2) {
    const Tensor &weight = tensors[i], &bias = tensors[i + 1];
    Stage stage;
    if (absl::StartsWith(weight.name, "conv")) {
      stage.layer = MakeGpuConvolution(weight, bias, height, width, number);
      height /= 2;
      width /= 2;
    } else {
      stage.layer = MakeGpuLinear(weight, bias, i + 2 < tensors.size(), number);
    }
    stage.weights_here = nn_->MakeEvent();
    stage.gradient_done = nn_->MakeEvent();
    stage.gradient_here = nn_->MakeEvent();
    stages_.push_back(std::move(stage));
  }
}

absl::Status CudaNetwork::Failure() const {
  if (nn_->failure().empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("CUDA: ", nn_->failure()));
}

absl::Status CudaNetwork::Reserve(int64_t batch, bool training) {
  return memory_.ReserveBatch(batch, training,
                              [this](int64_t most, bool both, Carver* carver) {
                                GpuEdge below{memory_.inputs, nullptr};
                                for (Stage& stage : stages_) {
                                  stage.layer->Carve(below, most, both, carver);
                                  below = stage.layer->above();
                                }
                              });
}

void CudaNetwork::SendBatch(const Batch& batch) {
  const int64_t inputs = batch.count * input_.features();
  std::copy_n(batch.inputs, inputs, memory_.sent_inputs);
  std::copy_n(batch.labels, batch.count, memory_.sent_labels);
  nn_->Upload(memory_.sent_inputs, memory_.inputs, Bytes({0, inputs}));
  nn_->Upload(memory_.sent_labels, memory_.labels,
              batch.count * static_cast<int64_t>(sizeof(int32_t)));
  nn_->Record(Lane::kUpload, batch_here_);
  nn_->Wait(Lane::kCompute, batch_here_);
}

// An evaluation comes in many batches with the same weights: they are sent
// once.
void CudaNetwork::SendWeights(const float* weights, Stage* stage) {
  const Range range = stage->layer->range();
  float* const pinned = memory_.sent_weights + range.begin;
  const auto bytes = static_cast<size_t>(Bytes(range));
  if (stage->sent && std::memcmp(weights, pinned, bytes) == 0) return;
  std::memcpy(pinned, weights, bytes);
  nn_->Upload(pinned, memory_.weights + range.begin, Bytes(range));
  nn_->Record(Lane::kUpload, stage->weights_here);
  nn_->Wait(Lane::kCompute, stage->weights_here);
  stage->sent = true;
}

absl::Status CudaNetwork::Forward(const float* weights, int64_t count,
                                  const PassHooks& hooks) {
  for (Stage& stage : stages_) {
    PARAPET_ASSIGN_OR_RETURN(const float* const own,
                             hooks.Weights(stage.layer->range(), weights));
    SendWeights(own, &stage);
    stage.layer->Forward(nn_.get(), memory_.weights, count);
  }
  return Failure();
}

void CudaNetwork::Loss(int64_t count, bool training) {
  const GpuEdge& outputs = stages_.back().layer->above();
  nn_->Run(
      cuda::SoftmaxLoss{outputs.value, memory_.labels, count, input_.classes,
                        training ? outputs.gradient : nullptr, memory_.losses});
  nn_->Run(cuda::SumLosses{memory_.losses, count, memory_.loss});
  nn_->Record(Lane::kCompute, loss_done_);
  nn_->Wait(Lane::kDownload, loss_done_);
  nn_->Download(memory_.loss, memory_.received_loss, sizeof(cuda::LossTotal));
  nn_->Record(Lane::kDownload, loss_here_);
}

void CudaNetwork::Backward(int64_t count) {
  for (size_t i = stages_.size(); i-- > 0;) {
    const Stage& stage = stages_[i];
    const Range range = stage.layer->range();
    stage.layer->WeightGradient(nn_.get(), count, memory_.gradient);
    nn_->Record(Lane::kCompute, stage.gradient_done);
    nn_->Wait(Lane::kDownload, stage.gradient_done);
    nn_->Download(memory_.gradient + range.begin,
                  memory_.received_gradient + range.begin, Bytes(range));
    nn_->Record(Lane::kDownload, stage.gradient_here);
    if (i > 0) stage.layer->InputGradient(nn_.get(), memory_.weights, count);
  }
}

absl::Status CudaNetwork::ReceiveGradients(float* gradient,
                                           const PassHooks& hooks) {
  for (size_t i = stages_.size(); i-- > 0;) {
    const Range range = stages_[i].layer->range();
    nn_->Finish(stages_[i].gradient_here);
    PARAPET_RETURN_IF_ERROR(Failure());
    std::copy_n(memory_.received_gradient + range.begin, range.size(),
                gradient + range.begin);
    PARAPET_RETURN_IF_ERROR(hooks.Ready(range));
  }
  return absl::OkStatus();
}

PassResult CudaNetwork::Result(int64_t count) const {
  return {memory_.received_loss->loss, memory_.received_loss->correct, count};
}

absl::StatusOr<PassResult> CudaNetwork::TrainReserved(const float* weights,
                                                      const Batch& batch,
                                                      float* gradient,
                                                      const PassHooks& hooks) {
  SendBatch(batch);
  PARAPET_RETURN_IF_ERROR(Forward(weights, batch.count, hooks));
  Loss(batch.count, true);
  Backward(batch.count);
  // The last of them is the last thing of all that was submitted.
  PARAPET_RETURN_IF_ERROR(ReceiveGradients(gradient, hooks));
  return Result(batch.count);
}

absl::StatusOr<PassResult> CudaNetwork::Train(const float* weights,
                                              const Batch& batch,
                                              float* gradient,
                                              const PassHooks& hooks) {
  PARAPET_RETURN_IF_ERROR(CheckBatch(batch, input_, kMaxBatch));
  PARAPET_RETURN_IF_ERROR(Reserve(batch.count, true));
  absl::StatusOr<PassResult> result =
      TrainReserved(weights, batch, gradient, hooks);
  if (!result.ok()) nn_->Drain();
  return result;
}

absl::StatusOr<PassResult> CudaNetwork::EvaluateSlice(const float* weights,
                                                      const Batch& batch) {
  PARAPET_RETURN_IF_ERROR(Reserve(batch.count, false));
  SendBatch(batch);
  PARAPET_RETURN_IF_ERROR(Forward(weights, batch.count, {}));
  Loss(batch.count, false);
  nn_->Finish(loss_here_);
  PARAPET_RETURN_IF_ERROR(Failure());
  return Result(batch.count);
}

absl::StatusOr<PassResult> CudaNetwork::Evaluate(const float* weights,
                                                 const Batch& batch) {
  PARAPET_RETURN_IF_ERROR(CheckBatch(batch, input_, kMaxBatch));
  PassResult sum;
  for (int64_t at = 0; at < batch.count; at += kEvaluateBatch) {
    const Batch slice{batch.inputs + at * input_.features(), batch.labels + at,
                      std::min(kEvaluateBatch, batch.count - at)};
    const absl::StatusOr<PassResult> part = EvaluateSlice(weights, slice);
    if (!part.ok()) {
      nn_->Drain();
      return part;
    }
    sum.loss_sum += part->loss_sum;
    sum.correct += part->correct;
    sum.samples += part->samples;
  }
  return sum;
}

}  // namespace parapet
