#ifndef PARAPET_TESTS_CUDA_OUTPUTS_H_
#define PARAPET_TESTS_CUDA_OUTPUTS_H_

#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/elements.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/host_run.h"

namespace parapet::cuda::testing {

// All that a reduction writes. Poisoned at first: bytes that nobody wrote stand
// out.
struct ReduceOutputs {
  std::vector<float> aggregate, previous, out, moment1, moment2;
  std::vector<unsigned char> publish;
  std::vector<Report::Counter> report;

  ReduceOutputs(const ReduceCase& c, const ReduceData& data,
                const ReducePlan& plan)
      : aggregate(Poisoned<float>(c.elements)),
        previous(data.previous),
        out(Poisoned<float>(c.elements)),
        moment1(data.moment1),
        moment2(data.moment2),
        publish(Poisoned<unsigned char>(c.elements * SizeOf(c.published))),
        report(static_cast<size_t>(plan.report_bytes()) /
               sizeof(Report::Counter)) {
    report[1] = Report::kNone;
  }

  Report* report_at() { return reinterpret_cast<Report*>(report.data()); }

  template <class T>
  static std::vector<T> Poisoned(int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    std::memset(values.data(), 0xFF, values.size() * sizeof(T));
    return values;
  }
};

template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Empty if all bits are the same, else where they are not.
inline std::string Difference(const ReduceOutputs& a, const ReduceOutputs& b) {
  std::string where;
  if (!SameBits(a.aggregate, b.aggregate)) where += " aggregate";
  if (!SameBits(a.previous, b.previous)) where += " previous";
  if (!SameBits(a.out, b.out)) where += " weights";
  if (!SameBits(a.moment1, b.moment1)) where += " moment1";
  if (!SameBits(a.moment2, b.moment2)) where += " moment2";
  if (!SameBits(a.publish, b.publish)) where += " publish";
  if (!SameBits(a.report, b.report)) where += " report";
  return where;
}

// The results of a task, at these addresses (of the host, or of a GPU's
// copies).
struct Addresses {
  float *aggregate, *previous, *out, *moment1, *moment2;
  const float* in;
  void* publish;
  Report* report;
};
inline void SetResults(const ReduceCase& c, const Addresses& at,
                       ReduceTask* task) {
  task->elements = c.elements;
  task->report = at.report;
  task->results.aggregate = at.aggregate;
  task->results.previous = c.previous ? at.previous : nullptr;
  task->results.step = c.optimizer >= 0;
  if (!task->results.step) return;
  task->results.numbers = NumbersFor(c.optimizer);
  task->results.places = {at.in,      at.out,     at.moment1,
                          at.moment2, at.publish, c.published};
}

// The rows that a plan reads, as it wants them.
struct StagedRows {
  std::vector<unsigned char> bytes;
  int64_t stride = 0;
  Stored stored = Stored::kFloat32;
};
inline StagedRows Stage(const ReduceCase& c, const ReduceData& data,
                        const ReducePlan& plan) {
  StagedRows staged;
  staged.stored = plan.decodes() ? Stored::kFloat32 : c.stored;
  staged.stride = (c.elements * SizeOf(staged.stored) + 15) / 16 * 16;
  staged.bytes.resize(plan.read().size() * static_cast<size_t>(staged.stride));
  unsigned char* to = staged.bytes.data();
  for (int row : plan.read()) {
    if (plan.decodes()) {
      for (int64_t j = 0; j < c.elements; ++j)
        DecodeAt(data.Row(row), c.stored, ScaleToDecode(c.scale), j,
                 reinterpret_cast<float*>(to));
    } else {
      std::memcpy(to, data.Row(row), static_cast<size_t>(staged.stride));
    }
    to += staged.stride;
  }
  return staged;
}

inline ReduceOutputs RunOnHost(const ReduceCase& c, const ReduceData& data,
                               const Limits& limits) {
  const ReducePlan plan = PlanOf(data);
  ReduceOutputs outputs(c, data, plan);
  const StagedRows staged = Stage(c, data, plan);
  // Of doubles, for its alignment.
  std::vector<double> header(static_cast<size_t>(plan.header_bytes()) / 8);
  auto* header_bytes = reinterpret_cast<std::byte*>(header.data());
  const std::vector<int64_t> offsets = plan.EvenOffsets(staged.stride);
  plan.WriteHeader(offsets, header_bytes);
  ReduceTask task = plan.TaskOf(header_bytes, staged.bytes.data(),
                                staged.stored, outputs.previous.data());
  SetResults(
      c,
      {outputs.aggregate.data(), outputs.previous.data(), outputs.out.data(),
       outputs.moment1.data(), outputs.moment2.data(), data.weights.data(),
       outputs.publish.data(), outputs.report_at()},
      &task);
  host::Reduce(task, plan.EntriesFor(offsets).data(), limits);
  return outputs;
}

// Of all leaves.
struct DistanceOutputs {
  std::vector<double> sums, tile_sums;
  std::vector<uint8_t> finite;

  explicit DistanceOutputs(const DistanceTask& task)
      : sums(ReduceOutputs::Poisoned<double>(task.leaves() * task.pairs())),
        tile_sums(ReduceOutputs::Poisoned<double>(task.tiles() * task.pairs())),
        finite(
            ReduceOutputs::Poisoned<uint8_t>(task.leaves() * task.rows.count)) {
  }
};

// Without addresses of memory.
inline DistanceTask TaskOf(const DistanceCase& c) {
  DistanceTask task;
  task.rows.count = c.rows;
  task.rows.stored = c.staged_type();
  task.elements = c.elements;
  task.leaf = c.leaf;
  return task;
}

inline DistanceOutputs RunOnHost(const DistanceCase& c,
                                 const DistanceData& data,
                                 const Limits& limits) {
  DistanceTask task = TaskOf(c);
  DistanceOutputs outputs(task);
  task.rows.data = data.staged.data();
  task.rows.entries = data.entries.data();
  task.previous = c.previous ? data.previous.data() : nullptr;
  task.sums = outputs.sums.data();
  task.tile_sums = outputs.tile_sums.data();
  task.finite = outputs.finite.data();
  host::Distances(task, limits);
  return outputs;
}

}  // namespace parapet::cuda::testing

#endif  // PARAPET_TESTS_CUDA_OUTPUTS_H_
