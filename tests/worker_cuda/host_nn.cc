#include "tests/worker_cuda/host_nn.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"
#include "tests/nn/host_team.h"

namespace parapet::cuda {
namespace {

// Addresses that no program can have.
constexpr uintptr_t kDeviceOffset = uintptr_t{1} << 60;

constexpr Lane kLanes[] = {Lane::kCompute, Lane::kUpload, Lane::kDownload};

struct Triple {
  int64_t out, weight, in;
};

// Calls term(positions of output, weight, input) for each product of a
// convolution.
template <typename Term>
void ForEachTerm(const ConvolutionSize& s, const Term& term) {
  for (int64_t n = 0; n < s.count; ++n)
    for (int64_t o = 0; o < s.outputs; ++o)
      for (int64_t y = 0; y < s.height; ++y)
        for (int64_t x = 0; x < s.width; ++x)
          for (int64_t k = 0; k < s.inputs * 9; ++k) {
            const int64_t c = k / 9, iy = y + k % 9 / 3 - 1, ix = x + k % 3 - 1;
            if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
            term(Triple{((n * s.outputs + o) * s.height + y) * s.width + x,
                        o * s.inputs * 9 + k,
                        ((n * s.inputs + c) * s.height + iy) * s.width + ix});
          }
}

int64_t InElements(const ConvolutionSize& s) {
  return s.count * s.inputs * s.height * s.width;
}
int64_t OutElements(const ConvolutionSize& s) {
  return s.count * s.outputs * s.height * s.width;
}
int64_t WeightElements(const ConvolutionSize& s) {
  return s.outputs * s.inputs * 9;
}

void Round(const std::vector<double>& sums, float* out) {
  for (size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(sums[i]);
}

template <typename Operand>
void NaiveProduct(const Product& p, const Operand& a, const Operand& b,
                  float* c) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l)
        sum += a(p.transpose_a ? l * p.m + i : i * p.k + l) *
               b(p.transpose_b ? j * p.k + l : l * p.n + j);
      c[i * p.n + j] = static_cast<float>(sum);
    }
}

}  // namespace

HostNn::~HostNn() {
  EXPECT_TRUE(device_.empty() && pinned_.empty())
      << "memory outlives its owner";
  for (const Lane lane : kLanes)
    EXPECT_EQ(pending(lane), 0u) << "destroyed while there was work";
}

// ---- Memory

HostNn::Memory HostNn::Allocate(int64_t bytes, uintptr_t offset,
                                Blocks* blocks) {
  ++allocations_;
  auto* const real = static_cast<char*>(std::malloc(bytes));
  std::memset(real, 0xff, bytes);  // NaN
  const uintptr_t begin = reinterpret_cast<uintptr_t>(real) + offset;
  (*blocks)[begin] = bytes;
  return Memory(reinterpret_cast<void*>(begin),
                [this, real, begin, bytes, blocks](void*) {
                  if (blocks == &device_) used_ -= bytes;
                  blocks->erase(begin);
                  std::free(real);
                });
}

HostNn::Memory HostNn::AllocateDevice(int64_t bytes) {
  if (bytes > options_.device_bytes - used_ || !failure_.empty())
    return nullptr;
  used_ += bytes;
  return Allocate(bytes, kDeviceOffset, &device_);
}

HostNn::Memory HostNn::AllocatePinned(int64_t bytes) {
  return Allocate(bytes, 0, &pinned_);
}

bool HostNn::IsLive(const Blocks& blocks, const void* at, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(at);
  auto block = blocks.upper_bound(begin);
  if (block == blocks.begin()) return false;
  --block;
  return begin + static_cast<uintptr_t>(bytes) <=
         block->first + static_cast<uintptr_t>(block->second);
}

template <typename T>
T* HostNn::Real(T* device, int64_t elements) const {
  const auto bytes = elements * static_cast<int64_t>(sizeof(T));
  if (!IsLive(device_, device, bytes)) {
    ADD_FAILURE() << "no device memory of " << bytes << " bytes at " << device;
    std::abort();
  }
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(device) -
                              kDeviceOffset);
}

// ---- Lanes

void HostNn::Submit(Lane lane, Task task) {
  if (!failure_.empty()) return;
  if (submitted_++ == options_.fail_at) {
    failure_ = "as the test wants it";
    return;
  }
  LaneOf(lane).push_back(std::move(task));
  if (options_.pace == Pace::kEager) RunReady();
  if (options_.pace == Pace::kRandom) RunSome();
}

bool HostNn::Ready(const Task& task) const {
  return task.event < 0 ||
         events_[static_cast<size_t>(task.event)].done >= task.times;
}

bool HostNn::RunOne(Lane lane) {
  if (LaneOf(lane).empty() || !Ready(LaneOf(lane).front())) return false;
  const Task task = std::move(LaneOf(lane).front());
  LaneOf(lane).pop_front();
  if (task.work) task.work();
  return true;
}

