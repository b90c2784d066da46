// Speed of the CPU kernels on one core, over ranges too large for a cache.
// bytes_per_second counts every byte that an operation must read or write once;
// compare with BM_Copy of the same run.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "common/dtype.h"
#include "common/job.h"
#include "common/rng.h"
#include "kernels/device.h"

namespace parapet {
namespace {

constexpr int64_t kElements = 4'000'000;
constexpr StepFacts kFacts = {.lr = 0.01, .bias1 = 0.5, .bias2 = 0.1};

std::vector<float> RandomValues(uint64_t key, int64_t elements) {
  Random random(key, 0);
  std::vector<float> values(static_cast<size_t>(elements));
  for (float& value : values)
    value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

// Rows of random values, as a worker would send them.
class Rows {
 public:
  Rows(const Device& device, int64_t count, DType dtype) {
    const auto bytes = static_cast<size_t>(kElements * SizeOf(dtype));
    for (int64_t i = 0; i < count; ++i) {
      payloads_.emplace_back(bytes);
      const auto key = static_cast<uint64_t>(i);
      device.Encode(RandomValues(key, kElements).data(), kElements, dtype, 1,
                    payloads_[key].data());
      rows_.push_back(
          {.data = payloads_[key].data(), .dtype = dtype, .weight = 32});
    }
  }
  const std::vector<Row>& rows() const { return rows_; }
  int64_t bytes() const {
    return static_cast<int64_t>(rows_.size()) * kElements *
           SizeOf(rows_[0].dtype);
  }

 private:
  std::vector<std::vector<uint8_t>> payloads_;
  std::vector<Row> rows_;
};

void SetTraffic(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
}

void BM_Copy(benchmark::State& state) {
  const std::vector<float> from = RandomValues(1, kElements);
  std::vector<float> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  SetTraffic(state, 8 * kElements);
}
BENCHMARK(BM_Copy);

void BM_Reduce(benchmark::State& state) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const Rows rows(*device, state.range(0), static_cast<DType>(state.range(1)));
  std::vector<float> mean(kElements);
  for (auto _ : state) {
    device->Reduce(ReduceSpec(), rows.rows(), nullptr, kElements, mean.data());
    benchmark::ClobberMemory();
  }
  SetTraffic(state, rows.bytes() + 4 * kElements);
  state.SetLabel(device->name());
}
BENCHMARK(BM_Reduce)
    ->ArgsProduct({{2, 4, 8, 16, 32}, {0, 1, 2}})
    ->ArgNames({"n", "dtype"});

// In place, without a separate publish buffer, as a server with float32 on the
// wire steps.
void BM_ReduceStep(benchmark::State& state) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const Rows rows(*device, state.range(0), DType::kFloat32);
  const OptimizerConfig optimizer = {
      .kind = static_cast<OptimizerKind>(state.range(1))};
  std::vector<float> weights = RandomValues(99, kElements);
  std::vector<float> moment1(kElements), moment2(kElements);
  const StepTarget target = {.in = weights.data(),
                             .out = weights.data(),
                             .moment1 = moment1.data(),
                             .moment2 = moment2.data()};
  for (auto _ : state) {
    device->ReduceStep(ReduceSpec(), rows.rows(), nullptr, kElements, optimizer,
                       kFacts, target);
    benchmark::ClobberMemory();
  }
  SetTraffic(state, rows.bytes() + 8 * kElements * (1 + optimizer.moments()));
}
BENCHMARK(BM_ReduceStep)
    ->ArgsProduct({{2, 4, 8, 16}, {0, 1, 2, 3, 4}})
    ->ArgNames({"n", "optimizer"});

// As above into another buffer, with a copy to publish.
void BM_ReduceStepPublish(benchmark::State& state) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const auto dtype = static_cast<DType>(state.range(0));
  const Rows rows(*device, 4, dtype);
  const std::vector<float> in = RandomValues(99, kElements);
  std::vector<float> out(kElements), moment1(kElements);
  std::vector<uint8_t> publish(static_cast<size_t>(kElements * SizeOf(dtype)));
  const StepTarget target = {.in = in.data(),
                             .out = out.data(),
                             .moment1 = moment1.data(),
                             .publish = publish.data(),
                             .publish_dtype = dtype};
  for (auto _ : state) {
    device->ReduceStep(ReduceSpec(), rows.rows(), nullptr, kElements,
                       OptimizerConfig(), kFacts, target);
    benchmark::ClobberMemory();
  }
  SetTraffic(state, rows.bytes() + (16 + SizeOf(dtype)) * kElements);
}
BENCHMARK(BM_ReduceStepPublish)->DenseRange(0, 2)->ArgName("dtype");

void BM_Encode(benchmark::State& state) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const auto dtype = static_cast<DType>(state.range(0));
  const std::vector<float> values = RandomValues(1, kElements);
  std::vector<uint8_t> out(static_cast<size_t>(kElements * SizeOf(dtype)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        device->Encode(values.data(), kElements, dtype, 1024, out.data()));
  }
  SetTraffic(state, (4 + SizeOf(dtype)) * kElements);
}
BENCHMARK(BM_Encode)->DenseRange(0, 2)->ArgName("dtype");

void BM_Decode(benchmark::State& state) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const auto dtype = static_cast<DType>(state.range(0));
  const Rows rows(*device, 1, dtype);
  std::vector<float> out(kElements);
  for (auto _ : state) {
    device->Decode(rows.rows()[0].data, dtype, 1024, kElements, out.data());
    benchmark::ClobberMemory();
  }
  SetTraffic(state, (4 + SizeOf(dtype)) * kElements);
}
BENCHMARK(BM_Decode)->DenseRange(0, 2)->ArgName("dtype");

void BM_LeafSquares(benchmark::State& state) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const std::vector<float> values = RandomValues(1, kElements);
  std::vector<double> sums(kElements / 16384 + 1);
  for (auto _ : state) {
    device->LeafSquares(values.data(), kElements, 16384, sums.data());
    benchmark::ClobberMemory();
  }
  SetTraffic(state, 4 * kElements);
}
BENCHMARK(BM_LeafSquares);

}  // namespace
}  // namespace parapet

BENCHMARK_MAIN();
