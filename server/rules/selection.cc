#include "server/rules/selection.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parapet::rules {

std::vector<int> Everyone(int n) {
  std::vector<int> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<int> Order(absl::Span<const double> values) {
  std::vector<int> order = Everyone(static_cast<int>(values.size()));
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return values[a] < values[b]; });
  return order;
}

std::vector<int> Nearest(const Distances& distances, int i, int count) {
  std::vector<int> rows = Everyone(distances.n());
  std::stable_sort(rows.begin(), rows.end(), [&](int a, int b) {
    if (a == i || b == i) return a == i && b != i;
    return distances(i, a) < distances(i, b);
  });
  rows.resize(count);
  return rows;
}

double NeighbourSum(const Distances& distances, int i,
                    absl::Span<const int> among, int count) {
  std::vector<double> others;
  for (int j : among) {
    if (j != i) others.push_back(distances(i, j));
  }
  std::sort(others.begin(), others.end());
  others.resize(std::min<size_t>(others.size(), count));
  return std::accumulate(others.begin(), others.end(), 0.0);
}

absl::StatusOr<int> RowOf(const View& view, int worker, absl::string_view who) {
  const auto found =
      std::find(view.workers.begin(), view.workers.end(), worker);
  if (found != view.workers.end())
    return static_cast<int>(found - view.workers.begin());
  return absl::FailedPreconditionError(absl::StrCat(
      who, ", worker ", worker, ", is not among this round's vectors"));
}

Mixing MeanOf(absl::Span<const int> selected, int n) {
  Mixing mean(1, n + 2);
  for (int row : selected)
    mean.at(0, row) = 1.0 / static_cast<double>(selected.size());
  return mean;
}

Decision MeanOfLowest(std::vector<double> scores, int count) {
  Decision decision;
  decision.selected = Order(scores);
  decision.selected.resize(count);
  decision.mixing = MeanOf(decision.selected, static_cast<int>(scores.size()));
  decision.scores = std::move(scores);
  return decision;
}

}  // namespace parapet::rules
