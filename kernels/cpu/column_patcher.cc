#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/reducer.h"

namespace parapet {
namespace {

float ValueAt(const uint8_t* row, size_t element) {
  float value;
  std::memcpy(&value, row + element * sizeof(float), sizeof(value));
  return value;
}

}  // namespace

ColumnPatcher::ColumnPatcher(CoordinateOp op, int f, double scale, int rows)
    : op_(op),
      f_(f),
      scale_(scale),
      rows_(rows),
      packed_(static_cast<size_t>(rows) * kLanes),
      at_(rows),
      columns_(rows) {
  for (int r = 0; r < rows; ++r)
    at_[r] = reinterpret_cast<const uint8_t*>(&packed_[r * kLanes]);
}

void ColumnPatcher::Patch(const uint8_t* const* rows, size_t begin,
                          size_t elements, float* aggregate,
                          ReduceReport* report) {
  report->bad_values.resize(rows_);
  std::vector<const uint8_t*> part(rows, rows + rows_);
  for (size_t i = 0; i < elements; i += kLanes) {
    PatchLanes(part.data(), begin + i, std::min(kLanes, elements - i),
               aggregate + i, report);
    for (const uint8_t*& row : part) row += kLanes * sizeof(float);
  }
}

// A liar may send nothing else: columns with as many values left are done at
// once.
void ColumnPatcher::PatchLanes(const uint8_t* const* rows, size_t begin,
                               size_t elements, float* aggregate,
                               ReduceReport* report) {
  int kept[kLanes];
  Pack(rows, elements, kept, report);
  bool done[kLanes] = {};
  for (size_t l = 0; l < elements; ++l) {
    if (kept[l] == rows_ || done[l]) continue;
    if (kept[l] == 0 || kept[l] < rows_ - f_) {
      aggregate[l] = 0;
      if (report->bad_coordinates++ == 0)
        report->first_bad = static_cast<int64_t>(begin + l);
      continue;
    }
    float some[kLanes];
    ColumnsFor(kept[l]).Reduce(at_.data(), elements, false, some);
    for (size_t other = l; other < elements; ++other) {
      if (kept[other] != kept[l]) continue;
      aggregate[other] = some[other];
      done[other] = true;
    }
  }
}

// Moves each lane's finite values to its first rows, and counts them.
void ColumnPatcher::Pack(const uint8_t* const* rows, size_t elements, int* kept,
                         ReduceReport* report) {
  std::fill(packed_.begin(), packed_.end(), 0.0f);
  std::fill(kept, kept + kLanes, 0);
  for (int r = 0; r < rows_; ++r) {
    for (size_t l = 0; l < elements; ++l) {
      const float value = ValueAt(rows[r], l);
      if (std::isfinite(value)) {
        packed_[kept[l]++ * kLanes + l] = value;
      } else {
        ++report->bad_values[r];
      }
    }
  }
}

// Those that are left out were liars: f is less by as many.
const Columns& ColumnPatcher::ColumnsFor(int kept) {
  std::unique_ptr<Columns>& columns = columns_[kept];
  if (columns == nullptr) {
    const int f = std::max(0, f_ - (rows_ - kept));
    columns = std::make_unique<Columns>(op_, f, scale_, kept);
  }
  return *columns;
}

}  // namespace parapet
