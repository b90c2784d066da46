#include <cmath>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/operations.h"
#include "tests/cuda/gpu/arrays.h"
#include "tests/cuda/gpu/check.h"
#include "tests/cuda/outputs.h"

namespace parapet::cuda::testing {
namespace {

// Of every pattern of bits but NaNs, whose bits are the processor's.
std::vector<float> RandomPatterns(int64_t count, Random& random) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = FloatOf(static_cast<uint32_t>(random.Next()));
    if (std::isnan(value)) value = 0;
  }
  return values;
}

CudaResult CheckEncode(const std::vector<float>& values, Stored to,
                       double scale, const Limits& limits, Tally* tally) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<unsigned char> host(values.size() * SizeOf(to)), gpu = host;
  std::vector<Report::Counter> overflows = {0};
  Report::Counter host_overflows = 0;
  for (int64_t j = 0; j < count; ++j)
    EncodeAt(values.data(), j, to, ScaleToEncode(scale), host.data(),
             &host_overflows);
  GpuArray<float> in;
  GpuArray<unsigned char> out;
  GpuArray<Report::Counter> counter;
  PARAPET_CUDA_TRY(GpuArray<float>::Make(values, &in));
  PARAPET_CUDA_TRY(GpuArray<unsigned char>::Make(gpu, &out));
  PARAPET_CUDA_TRY(GpuArray<Report::Counter>::Make(overflows, &counter));
  PARAPET_CUDA_TRY(Encode(in.data(), count, to, scale, out.data(),
                          counter.data(), limits, nullptr));
  PARAPET_CUDA_TRY(out.Receive(&gpu));
  PARAPET_CUDA_TRY(counter.Receive(&overflows));
  tally->Note("encode", SameBits(host, gpu) && overflows[0] == host_overflows
                            ? ""
                            : "other bits");
  std::vector<float> host_back(values.size()), back = host_back;
  for (int64_t j = 0; j < count; ++j)
    DecodeAt(host.data(), to, ScaleToDecode(scale), j, host_back.data());
  GpuArray<float> decoded;
  PARAPET_CUDA_TRY(GpuArray<float>::Make(back, &decoded));
  PARAPET_CUDA_TRY(
      Decode(out.data(), to, scale, count, decoded.data(), limits, nullptr));
  PARAPET_CUDA_TRY(decoded.Receive(&back));
  tally->Note("decode", SameBits(host_back, back) ? "" : "other bits");
  return {};
}

CudaResult CheckSquares(int64_t elements, int64_t leaf, const Limits& limits,
                        Random& random, Tally* tally) {
  const std::vector<float> values = RandomFloats(elements, random);
  std::vector<double> host(CeilDiv(elements, leaf)), gpu = host;
  host::LeafSquares({values.data(), elements, leaf, host.data()});
  GpuArray<float> in;
  GpuArray<double> sums;
  PARAPET_CUDA_TRY(GpuArray<float>::Make(values, &in));
  PARAPET_CUDA_TRY(GpuArray<double>::Make(gpu, &sums));
  PARAPET_CUDA_TRY(
      LeafSquares({in.data(), elements, leaf, sums.data()}, limits, nullptr));
  PARAPET_CUDA_TRY(sums.Receive(&gpu));
  tally->Note("leaf squares", SameBits(host, gpu) ? "" : "other bits");
  return {};
}

CudaResult CheckMomentum(const Limits& limits, Random& random, Tally* tally) {
  const std::vector<float> gradient = RandomFloats(1001, random);
  std::vector<float> host = RandomFloats(1001, random), gpu = host;
  for (int64_t j = 0; j < 1001; ++j)
    WorkerMomentumAt(0.9f, 0.1f, gradient.data(), j, host.data());
  GpuArray<float> in, out;
  PARAPET_CUDA_TRY(GpuArray<float>::Make(gradient, &in));
  PARAPET_CUDA_TRY(GpuArray<float>::Make(gpu, &out));
  PARAPET_CUDA_TRY(
      WorkerMomentum(0.9f, 0.1f, in.data(), 1001, out.data(), limits, nullptr));
  PARAPET_CUDA_TRY(out.Receive(&gpu));
  tally->Note("worker momentum", SameBits(host, gpu) ? "" : "other bits");
  return {};
}

CudaResult CheckAll(const Limits& limits, Tally* tally) {
  Random random(5);
  for (Stored to : {Stored::kFloat32, Stored::kBFloat16, Stored::kFloat16}) {
    for (double scale : {1.0, 1024.0, 3.0}) {
      PARAPET_CUDA_TRY(
          CheckEncode(RandomPatterns(20011, random), to, scale, limits, tally));
    }
  }
  for (int64_t elements : {1, 15, 17, 1000, 40001}) {
    for (int64_t leaf : {1, 16, 100, 16384})
      PARAPET_CUDA_TRY(CheckSquares(elements, leaf, limits, random, tally));
  }
  return CheckMomentum(limits, random, tally);
}

}  // namespace

void CheckElements(const Limits& limits, Tally* tally) {
  const CudaResult result = CheckAll(limits, tally);
  if (!result.ok()) tally->Note("casts and squares", result);
}

}  // namespace parapet::cuda::testing
