#include "worker/honest_vectors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr int64_t kMaxBytes = int64_t{16} << 30;

}  // namespace

absl::Status ReadMomentum(Disk& disk, const std::string& folder,
                          const Layout& layout, uint32_t id, float* momentum) {
  PARAPET_ASSIGN_OR_RETURN(const ::parapet::Snapshot snapshot,
                           OpenSnapshot(disk, folder));
  return ReadSection(disk, snapshot, layout, WorkerFileName(id), "momentum",
                     {0, layout.elements()}, momentum);
}

absl::StatusOr<PassResult> Contribution::Compute(const float* weights,
                                                 const Batch& batch,
                                                 float* momentum,
                                                 float* vector) const {
  PARAPET_ASSIGN_OR_RETURN(const PassResult result,
                           model->Train(weights, batch, vector, {}));
  if (beta > 0) {
    const int64_t elements = model->layout().elements();
    device->WorkerMomentum(beta, vector, elements, momentum);
    std::memcpy(vector, momentum,
                static_cast<size_t>(elements) * sizeof(float));
  }
  return result;
}

HonestVectors::HonestVectors(const Contribution& contribution, int honest,
                             GatherShare gather)
    : contribution_(contribution),
      gather_(std::move(gather)),
      workers_(static_cast<size_t>(honest)) {}

absl::Status HonestVectors::Prepare(Disk& disk, const std::string& folder) {
  const Layout& layout = contribution_.model->layout();
  const bool momentum = contribution_.beta > 0;
  const int64_t bytes =
      layout.elements() * static_cast<int64_t>(sizeof(float)) *
      static_cast<int64_t>(workers_.size()) * (momentum ? 2 : 1);
  if (bytes > kMaxBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this attack holds the vectors of ", workers_.size(),
        " honest workers, ", bytes, " bytes; at most ", kMaxBytes));
  }
  for (size_t id = 0; id < workers_.size(); ++id) {
    Worker& worker = workers_[id];
    worker.vector.resize(layout.elements());
    if (!momentum) continue;
    worker.momentum.assign(layout.elements(), 0.0f);
    if (folder.empty()) continue;
    const absl::Status read =
        ReadMomentum(disk, folder, layout, static_cast<uint32_t>(id),
                     worker.momentum.data());
    if (absl::IsNotFound(read)) {  // that worker starts from zero, too
      std::fill(worker.momentum.begin(), worker.momentum.end(), 0.0f);
    } else if (!read.ok()) {
      return read;
    }
  }
  return absl::OkStatus();
}

absl::Status HonestVectors::Learn(uint64_t epoch, uint64_t position,
                                  uint64_t samples,
                                  absl::Span<const uint32_t> members,
                                  const float* weights) {
  vectors_.clear();
  ids_.clear();
  for (size_t index = 0; index < members.size(); ++index) {
    const Share share = ShareOf(position, samples, members.size(), index);
    if (members[index] >= workers_.size() || share.count == 0) continue;
    Worker& worker = workers_[members[index]];
    PARAPET_RETURN_IF_ERROR(contribution_
                                .Compute(weights, gather_(epoch, share),
                                         worker.momentum.data(),
                                         worker.vector.data())
                                .status());
    vectors_.push_back(worker.vector.data());
    ids_.push_back(static_cast<int>(members[index]));
  }
  return absl::OkStatus();
}

}  // namespace parapet
