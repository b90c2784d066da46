#ifndef PARAPET_WORKER_NETWORK_H_
#define PARAPET_WORKER_NETWORK_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/model.h"

namespace parapet {

class Layer;
struct OneDnn;

// A chain of layers with softmax cross-entropy at its end, on oneDNN. What is
// built for a batch size (primitives and activations) is kept for the kMaxPlans
// that were used last.
class Network : public Model {
 public:
  static constexpr int64_t kMaxBatch = int64_t{1} << 20;
  static constexpr int64_t kEvaluateBatch =
      256;  // larger batches are evaluated in slices
  static constexpr size_t kMaxPlans = 6;

  Network(Layout layout, const InputShape& input,
          std::vector<std::unique_ptr<Layer>> layers, int threads);
  ~Network() override;

  const Layout& layout() const override { return layout_; }
  absl::StatusOr<PassResult> Train(const float* weights, const Batch& batch,
                                   float* gradient,
                                   const PassHooks& hooks) override;
  absl::StatusOr<PassResult> Evaluate(const float* weights,
                                      const Batch& batch) override;

  // The names of the implementations that oneDNN chose for a batch size.
  absl::StatusOr<std::vector<std::string>> Implementations(int64_t batch);
  size_t plans() const { return plans_.size(); }

 private:
  struct Plan;

  // The plan for a batch size, built if need be. It lives until another plan is
  // asked for.
  Plan& PlanFor(int64_t batch, bool training);
  std::unique_ptr<Plan> Build(int64_t batch, bool training) const;
  absl::Status Forward(Plan& plan, const float* weights, const float* inputs,
                       const PassHooks& hooks) const;
  absl::Status Backward(Plan& plan, float* gradient,
                        const PassHooks& hooks) const;
  absl::StatusOr<PassResult> EvaluateSlice(const float* weights,
                                           const Batch& batch);
  absl::StatusOr<PassResult> TrainChecked(const float* weights,
                                          const Batch& batch, float* gradient,
                                          const PassHooks& hooks);

  const Layout layout_;
  const InputShape input_;
  const std::vector<std::unique_ptr<Layer>> layers_;
  const int threads_;
  std::unique_ptr<OneDnn> dnnl_;
  std::vector<std::unique_ptr<Plan>> plans_;  // the one used last comes last
};

// As MakeModel.
absl::StatusOr<std::unique_ptr<Network>> MakeNetwork(
    const std::string& spec, const InputShape& input,
    const ComputeConfig& compute);

}  // namespace parapet

#endif  // PARAPET_WORKER_NETWORK_H_
