#ifndef PARAPET_TESTS_CUDA_GPU_NN_CHECK_H_
#define PARAPET_TESTS_CUDA_GPU_NN_CHECK_H_

#include <string>
#include <vector>

#include "kernels/cuda/nn.h"

// What a machine with a GPU checks of Nn. Only the standard library, so that it
// is built where there is nothing else.
namespace parapet::cuda {

struct NnLine {
  bool good = false;
  std::string words;  // what was checked, and what was wrong
};

// Every operation against a reference in float64 or, where the bits must be the
// CPU's, against the same text on the CPU: odd sizes, outputs that begin as
// NaN, and memory behind them that must stay. Seconds.
std::vector<NnLine> CheckNn(Nn* nn);

// Lines for people: TFLOP/s of a layer's products beside the largest that the
// library reaches here, and GB/s of the operations by element. `scale` is a
// side of the products; 8192 fills any GPU.
std::vector<std::string> MeasureNn(Nn* nn, int64_t scale);

}  // namespace parapet::cuda

#endif  // PARAPET_TESTS_CUDA_GPU_NN_CHECK_H_