void HostNn::RunReady() {
  bool some = true;
  while (some) {
    some = false;
    for (const Lane lane : kLanes) some = RunOne(lane) || some;
  }
}

void HostNn::RunSome() {
  for (uint64_t times = random_.Below(6); times > 0; --times)
    RunOne(kLanes[random_.Below(3)]);
}

void HostNn::Force(int event, int64_t times) {
  const Event& e = events_[static_cast<size_t>(event)];
  while (e.done < times) {
    if (options_.pace == Pace::kRandom) RunSome();
    if (e.done >= times || RunOne(e.lane)) continue;
    if (LaneOf(e.lane).empty()) {
      ADD_FAILURE() << "a wait for an event that will not be";
      std::abort();
    }
    const Task& blocked = LaneOf(e.lane).front();
    Force(blocked.event, blocked.times);
  }
}

int HostNn::MakeEvent() {
  events_.emplace_back();
  return static_cast<int>(events_.size()) - 1;
}

void HostNn::Record(Lane lane, int event) {
  Event* const e = &events_[static_cast<size_t>(event)];
  const int64_t times = ++e->recorded;
  e->lane = lane;
  Submit(lane, {[this, event, times] {
                  events_[static_cast<size_t>(event)].done = times;
                },
                -1, 0});
}

void HostNn::Wait(Lane lane, int event) {
  Submit(lane, {nullptr, event, events_[static_cast<size_t>(event)].recorded});
}

const std::string& HostNn::Finish(int event) {
  if (failure_.empty())
    Force(event, events_[static_cast<size_t>(event)].recorded);
  return failure_;
}

void HostNn::Drain() {
  ++drains_;
  RunReady();
}

// ---- Copies

void HostNn::Copy(void* to, const void* from, int64_t bytes, Lane lane) {
  Submit(lane, {[this, to, from, bytes, lane] {
                  const bool up = lane == Lane::kUpload;
                  const void* const host = up ? from : to;
                  EXPECT_TRUE(IsLive(pinned_, host, bytes)) << "not pinned";
                  if (up) uploaded_bytes_ += bytes;
                  std::memcpy(
                      up ? Real(static_cast<char*>(to), bytes) : to,
                      up ? from : Real(static_cast<const char*>(from), bytes),
                      static_cast<size_t>(bytes));
                },
                -1, 0});
}

void HostNn::Upload(const void* host, void* device, int64_t bytes) {
  Copy(device, host, bytes, Lane::kUpload);
}

void HostNn::Download(const void* device, void* host, int64_t bytes) {
  Copy(host, device, bytes, Lane::kDownload);
}

// ---- Work

void HostNn::Multiply(const Product& p, Number stored, const void* a,
                      const void* b, float* c) {
  const auto work = [this, p, stored, a, b, c] {
    ++products_;
    float* const out = Real(c, p.m * p.n);
    if (stored == Number::kFloat32) {
      const float* const x = Real(static_cast<const float*>(a), p.m * p.k);
      const float* const y = Real(static_cast<const float*>(b), p.k * p.n);
      const std::function<double(int64_t)> first = [x](int64_t i) {
        return double{x[i]};
      };
      const std::function<double(int64_t)> second = [y](int64_t i) {
        return double{y[i]};
      };
      return NaiveProduct(p, first, second, out);
    }
    const Bf16* const x = Real(static_cast<const Bf16*>(a), p.m * p.k);
    const Bf16* const y = Real(static_cast<const Bf16*>(b), p.k * p.n);
    const std::function<double(int64_t)> first = [x](int64_t i) {
      return double{WidenBFloat16(x[i])};
    };
    const std::function<double(int64_t)> second = [y](int64_t i) {
      return double{WidenBFloat16(y[i])};
    };
    NaiveProduct(p, first, second, out);
  };
  Compute(work);
}

void HostNn::Run(const NarrowElement& e, int64_t n) {
  const auto work = [this, e, n] {
    RunElements(NarrowElement{Real(e.in, n), Real(e.out, n)}, n);
  };
  Compute(work);
}

void HostNn::Run(const RoundElement& e, int64_t n) {
  const auto work = [this, e, n] {
    RunElements(RoundElement{Real(e.in, n), Real(e.out, n)}, n);
  };
  Compute(work);
}

void HostNn::Run(const BiasElement& e, int64_t n) {
  const auto work = [this, e, n] {
    RunElements(BiasElement{Real(e.values, n), Real(e.bias, e.columns),
                            e.columns, e.relu},
                n);
  };
  Compute(work);
}

void HostNn::Run(const MaskElement& e, int64_t n) {
  const auto work = [this, e, n] {
    RunElements(MaskElement{Real(e.values, n), Real(e.gradient, n)}, n);
  };
  Compute(work);
}

