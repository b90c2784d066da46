#include "kernels/cuda/reduce_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace parapet::cuda {
namespace {

// Parts of the header begin at multiples of this.
constexpr int64_t kAlignment = 16;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <class T>
int64_t PartBytes(const std::vector<T>& part) {
  return Aligned(static_cast<int64_t>(part.size() * sizeof(T)));
}

template <class T>
std::byte* Put(const std::vector<T>& part, std::byte* to) {
  if (!part.empty()) std::memcpy(to, part.data(), part.size() * sizeof(T));
  return to + PartBytes(part);
}

const double* WeightsOf(const ReduceSpecification& specification, int row) {
  return specification.mixing +
         row * (static_cast<int64_t>(specification.rows.size()) + 2);
}

}  // namespace

ReducePlan::ReducePlan(const ReduceSpecification& specification) {
  task_.op = specification.op;
  task_.f = specification.f;
  task_.scale = specification.scale;
  specification.mixed_rows > 0 ? PlanMixed(specification)
                               : PlanRows(specification);
  // A mean of rows as they are, or a sum by weights, divides them itself.
  if (task_.op == Operation::kMean) return;
  for (const RowEntry& entry : entries_)
    decodes_ = decodes_ || entry.divisor != 1;
  for (RowEntry& entry : entries_) {
    if (decodes_) entry.inverse = 1;
  }
}

void ReducePlan::AddEntry(const ReduceSpecification& specification, int slot,
                          double weight) {
  slots_.push_back(slot);
  entries_.push_back(
      MakeRowEntry(0, specification.rows[read_[slot]].scale, weight));
}

// No rows have a mean that is bad everywhere, whatever the operation.
void ReducePlan::PlanRows(const ReduceSpecification& specification) {
  if (specification.rows.empty()) task_.op = Operation::kMean;
  for (size_t r = 0; r < specification.rows.size(); ++r) {
    const double weight = specification.rows[r].weight;
    if (task_.op == Operation::kMean && !(weight > 0)) continue;
    read_.push_back(static_cast<int>(r));
    AddEntry(specification, static_cast<int>(read_.size()) - 1, weight);
  }
  reported_ = read_;
  task_.values = static_cast<int>(entries_.size());
}

void ReducePlan::ReadUsedColumns(const ReduceSpecification& specification) {
  const auto n = static_cast<int>(specification.rows.size());
  for (int c = 0; c <= n; ++c) {
    bool used = false;
    for (int r = 0; r < specification.mixed_rows; ++r)
      used = used || WeightsOf(specification, r)[c] != 0;
    if (!used || (c == n && !specification.has_previous)) continue;
    columns_.push_back(c);
    if (c < n) read_.push_back(c);
    reads_previous_ = c == n;
  }
}

// Combinations of which only the mean is wanted are one sum by weights.
void ReducePlan::PlanMixed(const ReduceSpecification& specification) {
  task_.leaves_out = false;
  task_.values = specification.mixed_rows;
  ReadUsedColumns(specification);
  const bool one =
      specification.mixed_rows == 1 && specification.op != Operation::kSignVote;
  if (specification.op == Operation::kMean || one) {
    PlanSum(specification);
  } else if (!IsSelection(specification)) {
    PlanCombinations(specification);
  }
}

void ReducePlan::PlanSum(const ReduceSpecification& specification) {
  task_.op = Operation::kMean;
  task_.total = specification.mixed_rows;
  for (size_t k = 0; k < columns_.size(); ++k) {
    double weight = 0;
    for (int r = 0; r < specification.mixed_rows; ++r)
      weight += WeightsOf(specification, r)[columns_[k]];
    if (k < read_.size()) {
      AddEntry(specification, static_cast<int>(k), weight);
    } else {
      task_.previous_factor = weight;
    }
  }
}

