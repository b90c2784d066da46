#ifndef PARAPET_TESTS_WORKER_GRADIENTS_H_
#define PARAPET_TESTS_WORKER_GRADIENTS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/layout.h"
#include "common/model_spec.h"

namespace parapet {

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <typename A, typename B>
double Distance(const A& a, const B& b, Range range) {
  double sum = 0;
  for (int64_t e = range.begin; e < range.end; ++e)
    sum += std::pow(double{a[e]} - double{b[e]}, 2);
  return std::sqrt(sum);
}

template <typename A>
double Norm(const A& a, Range range) {
  return Distance(a, std::vector<float>(a.size()), range);
}

// A sum of K float32 products is off by at most about K u of the sum of their
// magnitudes, u = 2^-24. The longest chain of sums to a gradient goes forward
// and back through every layer, and over the batch: the K of all of them add
// up. Magnitudes are larger than norms where terms cancel; rounding errors are
// random, so that sqrt(K) is what is seen. The one is taken for the other.
inline double GradientTolerance(const Layout& layout, const InputShape& input,
                                int64_t batch) {
  double terms = static_cast<double>(batch);
  for (const Tensor& tensor : layout.tensors()) {
    if (tensor.shape.size() > 1)
      terms += 2.0 * tensor.elements / tensor.shape[0] + tensor.shape[0];
    if (tensor.shape.size() == 4) terms += input.height * input.width;
  }
  return terms * 0x1p-24;
}

}  // namespace parapet

#endif  // PARAPET_TESTS_WORKER_GRADIENTS_H_
