#include "server/rules/apply_plan.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "server/rules/coordinate.h"
#include "server/rules/vector16.h"

namespace parapet::rules {
namespace {

constexpr int kLanes = kTileLanes;

void CountBad(int64_t coordinate, ApplyReport& report) {
  if (report.bad_coordinates++ == 0) report.first_bad = coordinate;
}

// Plans that leave the rows as they are: every coordinate judges its own
// values.
class ByCoordinate {
 public:
  ByCoordinate(const Plan& plan, const Shard& shard)
      : shard_(shard),
        coordinate_(plan.coordinate),
        n_(plan.rows()),
        tile_(size_t(n_) * kLanes) {
    if (coordinate_.weighted && !shard.samples.empty())
      weights_ = shard.samples.data();
    for (int r = 0; r < n_; ++r) {
      if (weights_ == nullptr || weights_[r] != 0) used_.push_back(r);
    }
    for (int r : used_)
      used_weights_.push_back(weights_ == nullptr ? 1 : weights_[r]);
  }

  ApplyReport Run(float* out) {
    ApplyReport report;
    if (used_.empty()) return NobodyThere(out);
    const ColumnReducer reducer(coordinate_, static_cast<int>(used_.size()));
    for (int64_t begin = 0; begin < shard_.elements; begin += kLanes) {
      const int count =
          static_cast<int>(std::min<int64_t>(kLanes, shard_.elements - begin));
      const bool finite = Load(begin, count);
      float results[kLanes];
      reducer.ReduceTile(tile_.data(),
                         weights_ ? used_weights_.data() : nullptr, results);
      if (!finite) Patch(begin, count, results, report);
      std::copy(results, results + count, out + begin);
    }
    return report;
  }

 private:
  ApplyReport NobodyThere(float* out) const {
    std::fill(out, out + shard_.elements, 0.0f);
    return {{}, shard_.elements, shard_.elements > 0 ? 0 : -1};
  }

  // Returns whether all values are finite.
  bool Load(int64_t begin, int count) {
    bool finite = true;
    for (size_t k = 0; k < used_.size(); ++k) {
      float* row = &tile_[k * kLanes];
      std::copy_n(shard_.rows[used_[k]] + begin, count, row);
      std::fill(row + count, row + kLanes, 0.0f);
      float probe =
          0;  // stays 0, or becomes NaN at the first value that is not finite
      for (int l = 0; l < kLanes; ++l) probe += row[l] * 0.0f;
      finite &= probe == 0;
    }
    return finite;
  }

  // Does the coordinates with a value that is not finite again, those with
  // equally many left at once: a liar may send nothing else.
  void Patch(int64_t begin, int count, float* results, ApplyReport& report) {
    report.bad_values.resize(n_);
    int kept[kLanes];
    Pack(begin, count, kept, report);
    const int n = static_cast<int>(used_.size());
    bool done[kLanes] = {};
    for (int l = 0; l < count; ++l) {
      if (kept[l] == n || done[l]) continue;
      if (weights_ != nullptr) {
        if (!WeightedMean(begin + l, &results[l])) CountBad(begin + l, report);
        continue;
      }
      const bool mean = coordinate_.op == CoordinateOp::kMean;
      if (kept[l] == 0 || (!mean && kept[l] < n - coordinate_.f)) {
        results[l] = 0;
        CountBad(begin + l, report);
        continue;
      }
      float some[kLanes];
      tile_ = packed_;
      ReducerFor(kept[l]).ReduceTile(tile_.data(), nullptr, some);
      for (int other = l; other < count; ++other) {
        if (kept[other] != kept[l]) continue;
        results[other] = some[other];
        done[other] = true;
      }
    }
  }

  // Moves each lane's finite values to its first rows, and counts them.
  void Pack(int64_t begin, int count, int* kept, ApplyReport& report) {
    packed_.assign(tile_.size(), 0.0f);
    std::fill(kept, kept + kLanes, 0);
    for (int r : used_) {
      const float* row = shard_.rows[r] + begin;
      for (int l = 0; l < count; ++l) {
        if (std::isfinite(row[l])) {
          packed_[kept[l]++ * kLanes + l] = row[l];
        } else {
          ++report.bad_values[r];
        }
      }
    }
  }

