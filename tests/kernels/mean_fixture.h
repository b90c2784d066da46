#ifndef PARAPET_TESTS_KERNELS_MEAN_FIXTURE_H_
#define PARAPET_TESTS_KERNELS_MEAN_FIXTURE_H_

#include <limits>
#include <utility>
#include <vector>

#include "tests/kernels/kernel_testing.h"

namespace parapet::kernel_testing {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Rows with storage of their own, at odd addresses.
class OwnedRows {
 public:
  explicit OwnedRows(int64_t elements) : elements_(elements) {}

  void Add(const std::vector<float>& values, double weight = 1,
           DType dtype = DType::kFloat32, double scale = 1) {
    const size_t offset =
        2 * storage_.size() + 2;  // 2 mod 4 and 0 mod 4 by turns
    Guarded<uint8_t>& bytes =
        storage_.emplace_back(elements_ * SizeOf(dtype), offset);
    for (size_t j = 0; j < values.size(); ++j) {
      StoreValue(values[j], dtype, static_cast<int64_t>(j), bytes.bytes());
    }
    rows_.push_back({.data = bytes.bytes(),
                     .dtype = dtype,
                     .scale = scale,
                     .weight = weight});
  }
  void AddRaw(const Row& row) { rows_.push_back(row); }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  int64_t elements_;
  std::vector<Guarded<uint8_t>> storage_;
  std::vector<Row> rows_;
};

inline OwnedRows RandomRows(std::mt19937_64& random, int64_t count,
                            int64_t elements, const std::vector<DType>& types) {
  OwnedRows rows(elements);
  for (int64_t i = 0; i < count; ++i) {
    const DType type = types[static_cast<size_t>(i) % types.size()];
    const double scale = type == DType::kFloat16 ? 1024 : 1;
    const double weight = static_cast<double>(random() % 5);
    rows.Add(RandomFloats(random, elements), weight, type, scale);
  }
  return rows;
}

struct ReferenceReduction {
  std::vector<float> mean;
  std::vector<int64_t> bad_values;  // always one per row
  int64_t bad_coordinates = 0;
  int64_t first_bad = -1;
};

// The contract of Device::Reduce, a coordinate at a time.
inline ReferenceReduction ReferenceReduce(const std::vector<Row>& rows,
                                          int64_t elements) {
  ReferenceReduction result;
  result.bad_values.resize(rows.size());
  for (int64_t j = 0; j < elements; ++j) {
    double sum = 0, total = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].weight == 0) continue;
      const double value =
          StoredValue(rows[i].data, rows[i].dtype, j) / rows[i].scale;
      if (!std::isfinite(value)) {
        ++result.bad_values[i];
        continue;
      }
      sum += rows[i].weight * value;
      total += rows[i].weight;
    }
    if (total == 0 && result.bad_coordinates++ == 0) result.first_bad = j;
    result.mean.push_back(total == 0 ? 0 : static_cast<float>(sum / total));
  }
  return result;
}

}  // namespace parapet::kernel_testing

#endif  // PARAPET_TESTS_KERNELS_MEAN_FIXTURE_H_
