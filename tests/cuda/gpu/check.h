#ifndef PARAPET_TESTS_CUDA_GPU_CHECK_H_
#define PARAPET_TESTS_CUDA_GPU_CHECK_H_

#include <cstdio>
#include <string>

#include "kernels/cuda/check.h"
#include "kernels/cuda/discover.h"
#include "kernels/cuda/launch.h"

// What a machine with a GPU checks of a server's kernels: the bits of the same
// functions run by the CPU, and the float64 reference. Only the standard
// library.
namespace parapet::cuda::testing {

// Counts what was checked, and prints what is wrong (the first few times).
class Tally {
 public:
  // `what`: of the check; `wrong`: empty if it is good.
  void Note(const std::string& what, const std::string& wrong) {
    ++checked_;
    if (wrong.empty()) return;
    if (++failed_ <= 20)
      std::printf("  WRONG %s: %s\n", what.c_str(), wrong.c_str());
  }
  void Note(const std::string& what, const CudaResult& result) {
    Note(what, result.words());
  }
  int checked() const { return checked_; }
  int failed() const { return failed_; }

 private:
  int checked_ = 0, failed_ = 0;
};

// `small`: only few and small cases, for a sanitizer.
void CheckReductions(const Limits& limits, bool small, Tally* tally);
void CheckDistances(const Limits& limits, bool small, Tally* tally);
void CheckElements(const Limits& limits, Tally* tally);
void CheckPipeline(bool small, Tally* tally);

// Prints GB/s of the kernels beside a copy on the device, and TFLOP/s of
// distances beside a product by cuBLAS.
CudaResult MeasureAll(const Limits& limits);

}  // namespace parapet::cuda::testing

#endif  // PARAPET_TESTS_CUDA_GPU_CHECK_H_
