// tools/gpu_check: checks the kernels on a GPU and measures them. Exit status:
// 0 all is right, 1 something is wrong, 3 there is no GPU.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "kernels/cuda/nn.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stream.h"
#include "tests/cuda/gpu/check.h"
#include "tests/cuda/gpu/nn_check.h"

namespace parapet::cuda::testing {
namespace {

constexpr int kWrong = 1, kNoGpu = 3;

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Runs a part, and says how it went. False: something was wrong.
template <class Part>
bool Run(const char* name, const Part& part) {
  Tally tally;
  const double began = Seconds();
  part(&tally);
  std::printf("%-24s %6d checked, %d wrong (%.1f s)\n", name, tally.checked(),
              tally.failed(), Seconds() - began);
  std::fflush(stdout);
  return tally.failed() == 0;
}

void CheckNetworks(int gpu, Tally* tally) {
  std::string why;
  const std::unique_ptr<Nn> nn = MakeNn(gpu, &why);
  if (nn == nullptr) return tally->Note("networks", why);
  for (const NnLine& line : CheckNn(nn.get()))
    tally->Note("networks", line.good ? "" : line.words);
}

void MeasureNetworks(int gpu) {
  std::string why;
  const std::unique_ptr<Nn> nn = MakeNn(gpu, &why);
  if (nn == nullptr) return;
  for (const std::string& line : MeasureNn(nn.get(), 8192))
    std::printf("  %s\n", line.c_str());
}

bool CheckAll(const GpuFacts& gpu, const Limits& limits, bool small) {
  bool good = Run("reductions",
                  [&](Tally* tally) { CheckReductions(limits, small, tally); });
  good &= Run("distances",
              [&](Tally* tally) { CheckDistances(limits, small, tally); });
  good &= Run("casts and squares",
              [&](Tally* tally) { CheckElements(limits, tally); });
  good &= Run("a server's calls",
              [&](Tally* tally) { CheckPipeline(small, tally); });
  good &=
      Run("networks", [&](Tally* tally) { CheckNetworks(gpu.index, tally); });
  return good;
}

int Main(bool small) {
  const Choice choice = ChooseGpu(AskDriver(), -1);
  if (!choice.found) {
    std::printf("nothing was checked: %s\n", choice.why.c_str());
    return kNoGpu;
  }
  std::printf("%s\n", Describe(choice.gpu).c_str());
  Limits limits;
  CudaResult result = UseDevice(choice.gpu.index);
  if (result.ok()) result = AskLimits(&limits);
  bool good = result.ok() && CheckAll(choice.gpu, limits, small);
  if (result.ok() && !small) {
    result = MeasureAll(limits);
    MeasureNetworks(choice.gpu.index);
  }
  if (!result.ok()) std::printf("WRONG: %s\n", result.words().c_str());
  return good && result.ok() ? 0 : kWrong;
}

}  // namespace
}  // namespace parapet::cuda::testing

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
  return parapet::cuda::testing::Main(small);
}
