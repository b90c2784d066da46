#include "worker/cuda/network_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

absl::Status NetworkMemory::DeviceMemory(int64_t bytes, const char* what,
                                         cuda::Nn::Memory* memory) {
  *memory = nullptr;  // before more is asked for
  *memory = nn_->AllocateDevice(bytes);
  if (*memory != nullptr) return absl::OkStatus();
  if (!nn_->failure().empty()) return absl::InternalError(nn_->failure());
  return absl::ResourceExhaustedError(absl::StrCat(
      "the GPU has too little memory for ", what, ": ", Mebibytes(bytes),
      " are wanted, ", Mebibytes(nn_->FreeDeviceBytes()), " are free"));
}

absl::Status NetworkMemory::PinnedMemory(int64_t bytes,
                                         cuda::Nn::Memory* memory) {
  *memory = nullptr;
  *memory = nn_->AllocatePinned(bytes);
  if (*memory != nullptr) return absl::OkStatus();
  if (!nn_->failure().empty()) return absl::InternalError(nn_->failure());
  return absl::ResourceExhaustedError(
      absl::StrCat("the system gives no ", Mebibytes(bytes),
                   " of memory that stays in place (see ulimit -l)"));
}

absl::Status NetworkMemory::ReserveWeights() {
  const int64_t bytes = parameters_ * static_cast<int64_t>(sizeof(float));
  PARAPET_RETURN_IF_ERROR(DeviceMemory(bytes, "the weights", &weights_memory_));
  PARAPET_RETURN_IF_ERROR(PinnedMemory(bytes, &sent_weights_memory_));
  weights = static_cast<float*>(weights_memory_.get());
  sent_weights = static_cast<float*>(sent_weights_memory_.get());
  return absl::OkStatus();
}

absl::Status NetworkMemory::ReserveGradient() {
  if (received_gradient != nullptr) return absl::OkStatus();
  const int64_t bytes = parameters_ * static_cast<int64_t>(sizeof(float));
  PARAPET_RETURN_IF_ERROR(
      DeviceMemory(bytes, "the gradient", &gradient_memory_));
  PARAPET_RETURN_IF_ERROR(PinnedMemory(bytes, &received_gradient_memory_));
  gradient = static_cast<float*>(gradient_memory_.get());
  received_gradient = static_cast<float*>(received_gradient_memory_.get());
  return absl::OkStatus();
}

int64_t NetworkMemory::CarveDevice(int64_t batch, bool training,
                                   const CarveLayers& carve, void* memory) {
  Carver carver(memory);
  inputs = carver.Take<float>(batch * input_.features());
  labels = carver.Take<int32_t>(batch);
  losses = carver.Take<cuda::LossTotal>(batch);
  loss = carver.Take<cuda::LossTotal>(1);
  carve(batch, training, &carver);
  return carver.bytes();
}

int64_t NetworkMemory::CarvePinned(int64_t batch, void* memory) {
  Carver carver(memory);
  sent_inputs = carver.Take<float>(batch * input_.features());
  sent_labels = carver.Take<int32_t>(batch);
  received_loss = carver.Take<cuda::LossTotal>(1);
  return carver.bytes();
}

absl::Status NetworkMemory::ReserveDevice(int64_t batch, bool training,
                                          const CarveLayers& carve) {
  const int64_t bytes = CarveDevice(batch, training, carve, nullptr);
  const std::string what = absl::StrCat("a batch of ", batch, " samples");
  PARAPET_RETURN_IF_ERROR(DeviceMemory(bytes, what.c_str(), &batch_memory_));
  CarveDevice(batch, training, carve, batch_memory_.get());
  return absl::OkStatus();
}

absl::Status NetworkMemory::ReservePinned(int64_t batch) {
  PARAPET_RETURN_IF_ERROR(
      PinnedMemory(CarvePinned(batch, nullptr), &sent_batch_memory_));
  CarvePinned(batch, sent_batch_memory_.get());
  return absl::OkStatus();
}

absl::Status NetworkMemory::ReserveBatch(int64_t batch, bool training,
                                         const CarveLayers& carve) {
  if (training) PARAPET_RETURN_IF_ERROR(ReserveGradient());
  if (batch <= batch_ && (training_ || !training)) return absl::OkStatus();
  const int64_t larger = std::max(batch, batch_);
  const bool both = training || training_;
  batch_ = 0;
  PARAPET_RETURN_IF_ERROR(ReserveDevice(larger, both, carve));
  PARAPET_RETURN_IF_ERROR(ReservePinned(larger));
  batch_ = larger;
  training_ = both;
  return absl::OkStatus();
}

}  // namespace parapet
