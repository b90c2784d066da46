#ifndef PARAPET_KERNELS_CUDA_REDUCE_PLAN_H_
#define PARAPET_KERNELS_CUDA_REDUCE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/reduce_coordinate.h"

namespace parapet::cuda {

// What is to be reduced: parapet::ReduceSpec and the numbers of its rows.
struct ReduceSpecification {
  struct RowNumbers {
    double scale = 1;
    double weight = 1;
  };

  Operation op = Operation::kMean;
  int f = 0;
  double scale = 1;
  int mixed_rows = 0;
  const double* mixing = nullptr;  // mixed_rows x (rows + 2)
  std::vector<RowNumbers> rows;
  bool has_previous = false;
};

// How a specification becomes a task: which rows are read, and the numbers that
// go to the GPU with them. Pure, for the host. One plan serves every piece of a
// range.
class ReducePlan {
 public:
  explicit ReducePlan(const ReduceSpecification& specification);

  // The rows that are read, by their number in the specification, ascending.
  // Row read()[i] is expected at offsets[i] of the staged rows, a multiple
  // of 4.
  const std::vector<int>& read() const { return read_; }
  bool reads_previous() const { return reads_previous_; }
  // Whether the rows are to be staged as float32, divided by their scale: it is
  // not a power of two.
  bool decodes() const { return decodes_; }
  // The rows that the report counts, by their number in the specification.
  const std::vector<int>& reported() const { return reported_; }
  int64_t report_bytes() const {
    return Report::BytesFor(static_cast<int>(entries_.size()));
  }

  // The numbers as they go to the GPU: written into host memory, copied to
  // device memory that is aligned to 16 bytes.
  int64_t header_bytes() const;
  void WriteHeader(const std::vector<int64_t>& offsets,
                   std::byte* header) const;

  // The task without its results, range and report. `header`: where the header
  // is for whoever runs the task; rows: the staged rows.
  ReduceTask TaskOf(const std::byte* header, const unsigned char* rows,
                    Stored stored, const float* previous) const;
  // As Reduce takes it, for the same offsets.
  std::vector<RowEntry> EntriesFor(const std::vector<int64_t>& offsets) const;
  // One row after the other.
  std::vector<int64_t> EvenOffsets(int64_t row_stride) const;

 private:
  void PlanRows(const ReduceSpecification& specification);
  void PlanMixed(const ReduceSpecification& specification);
  void ReadUsedColumns(const ReduceSpecification& specification);
  bool IsSelection(const ReduceSpecification& specification);
  void PlanSum(const ReduceSpecification& specification);
  void PlanCombinations(const ReduceSpecification& specification);
  int Center() const;
  void AddEntry(const ReduceSpecification& specification, int slot,
                double weight);

  ReduceTask task_;  // without addresses
  std::vector<int> read_, reported_;
  std::vector<int> slots_;  // of each entry: its row among those read
  std::vector<RowEntry> entries_;
  bool reads_previous_ = false, decodes_ = false;
  std::vector<int> columns_;  // of the mixing that are used
  std::vector<float> coefficients_;
  std::vector<double> weights_;
};

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_REDUCE_PLAN_H_
