#include "kernels/cpu/reducer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace parapet {
namespace {

// The columns that a mixed plan reads: rows and the previous aggregate, but
// zero, that have a weight.
class UsedRows {
 public:
  UsedRows(const ReduceSpec& spec, absl::Span<const Row> rows,
           const float* previous)
      : stride_(rows.size() + 2) {
    for (size_t c = 0; c < rows.size() + 1; ++c) {
      const bool is_previous = c == rows.size();
      if (!HasWeight(spec, c) || (is_previous && previous == nullptr)) continue;
      rows_.push_back(is_previous ? Row{.data = previous} : rows[c]);
      columns_.push_back(c);
    }
    for (int r = 0; r < spec.mixed_rows; ++r) {
      for (size_t c : columns_)
        weights_.push_back(spec.mixing[r * stride_ + c]);
    }
  }

  const std::vector<Row>& rows() const { return rows_; }
  // One row of rows().size() weights for each combination.
  const std::vector<double>& weights() const { return weights_; }

  // The row that each combination is, or none if one is anything else.
  std::vector<size_t> Selected() const {
    std::vector<size_t> selected;
    const size_t n = rows_.size();
    for (size_t r = 0; n > 0 && r < weights_.size() / n; ++r) {
      const absl::Span<const double> row(&weights_[r * n], n);
      const auto one = std::find(row.begin(), row.end(), 1.0);
      const auto zeros = std::count(row.begin(), row.end(), 0.0);
      if (one == row.end() || static_cast<size_t>(zeros) + 1 != n) return {};
      selected.push_back(static_cast<size_t>(one - row.begin()));
    }
    return selected;
  }

 private:
  bool HasWeight(const ReduceSpec& spec, size_t column) const {
    for (int r = 0; r < spec.mixed_rows; ++r) {
      if (spec.mixing[r * stride_ + column] != 0) return true;
    }
    return false;
  }

  const size_t stride_;
  std::vector<Row> rows_;
  std::vector<size_t> columns_;
  std::vector<double> weights_;
};

bool AreFinite(const float* values, size_t elements) {
  float probe = 0;  // or NaN; and NaN stays
  for (size_t j = 0; j < elements; ++j) probe += values[j] - values[j];
  return probe == 0;
}

// Makes the result of each column that has a NaN one: sorting loses it.
void MarkNan(const uint8_t* const* rows, size_t count, float* results,
             size_t elements) {
  for (size_t r = 0; r < count; ++r) {
    for (size_t j = 0; j < elements; ++j) {
      float value;
      std::memcpy(&value, rows[r] + j * sizeof(float), sizeof(value));
      if (std::isnan(value)) results[j] = value;
    }
  }
}

// A mean, or a sum by weights. Keeps the rows of a sum.
class MeanReducer : public TileReducer {
 public:
  explicit MeanReducer(absl::Span<const Row> rows) : mean_(rows) {}
  MeanReducer(std::vector<Row> rows, double total)
      : rows_(std::move(rows)), mean_(Mean::SumOf(rows_, total)) {}

  void Tile(size_t begin, size_t elements, bool stream, float* aggregate,
            ReduceReport* report) override {
    mean_.Tile(begin, elements, stream, aggregate, report);
  }

 private:
  const std::vector<Row> rows_;
  Mean mean_;
};

// An operation on each column of rows as they are: all of them, each coordinate
// leaving out what is not finite, or those that a plan selected.
class ColumnReducer : public TileReducer {
 public:
  ColumnReducer(const ReduceSpec& spec, std::vector<Row> rows, bool patch)
      : rows_(std::move(rows)),
        floats_(rows_),
        columns_(spec.op, spec.f, spec.scale, static_cast<int>(rows_.size())) {
    if (!patch) return;
    patcher_.emplace(spec.op, spec.f, spec.scale,
                     static_cast<int>(rows_.size()));
  }

  void Tile(size_t begin, size_t elements, bool stream, float* aggregate,
            ReduceReport* report) override {
    const uint8_t* const* rows = floats_.Read(begin, elements);
    if (patcher_) {
      if (!columns_.Reduce(rows, elements, stream, aggregate))
        Again(begin, elements, aggregate, report);
      return;
    }
    // The aggregate may be one of the rows.
    float results[kTileElements];
    if (!columns_.Reduce(rows, elements, false, results))
      Again(begin, elements, results, report);
    std::copy_n(results, elements, aggregate);
  }

 private:
  // A tile with a value that is not finite: from a copy, as it is looked at
  // more than once.
  void Again(size_t begin, size_t elements, float* results,
             ReduceReport* report) {
    const uint8_t* const* rows = floats_.Copy(elements);
    columns_.Reduce(rows, elements, false, results);
    if (AllFinite(rows, rows_.size(), elements)) return;
    if (patcher_)
      return patcher_->Patch(rows, begin, elements, results, report);
    MarkNan(rows, rows_.size(), results, elements);
    ReplaceBad(begin, absl::MakeSpan(results, elements), report);
  }

