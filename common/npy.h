#ifndef PARAPET_COMMON_NPY_H_
#define PARAPET_COMMON_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/disk.h"

namespace parapet {

// NumPy's .npy files, as numpy.lib.format describes them:
// http://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.

// An array of float32, in C order whatever the file's was.
struct NpyArray {
  std::vector<int64_t> shape;  // empty: one number
  std::vector<float> values;   // the product of `shape` of them
  // Finite float64 values of the file that float32 cannot hold: they became
  // infinite.
  int64_t overflowed = 0;
};

// Reads a file of version 1.0, 2.0 or 3.0 that holds little-endian float32 or
// float64, in C or Fortran order, of at most 8 dimensions and `max_elements`
// values, and nothing else. DataLoss in words that name the file: what is wrong
// with it; ResourceExhausted: too large; what the disk says.
absl::StatusOr<NpyArray> ReadNpy(Disk& disk, const std::string& path,
                                 int64_t max_elements);

// Writes float32 in C order, version 1.0. The product of `shape` is
// values.size().
absl::Status WriteNpy(Disk& disk, const std::string& path,
                      absl::Span<const int64_t> shape,
                      absl::Span<const float> values);

}  // namespace parapet

#endif  // PARAPET_COMMON_NPY_H_