  // Of the finite values, which have weights of their own at each element.
  // False, and 0: there is none.
  bool WeightedMean(int64_t element, float* result) const {
    double sum = 0, total = 0;
    for (size_t k = 0; k < used_.size(); ++k) {
      const float value = shard_.rows[used_[k]][element];
      if (!std::isfinite(value)) continue;
      total += used_weights_[k];
      sum += used_weights_[k] * static_cast<double>(value);
    }
    *result = total == 0 ? 0 : static_cast<float>(sum / total + 0.0);
    return total != 0;
  }

  // Those that are left out were liars: f is less by as many.
  const ColumnReducer& ReducerFor(int kept) {
    reducers_.resize(used_.size());
    std::unique_ptr<ColumnReducer>& reducer = reducers_[kept];
    if (reducer == nullptr) {
      Coordinate lowered = coordinate_;
      const int gone = static_cast<int>(used_.size()) - kept;
      lowered.f = std::max(0, coordinate_.f - gone);
      reducer = std::make_unique<ColumnReducer>(lowered, kept);
    }
    return *reducer;
  }

  const Shard& shard_;
  const Coordinate coordinate_;
  const int n_;
  const double* weights_ = nullptr;
  std::vector<int> used_;
  std::vector<double> used_weights_;
  std::vector<float> tile_, packed_;
  std::vector<std::unique_ptr<ColumnReducer>> reducers_;  // by rows
};

// Plans that mix rows. What is not finite was left out when the plan was made.
class ByMixing {
 public:
  ByMixing(const Plan& plan, const Shard& shard)
      : plan_(plan), shard_(shard), n_(static_cast<int>(plan.workers.size())) {
    for (int c = 0; c < n_ + 1; ++c) {
      if (c == n_ && shard.prev == nullptr) continue;
      if (Used(c)) used_.push_back(c);
    }
    inputs_.resize(used_.size() * kLanes);
    tile_.resize(static_cast<size_t>(plan.mixing.rows) * kLanes);
  }

  ApplyReport Run(float* out) {
    ApplyReport report;
    const ColumnReducer reducer(plan_.coordinate, plan_.mixing.rows);
    for (int64_t begin = 0; begin < shard_.elements; begin += kLanes) {
      const int count =
          static_cast<int>(std::min<int64_t>(kLanes, shard_.elements - begin));
      Load(begin, count);
      Mix();
      float results[kLanes];
      reducer.ReduceTile(tile_.data(), nullptr, results);
      for (int l = 0; l < count; ++l) {
        if (!std::isfinite(results[l])) {
          results[l] = 0;
          CountBad(begin + l, report);
        }
        out[begin + l] = results[l];
      }
    }
    return report;
  }

 private:
  bool Used(int column) const {
    for (int r = 0; r < plan_.mixing.rows; ++r) {
      if (plan_.mixing.at(r, column) != 0) return true;
    }
    return false;
  }

  void Load(int64_t begin, int count) {
    for (size_t k = 0; k < used_.size(); ++k) {
      const float* row = used_[k] == n_ ? shard_.prev : shard_.rows[used_[k]];
      double* input = &inputs_[k * kLanes];
      for (int l = 0; l < count; ++l) input[l] = row[begin + l];
      std::fill(input + count, input + kLanes, 0.0);
    }
  }

  // The tile of M X, summed in the order of the columns. The zero column adds
  // nothing.
  void Mix() {
    using V = Vector16<double>;
    std::fill(tile_.begin(), tile_.end(), 0.0);
    for (int r = 0; r < plan_.mixing.rows; ++r) {
      double* mixed = &tile_[static_cast<size_t>(r) * kLanes];
      for (size_t k = 0; k < used_.size(); ++k) {
        const double weight = plan_.mixing.at(r, used_[k]);
        if (weight == 0) continue;
        const double* input = &inputs_[k * kLanes];
        for (int l = 0; l < kLanes; l += V::kSize) {
          V::Store(V::Load(mixed + l) + weight * V::Load(input + l), mixed + l);
        }
      }
    }
  }

  const Plan& plan_;
  const Shard& shard_;
  const int n_;
  std::vector<int> used_;
  std::vector<double> inputs_, tile_;
};

}  // namespace

ApplyReport ApplyPlan(const Plan& plan, const Shard& shard, float* out) {
  if (plan.bad) {
    std::fill(out, out + shard.elements, 0.0f);
    return {};
  }
  return plan.mixes ? ByMixing(plan, shard).Run(out)
                    : ByCoordinate(plan, shard).Run(out);
}

}  // namespace parapet::rules
