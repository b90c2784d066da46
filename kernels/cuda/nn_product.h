#ifndef PARAPET_KERNELS_CUDA_NN_PRODUCT_H_
#define PARAPET_KERNELS_CUDA_NN_PRODUCT_H_

#include <cstdint>

namespace parapet::cuda {

// c = op(a) op(b): op(a) is m x k, op(b) is k x n, c is m x n. All are
// row-major and packed. Where `transpose_a` holds, a is stored as k x m and op
// transposes it; likewise b as n x k.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};

// What a column-major library such as cuBLAS is called with for it. It computes
// an m x n matrix, with `first` (of the two matrices above) on the left.
struct ColumnMajorCall {
  enum class Operand : uint8_t { kA, kB };
  Operand first = Operand::kB, second = Operand::kA;
  bool transpose_first = false, transpose_second = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t ld_first = 0, ld_second = 0, ld_c = 0;
};

// A row-major matrix is, read column by column, its transpose. So c' = op(b)'
// op(a)' is asked for: b comes first, and what is stored transposed for us is
// stored transposed for the library as well. Leading dimensions are the lengths
// of our rows.
inline ColumnMajorCall ToColumnMajor(const Product& product) {
  ColumnMajorCall call;
  call.transpose_first = product.transpose_b;
  call.transpose_second = product.transpose_a;
  call.m = product.n;
  call.n = product.m;
  call.k = product.k;
  call.ld_first = product.transpose_b ? product.k : product.n;
  call.ld_second = product.transpose_a ? product.m : product.k;
  call.ld_c = product.n;
  return call;
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_NN_PRODUCT_H_
