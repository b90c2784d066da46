#ifndef PARAPET_TESTS_WORKER_CUDA_HOST_NN_H_
#define PARAPET_TESTS_WORKER_CUDA_HOST_NN_H_

#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "kernels/cuda/nn.h"

namespace parapet::cuda {

// When the work that was submitted happens.
enum class Pace : uint8_t {
  kEager,   // at once, unless it waits for an event
  kLazy,    // when somebody waits for it, and nothing before it must
  kRandom,  // now and then, lane by lane
};

// A GPU on the host: naive loops that call the functors and the phases that the
// GPU calls. Lanes are as independent as a GPU's: what lacks a wait reads
// garbage at one pace or another. Device memory lies at addresses that crash
// whoever reads them, begins as NaN, and every access is checked to lie in live
// memory.
class HostNn : public Nn {
 public:
  struct Options {
    Pace pace = Pace::kLazy;
    uint64_t seed = 1;  // of kRandom
    bool convolutions = true;
    int64_t device_bytes = std::numeric_limits<int64_t>::max();
    int64_t fail_at = -1;  // the number of the submission that fails
  };

  explicit HostNn(const Options& options)
      : options_(options), random_(options.seed) {}
  ~HostNn() override;

  // ---- What a test sees of it
  int64_t submitted() const { return submitted_; }
  int64_t products() const { return products_; }  // that were computed
  int64_t drains() const { return drains_; }
  int64_t allocations() const { return allocations_; }
  int64_t uploaded_bytes() const { return uploaded_bytes_; }
  size_t pending(Lane lane) const { return LaneOf(lane).size(); }
  void set_fail_at(int64_t submission) { options_.fail_at = submission; }

  bool has_convolutions() const override { return options_.convolutions; }
  const std::string& failure() const override { return failure_; }

  Memory AllocateDevice(int64_t bytes) override;
  Memory AllocatePinned(int64_t bytes) override;
  int64_t FreeDeviceBytes() override { return options_.device_bytes - used_; }

  int MakeEvent() override;
  void Record(Lane lane, int event) override;
  void Wait(Lane lane, int event) override;
  const std::string& Finish(int event) override;
  void Drain() override;

  void Upload(const void* host, void* device, int64_t bytes) override;
  void Download(const void* device, void* host, int64_t bytes) override;

  void Multiply(const Product& product, Number stored, const void* a,
                const void* b, float* c) override;
  void Run(const NarrowElement& element, int64_t elements) override;
  void Run(const RoundElement& element, int64_t elements) override;
  void Run(const BiasElement& element, int64_t elements) override;
  void Run(const MaskElement& element, int64_t elements) override;
  void Run(const PoolElement& element, int64_t elements) override;
  void Run(const UnpoolElement& element, int64_t elements) override;
  void Run(const ColumnSums& sums) override;
  void Run(const ChannelSums& sums) override;
  void Run(const SoftmaxLoss& loss) override;
  void Run(const SumLosses& sum) override;
  void Convolve(const ConvolutionSize& size, Number digits, const float* in,
                const float* weight, float* out) override;
  void ConvolutionWeightGradient(const ConvolutionSize& size, Number digits,
                                 const float* in, const float* out_gradient,
                                 float* weight_gradient) override;
  void ConvolutionInputGradient(const ConvolutionSize& size, Number digits,
                                const float* out_gradient, const float* weight,
                                float* in_gradient) override;

 private:
  struct Event {
    int64_t recorded = 0, done = 0;  // times
    Lane lane = Lane::kCompute;      // of the last time
  };
  // Does `work`, once the event is done that often (if there is one).
  struct Task {
    std::function<void()> work;
    int event = -1;
    int64_t times = 0;
  };
  using Blocks = std::map<uintptr_t, int64_t>;  // begin, bytes

  const std::deque<Task>& LaneOf(Lane lane) const {
    return lanes_[static_cast<size_t>(lane)];
  }
  std::deque<Task>& LaneOf(Lane lane) {
    return lanes_[static_cast<size_t>(lane)];
  }
  void Submit(Lane lane, Task task);
  void Compute(std::function<void()> work) {
    Submit(Lane::kCompute, {std::move(work), -1, 0});
  }
  bool Ready(const Task& task) const;
  bool RunOne(Lane lane);
  void RunReady();
  void RunSome();
  void Force(int event, int64_t times);

  Memory Allocate(int64_t bytes, uintptr_t offset, Blocks* blocks);
  // The host's address of device memory, of which so many bytes must be live.
  template <typename T>
  T* Real(T* device, int64_t elements) const;
  static bool IsLive(const Blocks& blocks, const void* at, int64_t bytes);
  void Copy(void* to, const void* from, int64_t bytes, Lane lane);
  void ExpectDigits(Number digits, const float* numbers, int64_t elements);

  Options options_;
  Random random_;
  std::string failure_;
  int64_t submitted_ = 0, products_ = 0, drains_ = 0, allocations_ = 0;
  int64_t uploaded_bytes_ = 0, used_ = 0;
  Blocks device_, pinned_;
  std::vector<Event> events_;
  std::array<std::deque<Task>, 3> lanes_;
};

}  // namespace parapet::cuda

#endif  // PARAPET_TESTS_WORKER_CUDA_HOST_NN_H_
