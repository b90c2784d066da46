#include "server/reduction.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/rules/apply_plan.h"

namespace parapet {
namespace {

// Elements that are worked on at a time: a few dozen rows of them stay in the
// second-level cache.
constexpr int64_t kPiece = 4096;

const std::byte* At(const Row& row, int64_t element) {
  return static_cast<const std::byte*>(row.data) +
         element * static_cast<int64_t>(SizeOf(row.dtype));
}

// Rows of wire numbers as float32, a piece at a time. Rows that are float32
// already, and aligned, are not copied.
class FloatRows {
 public:
  FloatRows(const Device& device, absl::Span<const Row> rows, int64_t piece)
      : device_(device), rows_(rows), floats_(rows.size()) {
    for (const Row& row : rows) copies_.emplace_back(Fits(row) ? 0 : piece);
  }

  // Valid until the next call.
  absl::Span<const float* const> Read(int64_t begin, int64_t count) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (row.data == nullptr || Fits(row)) {
        floats_[i] = row.data == nullptr
                         ? nullptr
                         : reinterpret_cast<const float*>(At(row, begin));
        continue;
      }
      device_.Decode(At(row, begin), row.dtype, row.scale, count,
                     copies_[i].data());
      floats_[i] = copies_[i].data();
    }
    return floats_;
  }

 private:
  static bool Fits(const Row& row) {
    return row.dtype == DType::kFloat32 && row.scale == 1 &&
           reinterpret_cast<uintptr_t>(row.data) % alignof(float) == 0;
  }

  const Device& device_;
  const absl::Span<const Row> rows_;
  std::vector<std::vector<float>> copies_;
  std::vector<const float*> floats_;
};

// `here` begins at element `begin` of the range.
void Add(const rules::ApplyReport& here, int64_t begin, ReduceReport* all) {
  if (!here.bad_values.empty()) {
    all->bad_values.resize(here.bad_values.size());
    for (size_t i = 0; i < here.bad_values.size(); ++i)
      all->bad_values[i] += here.bad_values[i];
  }
  all->bad_coordinates += here.bad_coordinates;
  if (here.first_bad >= 0 && all->first_bad < 0)
    all->first_bad = begin + here.first_bad;
}

// Rows of weight 0 are not to be read.
std::vector<Row> UsedRows(const rules::Plan& plan, absl::Span<const Row> rows) {
  std::vector<Row> used(rows.begin(), rows.end());
  for (size_t c = 0; c < used.size() && plan.mixes; ++c) {
    bool any = false;
    for (int r = 0; r < plan.mixing.rows; ++r)
      any = any || plan.mixing.at(r, static_cast<int>(c)) != 0;
    if (!any || plan.bad) used[c].data = nullptr;
  }
  return used;
}

}  // namespace

ReduceReport ReduceByPlan(const Device& device, const rules::Plan& plan,
                          absl::Span<const Row> rows, int64_t elements,
                          float* previous, const TakeAggregate& take) {
  ReduceReport report;
  const std::vector<Row> used = UsedRows(plan, rows);
  FloatRows floats(device, used, kPiece);
  std::vector<double> samples;
  for (const Row& row : rows) samples.push_back(row.weight);
  std::vector<float> values(kPiece);
  for (int64_t begin = 0; begin < elements; begin += kPiece) {
    const int64_t count = std::min(kPiece, elements - begin);
    rules::Shard shard;
    shard.rows = floats.Read(begin, count);
    shard.samples = samples;
    shard.prev = previous == nullptr ? nullptr : previous + begin;
    shard.elements = count;
    Add(rules::ApplyPlan(plan, shard, values.data()), begin, &report);
    if (previous != nullptr)
      std::copy_n(values.data(), count, previous + begin);
    take(begin, count, values.data());
  }
  return report;
}

StepTarget Offset(const StepTarget& target, int64_t element) {
  StepTarget at = target;
  at.in += element;
  at.out += element;
  if (at.moment1 != nullptr) at.moment1 += element;
  if (at.moment2 != nullptr) at.moment2 += element;
  if (at.publish != nullptr) {
    at.publish = static_cast<std::byte*>(at.publish) +
                 element * static_cast<int64_t>(SizeOf(at.publish_dtype));
  }
  return at;
}

std::vector<LeafSums> MeasureLeaves(const Device& device,
                                    absl::Span<const Row> rows,
                                    const float* previous, int64_t elements,
                                    int64_t leaf) {
  const auto n = static_cast<int>(rows.size());
  FloatRows floats(device, rows, std::min(leaf, elements));
  std::vector<LeafSums> leaves;
  for (int64_t begin = 0; begin < elements; begin += leaf) {
    const int64_t count = std::min(leaf, elements - begin);
    LeafSums& sums = leaves.emplace_back();
    sums.sums.resize(rules::PairCount(n));
    sums.finite.assign(rows.size(), 1);
    rules::LeafDistances(floats.Read(begin, count),
                         previous == nullptr ? nullptr : previous + begin,
                         count, sums.sums.data(), sums.finite.data());
  }
  return leaves;
}

ShardDistances::ShardDistances(std::vector<uint32_t> workers)
    : workers_(std::move(workers)), sums_(static_cast<int>(workers_.size())) {}

void ShardDistances::Add(absl::Span<const uint32_t> workers,
                         absl::Span<const LeafSums> leaves) {
  const std::vector<int> rows = rules::PositionsOf(workers_, workers);
  for (const LeafSums& leaf : leaves)
    sums_.AddSums(rows, leaf.sums.data(), leaf.finite.data());
}

ShardReportMessage ShardDistances::Report(
    uint64_t round, const std::vector<uint32_t>& workers) const {
  const rules::PartialDistances kept =
      sums_.Keep(rules::PositionsOf(workers_, workers));
  ShardReportMessage report;
  report.round = round;
  report.workers = workers;
  report.finite = kept.finite();
  report.sums = std::make_shared<std::vector<ExactSum>>(kept.sums());
  return report;
}

}  // namespace parapet
