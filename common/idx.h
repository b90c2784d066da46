#ifndef PARAPET_COMMON_IDX_H_
#define PARAPET_COMMON_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parapet {

// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist/): two zero bytes,
// a type (8: unsigned byte, the only one read here), the number of dimensions,
// each dimension as 32 bits big-endian, then the values. A file that begins as
// gzip does is unpacked while it is read.
//
// Errors name the file. NotFound: there is none; DataLoss: what is in it is not
// an IDX file of `rank` dimensions, or is empty, cut off, damaged, followed by
// further bytes, or above kMaxIdxBytes.

inline constexpr int64_t kMaxIdxBytes = int64_t{1} << 31;

struct IdxArray {
  std::vector<int64_t> dims;    // each at least 1
  std::vector<uint8_t> values;  // row-major
};

// Reads the dimensions only.
absl::StatusOr<std::vector<int64_t>> ReadIdxHeader(const std::string& path,
                                                   int rank);

// Reads the whole file. Takes memory for what the file holds, whatever its
// header claims.
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int rank);

}  // namespace parapet

#endif  // PARAPET_COMMON_IDX_H_
