#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"
#include "kernels/cuda/nn_product.h"

namespace parapet::cuda {
namespace {

using Matrix = std::vector<double>;

// Row-major, from the definition.
Matrix RowMajor(const Product& p, const Matrix& a, const Matrix& b) {
  Matrix c(p.m * p.n);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      for (int64_t l = 0; l < p.k; ++l)
        c[i * p.n + j] += (p.transpose_a ? a[l * p.m + i] : a[i * p.k + l]) *
                          (p.transpose_b ? b[j * p.k + l] : b[l * p.n + j]);
  return c;
}

// As BLAS defines gemm, on column-major matrices: element (i, j) of a matrix
// lies at i + j * ld. at() refuses what lies outside.
Matrix ColumnMajor(const ColumnMajorCall& call, const Matrix& first,
                   const Matrix& second, size_t size) {
  Matrix c(size);
  for (int64_t j = 0; j < call.n; ++j)
    for (int64_t i = 0; i < call.m; ++i)
      for (int64_t l = 0; l < call.k; ++l)
        c.at(i + j * call.ld_c) +=
            first.at(call.transpose_first ? l + i * call.ld_first
                                          : i + l * call.ld_first) *
            second.at(call.transpose_second ? j + l * call.ld_second
                                            : l + j * call.ld_second);
  return c;
}

TEST(NnProductTest, AColumnMajorLibraryComputesTheRowMajorProduct) {
  Random random(3);
  for (const int64_t m : {1, 2, 5})
    for (const int64_t n : {1, 3, 7})
      for (const int64_t k : {1, 4, 6})
        for (const int mode : {0, 1, 2, 3}) {
          const Product product{m, n, k, (mode & 1) != 0, (mode & 2) != 0};
          Matrix a(m * k), b(k * n);
          for (double& v : a) v = static_cast<double>(random.Below(9));
          for (double& v : b) v = static_cast<double>(random.Below(9));
          const ColumnMajorCall call = ToColumnMajor(product);
          const bool b_first = call.first == ColumnMajorCall::Operand::kB;
          EXPECT_NE(call.first, call.second);
          EXPECT_EQ(ColumnMajor(call, b_first ? b : a, b_first ? a : b, m * n),
                    RowMajor(product, a, b))
              << m << " x " << k << " x " << n << ", mode " << mode;
        }
}

// BLAS demands of a leading dimension at least the stored rows.
TEST(NnProductTest, LeadingDimensionsAreLegal) {
  for (const int mode : {0, 1, 2, 3}) {
    const ColumnMajorCall call =
        ToColumnMajor({3, 5, 7, (mode & 1) != 0, (mode & 2) != 0});
    EXPECT_GE(call.ld_first, call.transpose_first ? call.k : call.m);
    EXPECT_GE(call.ld_second, call.transpose_second ? call.n : call.k);
    EXPECT_GE(call.ld_c, call.m);
  }
}

TEST(NnProductTest, MoreThan32Bits) {
  constexpr int64_t kLong = (int64_t{1} << 33) + 1;
  const ColumnMajorCall call = ToColumnMajor({2, 3, kLong, true, true});
  EXPECT_EQ(call.k, kLong);
  EXPECT_EQ(call.ld_first, kLong);
}

}  // namespace
}  // namespace parapet::cuda
