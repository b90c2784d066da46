#ifndef PARAPET_KERNELS_CPU_COLUMNS_H_
#define PARAPET_KERNELS_CPU_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/network.h"
#include "kernels/device.h"

namespace parapet {

// An operation other than the mean on each column of some rows of float32.
//
// Up to 32 rows are sorted in registers by a network that was unrolled when
// this was compiled, in which -inf and +inf stand for rows that are not there:
// the middle stays the middle. More go through a tile in the cache and a
// network that is pruned for what is asked, for any number of rows. (Bisection
// over the bits of a value, 32 passes over a tile, took twice as long at 512
// rows.) Sorted values are summed in ascending order.
class Columns {
 public:
  // rows >= 1, and as ReduceSpec says.
  Columns(CoordinateOp op, int f, double scale, int rows);

  // out[j] = the operation over rows[i][j], float32 at any address. Each value
  // is read once, for what is looked at and what is used: somebody else may
  // write to it at the time. False if some value was not finite, or they are
  // too large for that to show: `out` then holds anything in the columns of
  // those that are not finite, and the right results elsewhere. `stream`: see
  // StoreOrStream.
  bool Reduce(const uint8_t* const* rows, size_t elements, bool stream,
              float* out) const;

  // For the code of each instruction set.
  struct Task {
    CoordinateOp op = CoordinateOp::kMedian;
    int f = 0;
    double scale = 1;
    int rows = 1;
    std::vector<Comparator> network;  // empty where there is another way
  };

 private:
  Task task_;
};

// Whether every value is finite, which the sum of finite values may not be.
bool AllFinite(const uint8_t* const* rows, size_t count, size_t elements);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_COLUMNS_H_