  const std::vector<Row> rows_;
  FloatRows floats_;
  const Columns columns_;
  std::optional<ColumnPatcher> patcher_;
};

// An operation on each column of combinations of the rows, which exist for a
// few columns at a time only.
class MixedReducer : public TileReducer {
 public:
  MixedReducer(const ReduceSpec& spec, const UsedRows& used)
      : rows_(used.rows()),
        floats_(rows_),
        mixer_(used.weights().data(), static_cast<size_t>(spec.mixed_rows),
               rows_.size(), spec.op != CoordinateOp::kSignVote),
        columns_(spec.op, spec.f, spec.scale, spec.mixed_rows),
        tile_(static_cast<size_t>(spec.mixed_rows) * kElements),
        rest_(rows_.size() * kElements) {
    for (size_t r = 0; r < mixer_.combinations(); ++r)
      mixed_.push_back(reinterpret_cast<const uint8_t*>(&tile_[r * kElements]));
  }

  void Tile(size_t begin, size_t elements, bool, float* aggregate,
            ReduceReport* report) override {
    const uint8_t* const* rows = floats_.Read(begin, elements);
    at_.assign(rows, rows + rows_.size());
    for (size_t i = 0; i < elements; i += kElements) {
      const size_t count = std::min(kElements, elements - i);
      if (count < kElements) CopyRest(count);
      float results[kElements];
      Part(begin + i, count, results, report);
      std::copy_n(results, count, aggregate + i);
      for (const uint8_t*& row : at_) row += kElements * sizeof(float);
    }
  }

 private:
  static constexpr size_t kElements = Mixer::kElements;

  // Of kElements columns that can be read, the first `count` of which count.
  void Part(size_t begin, size_t count, float* results, ReduceReport* report) {
    mixer_.Mix(at_.data(), tile_.data());
    const bool mixed_finite =
        columns_.Reduce(mixed_.data(), kElements, false, results);
    mixer_.AddCenter(at_.data(), results);
    if (mixed_finite && AreFinite(results, kElements)) return;
    bool finite[kElements];
    for (size_t j = 0; j < kElements; ++j)
      finite[j] = IsColumnFinite(j) && std::isfinite(results[j]);
    mixer_.MixInFloat64(at_.data(), tile_.data());
    float again[kElements];
    columns_.Reduce(mixed_.data(), kElements, false, again);
    MarkNan(mixed_.data(), mixed_.size(), again, kElements);
    // A column by itself: its neighbours do not change its bits.
    for (size_t j = 0; j < kElements; ++j) {
      if (!finite[j]) results[j] = again[j];
    }
    ReplaceBad(begin, absl::MakeSpan(results, count), report);
  }

  bool IsColumnFinite(size_t column) const {
    for (size_t at = column; at < tile_.size(); at += kElements) {
      if (!std::isfinite(tile_[at])) return false;
    }
    return true;
  }

  // Makes the last few columns ones of which kElements can be read.
  void CopyRest(size_t elements) {
    for (size_t c = 0; c < at_.size(); ++c) {
      float* copy = &rest_[c * kElements];
      std::memcpy(copy, at_[c], elements * sizeof(float));
      at_[c] = reinterpret_cast<const uint8_t*>(copy);
    }
  }

  const std::vector<Row> rows_;
  FloatRows floats_;
  const Mixer mixer_;
  const Columns columns_;
  std::vector<float> tile_, rest_;
  std::vector<const uint8_t*> at_, mixed_;
};

// Combinations of which only the mean is wanted are one combination.
std::vector<Row> Weighted(const UsedRows& used, int combinations) {
  std::vector<Row> rows = used.rows();
  for (size_t c = 0; c < rows.size(); ++c) {
    rows[c].weight = 0;
    for (int r = 0; r < combinations; ++r)
      rows[c].weight += used.weights()[r * rows.size() + c];
  }
  return rows;
}

std::unique_ptr<TileReducer> MakeMixed(const ReduceSpec& spec,
                                       const UsedRows& used) {
  const bool one = spec.mixed_rows == 1 && spec.op != CoordinateOp::kSignVote;
  if (spec.op == CoordinateOp::kMean || one) {
    return std::make_unique<MeanReducer>(Weighted(used, spec.mixed_rows),
                                         spec.mixed_rows);
  }
  std::vector<Row> selected;
  for (size_t row : used.Selected()) selected.push_back(used.rows()[row]);
  if (!selected.empty())
    return std::make_unique<ColumnReducer>(spec, std::move(selected), false);
  return std::make_unique<MixedReducer>(spec, used);
}

}  // namespace

std::unique_ptr<TileReducer> MakeTileReducer(const ReduceSpec& spec,
                                             absl::Span<const Row> rows,
                                             const float* previous) {
  if (spec.mixed_rows > 0)
    return MakeMixed(spec, UsedRows(spec, rows, previous));
  // No rows have no columns; their mean says so.
  if (spec.op == CoordinateOp::kMean || rows.empty())
    return std::make_unique<MeanReducer>(rows);
  return std::make_unique<ColumnReducer>(
      spec, std::vector<Row>(rows.begin(), rows.end()), true);
}

void ReplaceBad(size_t begin, absl::Span<float> values, ReduceReport* report) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    values[i] = 0;
    if (report->bad_coordinates++ == 0)
      report->first_bad = static_cast<int64_t>(begin + i);
  }
}

}  // namespace parapet
