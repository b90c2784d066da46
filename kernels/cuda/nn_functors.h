#ifndef PARAPET_KERNELS_CUDA_NN_FUNCTORS_H_
#define PARAPET_KERNELS_CUDA_NN_FUNCTORS_H_

#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/numbers.h"

// What a network does to each element by itself. A functor does element i, in
// [0, elements); elements may be done in any order, since none writes what
// another one reads. The GPU and the CPU run the same text.
namespace parapet::cuda {

// A bfloat16 as it is stored.
using Bf16 = uint16_t;

struct Quotient {
  int64_t quotient, remainder;
};

// a / b for a >= 0, b > 0. A GPU divides 32 bits several times faster than 64.
PARAPET_HD Quotient Divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) != 0) {
    const int64_t q = a / b;
    return {q, a - q * b};
  }
  const uint32_t q = static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return {q, a - q * b};
}

// out[i] = in[i] as a bfloat16.
struct NarrowElement {
  const float* in;
  Bf16* out;
  PARAPET_HD void operator()(int64_t i) const {
    out[i] = NarrowBFloat16(in[i]);
  }
};

// out[i] = in[i] with a bfloat16's digits; they may be one.
struct RoundElement {
  const float* in;
  float* out;
  PARAPET_HD void operator()(int64_t i) const {
    out[i] = WidenBFloat16(NarrowBFloat16(in[i]));
  }
};

// A NaN comes out of it: a network that has diverged must show it.
PARAPET_HD float Relu(float value) { return value < 0 ? 0.0f : value; }

// Adds a bias to each column of a row-major matrix, in place; ReLU behind it if
// asked for.
struct BiasElement {
  float* values;
  const float* bias;
  int64_t columns;
  bool relu;
  PARAPET_HD void operator()(int64_t i) const {
    const float sum = values[i] + bias[Divide(i, columns).remainder];
    values[i] = relu ? Relu(sum) : sum;
  }
};

// Zeroes the gradient where the ReLU that gave `values` was off.
struct MaskElement {
  const float* values;
  float* gradient;
  PARAPET_HD void operator()(int64_t i) const {
    if (values[i] <= 0) gradient[i] = 0.0f;
  }
};

// Images of a convolution's result, count x channels x height x width. Their
// pool is half as high and wide; an odd last row or column is left out.
struct PoolSize {
  int64_t count, channels, height, width;
  PARAPET_HD int64_t elements() const {
    return count * channels * height * width;
  }
  PARAPET_HD int64_t plane() const { return (height / 2) * (width / 2); }
  PARAPET_HD int64_t pooled() const { return count * channels * plane(); }
};

// `chosen` where the ReLU is off; otherwise it is 0 to 3, row by row in the
// window.
constexpr uint8_t kReluOff = 4;

// Bias, ReLU and 2x2 max pool with stride 2 in one: element i of the pooled
// ones. `chosen` becomes where in its window the maximum was, the first of
// equals (as in PyTorch). A NaN in a window comes out of it.
struct PoolElement {
  PoolSize size;
  const float* raw;
  const float* bias;  // one for each channel
  float* out;
  uint8_t* chosen;

  PARAPET_HD void operator()(int64_t i) const {
    const Quotient row = Divide(i, size.width / 2);
    const Quotient image = Divide(row.quotient, size.height / 2);
    const float b = bias[Divide(image.quotient, size.channels).remainder];
    const float* at =
        raw +
        (image.quotient * size.height + 2 * image.remainder) * size.width +
        2 * row.remainder;
    const float window[4] = {at[0] + b, at[1] + b, at[size.width] + b,
                             at[size.width + 1] + b};
    float best = window[0];
    int where = 0;
    for (int k = 1; k < 4; ++k) {
      const bool better = window[k] > best || window[k] != window[k];
      best = better ? window[k] : best;
      where = better ? k : where;
    }
    out[i] = best <= 0 ? 0.0f : best;
    chosen[i] = best <= 0 ? kReluOff : static_cast<uint8_t>(where);
  }
};

// The way back: element i of the gradient before the pool. Every element is
// written, 0 too.
struct UnpoolElement {
  PoolSize size;
  const float* gradient;  // of the pooled ones
  const uint8_t* chosen;
  float* raw_gradient;

  PARAPET_HD void operator()(int64_t i) const {
    const Quotient row = Divide(i, size.width);
    const Quotient image = Divide(row.quotient, size.height);
    const int64_t y = image.remainder, x = row.remainder;
    const int64_t columns = size.width / 2;
    float value = 0;
    if (y / 2 < size.height / 2 && x / 2 < columns) {
      const int64_t p = image.quotient * size.plane() + y / 2 * columns + x / 2;
      if (chosen[p] == y % 2 * 2 + x % 2) value = gradient[p];
    }
    raw_gradient[i] = value;
  }
};

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_FUNCTORS_H_