void HostNn::Run(const PoolElement& e, int64_t n) {
  const auto work = [this, e, n] {
    EXPECT_EQ(n, e.size.pooled());
    RunElements(PoolElement{e.size, Real(e.raw, e.size.elements()),
                            Real(e.bias, e.size.channels), Real(e.out, n),
                            Real(e.chosen, n)},
                n);
  };
  Compute(work);
}

void HostNn::Run(const UnpoolElement& e, int64_t n) {
  const auto work = [this, e, n] {
    EXPECT_EQ(n, e.size.elements());
    const int64_t pooled = e.size.pooled();
    RunElements(UnpoolElement{e.size, Real(e.gradient, pooled),
                              Real(e.chosen, pooled), Real(e.raw_gradient, n)},
                n);
  };
  Compute(work);
}

void HostNn::Run(const ColumnSums& s) {
  const auto work = [this, s] {
    RunTeams<SumScratch>(ColumnSums{Real(s.values, s.rows * s.columns), s.rows,
                                    s.columns, Real(s.sums, s.columns)},
                         kMaxTeam);
  };
  Compute(work);
}

void HostNn::Run(const ChannelSums& s) {
  const auto work = [this, s] {
    const int64_t pooled = s.size.pooled();
    RunTeams<SumScratch>(
        ChannelSums{s.size, Real(s.gradient, pooled), Real(s.chosen, pooled),
                    Real(s.sums, s.size.channels)},
        kMaxTeam);
  };
  Compute(work);
}

void HostNn::Run(const SoftmaxLoss& l) {
  const auto work = [this, l] {
    const int64_t outputs = l.count * l.classes;
    float* const gradient =
        l.gradient == nullptr ? nullptr : Real(l.gradient, outputs);
    RunTeams<LossScratch>(
        SoftmaxLoss{Real(l.outputs, outputs), Real(l.labels, l.count), l.count,
                    l.classes, gradient, Real(l.samples, l.count)},
        32);
  };
  Compute(work);
}

void HostNn::Run(const SumLosses& s) {
  const auto work = [this, s] {
    RunTeams<TotalScratch>(
        SumLosses{Real(s.samples, s.count), s.count, Real(s.total, 1)},
        kMaxTeam);
  };
  Compute(work);
}

// ---- Convolutions

void HostNn::ExpectDigits(Number digits, const float* numbers,
                          int64_t elements) {
  if (digits == Number::kFloat32) return;
  for (int64_t i = 0; i < elements; ++i) {
    if (std::isnan(numbers[i])) continue;
    const float rounded = WidenBFloat16(NarrowBFloat16(numbers[i]));
    ASSERT_EQ(std::memcmp(&rounded, &numbers[i], sizeof(float)), 0)
        << numbers[i] << " has more digits than a bfloat16";
  }
}

void HostNn::Convolve(const ConvolutionSize& s, Number digits, const float* in,
                      const float* weight, float* out) {
  const auto work = [=, this] {
    ++products_;
    const float* const x = Real(in, InElements(s));
    const float* const w = Real(weight, WeightElements(s));
    ExpectDigits(digits, x, InElements(s));
    ExpectDigits(digits, w, WeightElements(s));
    std::vector<double> sums(OutElements(s));
    ForEachTerm(s, [&](const Triple& at) {
      sums[at.out] += double{w[at.weight]} * x[at.in];
    });
    Round(sums, Real(out, OutElements(s)));
  };
  Compute(work);
}

void HostNn::ConvolutionWeightGradient(const ConvolutionSize& s, Number digits,
                                       const float* in,
                                       const float* out_gradient,
                                       float* weight_gradient) {
  const auto work = [=, this] {
    ++products_;
    const float* const x = Real(in, InElements(s));
    const float* const g = Real(out_gradient, OutElements(s));
    ExpectDigits(digits, x, InElements(s));
    ExpectDigits(digits, g, OutElements(s));
    std::vector<double> sums(WeightElements(s));
    ForEachTerm(s, [&](const Triple& at) {
      sums[at.weight] += double{g[at.out]} * x[at.in];
    });
    Round(sums, Real(weight_gradient, WeightElements(s)));
  };
  Compute(work);
}

void HostNn::ConvolutionInputGradient(const ConvolutionSize& s, Number digits,
                                      const float* out_gradient,
                                      const float* weight, float* in_gradient) {
  const auto work = [=, this] {
    ++products_;
    const float* const g = Real(out_gradient, OutElements(s));
    const float* const w = Real(weight, WeightElements(s));
    ExpectDigits(digits, g, OutElements(s));
    ExpectDigits(digits, w, WeightElements(s));
    std::vector<double> sums(InElements(s));
    ForEachTerm(s, [&](const Triple& at) {
      sums[at.in] += double{g[at.out]} * w[at.weight];
    });
    Round(sums, Real(in_gradient, InElements(s)));
  };
  Compute(work);
}

}  // namespace parapet::cuda
