#ifndef PARAPET_KERNELS_CUDA_REPORT_H_
#define PARAPET_KERNELS_CUDA_REPORT_H_

#include <cstdint>

#include "kernels/cuda/host_device.h"

namespace parapet::cuda {

// What a reduction met that is not a finite number: counters that many threads
// add to. Bad values are rare, or one liar's.
struct Report {
  using Counter = unsigned long long;  // what atomicAdd takes

  Counter bad_coordinates = 0;
  Counter first_bad = kNone;   // the least
  Counter bad_values[1] = {};  // one a row: as many as the memory has room for

  static constexpr Counter kNone = ~Counter{0};
  static constexpr int64_t BytesFor(int rows) {
    return static_cast<int64_t>(sizeof(Counter)) * (2 + (rows < 1 ? 1 : rows));
  }
};

PARAPET_HD void AddTo(Report::Counter* counter, Report::Counter count) {
#ifdef __CUDA_ARCH__
  atomicAdd(counter, count);
#else
  *counter += count;
#endif
}

PARAPET_HD void AddTo(int* counter, int count) {
#ifdef __CUDA_ARCH__
  atomicAdd(counter, count);
#else
  *counter += count;
#endif
}

PARAPET_HD void CountBadCoordinate(Report* report, int64_t coordinate) {
  AddTo(&report->bad_coordinates, 1);
  const auto at = static_cast<Report::Counter>(coordinate);
#ifdef __CUDA_ARCH__
  atomicMin(&report->first_bad, at);
#else
  if (at < report->first_bad) report->first_bad = at;
#endif
}

PARAPET_HD void CountBadValue(Report* report, int row) {
  AddTo(report->bad_values + row, 1);
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_REPORT_H_