// Whether each combination is a row and nothing else; then there is no
// arithmetic.
bool ReducePlan::IsSelection(const ReduceSpecification& specification) {
  if (reads_previous_ || read_.empty()) return false;
  std::vector<int> selected;
  for (int r = 0; r < specification.mixed_rows; ++r) {
    const double* weights = WeightsOf(specification, r);
    int ones = 0, others = 0, slot = 0;
    for (size_t k = 0; k < read_.size(); ++k) {
      if (weights[read_[k]] == 1) {
        ++ones;
        slot = static_cast<int>(k);
      } else if (weights[read_[k]] != 0) {
        ++others;
      }
    }
    if (ones != 1 || others != 0) return false;
    selected.push_back(slot);
  }
  for (int slot : selected) AddEntry(specification, slot, 1);
  return true;
}

void ReducePlan::PlanCombinations(const ReduceSpecification& specification) {
  for (size_t k = 0; k < read_.size(); ++k)
    AddEntry(specification, static_cast<int>(k), 1);
  const int rows = specification.mixed_rows;
  const size_t columns = columns_.size();
  const int stride = PlacesFor(rows);
  coefficients_.assign(columns * static_cast<size_t>(stride), 0);
  for (int r = 0; r < rows; ++r) {
    for (size_t k = 0; k < columns; ++k) {
      const double weight = WeightsOf(specification, r)[columns_[k]];
      weights_.push_back(weight);
      coefficients_[k * stride + r] = static_cast<float>(weight);
    }
  }
  task_.mixing.combinations = rows;
  task_.mixing.columns = static_cast<int>(columns);
  task_.mixing.stride = stride;
  if (specification.op != Operation::kSignVote) task_.mixing.center = Center();
}

// The column that is in most combinations, the first of equals; -1 if it is not
// in more than half of them, or if the weights of one do not add up to 1, but
// for their rounding.
int ReducePlan::Center() const {
  const size_t columns = columns_.size();
  std::vector<int> used(columns);
  for (size_t first = 0; first < weights_.size(); first += columns) {
    double sum = 0;
    for (size_t k = 0; k < columns; ++k) {
      sum += weights_[first + k];
      used[k] += weights_[first + k] != 0;
    }
    if (!(std::abs(sum - 1) < 1e-12)) return -1;
  }
  const auto most = std::max_element(used.begin(), used.end());
  const bool near_most = most != used.end() && 2 * static_cast<size_t>(*most) >
                                                   weights_.size() / columns;
  return near_most ? static_cast<int>(most - used.begin()) : -1;
}

std::vector<RowEntry> ReducePlan::EntriesFor(
    const std::vector<int64_t>& offsets) const {
  std::vector<RowEntry> entries = entries_;
  for (size_t i = 0; i < entries.size(); ++i)
    entries[i].offset = offsets[slots_[i]];
  return entries;
}

std::vector<int64_t> ReducePlan::EvenOffsets(int64_t row_stride) const {
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < read_.size(); ++i)
    offsets.push_back(static_cast<int64_t>(i) * row_stride);
  return offsets;
}

int64_t ReducePlan::header_bytes() const {
  return PartBytes(entries_) + PartBytes(weights_) + PartBytes(coefficients_);
}

void ReducePlan::WriteHeader(const std::vector<int64_t>& offsets,
                             std::byte* header) const {
  header = Put(EntriesFor(offsets), header);
  header = Put(weights_, header);
  Put(coefficients_, header);
}

ReduceTask ReducePlan::TaskOf(const std::byte* header,
                              const unsigned char* rows, Stored stored,
                              const float* previous) const {
  ReduceTask task = task_;
  task.rows = {rows, reinterpret_cast<const RowEntry*>(header),
               static_cast<int>(entries_.size()), stored};
  if (reads_previous_) task.mixing.previous = previous;
  if (task.mixing.combinations == 0) return task;
  const std::byte* at = header + PartBytes(entries_);
  task.mixing.weights = reinterpret_cast<const double*>(at);
  at += PartBytes(weights_);
  task.mixing.coefficients = reinterpret_cast<const float*>(at);
  return task;
}

}  // namespace parapet::cuda
