#include "tools/load_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace parapet {

void LoadHistogram::Add(absl::Duration value) {
  const int64_t ns =
      std::clamp<int64_t>(absl::ToInt64Nanoseconds(value), 0, kLongest);
  const size_t bucket = BucketOf(ns);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
  max_ = std::max(max_, ns);
}

void LoadHistogram::Merge(const LoadHistogram& other) {
  buckets_.resize(std::max(buckets_.size(), other.buckets_.size()));
  for (size_t i = 0; i < other.buckets_.size(); ++i)
    buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

// Bucket 2^p x k + j, k > 0, holds values of p + k bits whose p bits after the
// highest are j.
size_t LoadHistogram::BucketOf(int64_t ns) const {
  const int bits = std::bit_width(static_cast<uint64_t>(ns));
  const int shift = std::max(0, bits - 1 - precision_);
  const size_t row = static_cast<size_t>(shift) << precision_;
  return row + static_cast<size_t>(ns >> shift);
}

int64_t LoadHistogram::MiddleOf(size_t bucket) const {
  const size_t width = size_t{1} << precision_;
  if (bucket < 2 * width) return static_cast<int64_t>(bucket);
  const size_t shift = (bucket >> precision_) - 1;
  const auto low = static_cast<int64_t>((bucket & (width - 1)) | width);
  return (low << shift) + (int64_t{1} << shift) / 2;
}

absl::Duration LoadHistogram::Quantile(double q) const {
  if (count_ == 0) return absl::ZeroDuration();
  const auto rank = static_cast<uint64_t>(
      std::max(1.0, std::ceil(q * static_cast<double>(count_))));
  if (rank >= count_) return max();
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return absl::Nanoseconds(std::min(MiddleOf(i), max_));
  }
  return max();
}

}  // namespace parapet
