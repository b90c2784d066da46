#ifndef PARAPET_TOOLS_LOAD_HISTOGRAM_H_
#define PARAPET_TOOLS_LOAD_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace parapet {

// A histogram of durations in the manner of HdrHistogram: log-linear. Values
// below 2^precision nanoseconds have a bucket each; above, every doubling is
// cut into 2^precision buckets of equal width. So a quantile is known within a
// relative error of 2^-(precision + 1), as its bucket's middle is reported: 0.4
// % with 7. Values beyond kLongest count as it, those below 0 as 0. Memory
// grows with the largest value, to 8 bytes x 2^precision x (44 - precision) at
// most. Not thread-safe.
class LoadHistogram {
 public:
  static constexpr int64_t kLongest = (int64_t{1} << 43) - 1;  // ns: 2.4 hours

  explicit LoadHistogram(int precision = 7) : precision_(precision) {}

  void Add(absl::Duration value);
  // Adds the other's counts; both have one precision.
  void Merge(const LoadHistogram& other);

  uint64_t count() const { return count_; }
  // The smallest value that at least q of all are not above, within the error;
  // 0 of an empty histogram. 0 <= q <= 1.
  absl::Duration Quantile(double q) const;
  absl::Duration max() const { return absl::Nanoseconds(max_); }

 private:
  size_t BucketOf(int64_t ns) const;
  int64_t MiddleOf(size_t bucket) const;

  int precision_;
  uint64_t count_ = 0;
  int64_t max_ = 0;
  std::vector<uint64_t> buckets_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_HISTOGRAM_H_
