#ifndef PARAPET_SERVER_RULES_SELECTION_H_
#define PARAPET_SERVER_RULES_SELECTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/rules/distances.h"
#include "server/rules/stage.h"

namespace parapet::rules {

// 0 .. values.size()-1 by ascending value; ties go to the lowest index.
std::vector<int> Order(absl::Span<const double> values);

// The `count` rows nearest to row i, itself first; ties go to the lowest row.
std::vector<int> Nearest(const Distances& distances, int i, int count);

// Row i's sum of the `count` smallest squared distances to the other rows in
// `among`, in ascending order of distance. Fewer if there are fewer.
double NeighbourSum(const Distances& distances, int i,
                    absl::Span<const int> among, int count);

// The row of a worker. FailedPrecondition if it is not among those seen: `who`
// says what it is to the rule, "monna's pivot".
absl::StatusOr<int> RowOf(const View& view, int worker, absl::string_view who);

// 0, 1, ..., n-1.
std::vector<int> Everyone(int n);

// The mean of the selected rows, as the one row of a plan on n rows.
Mixing MeanOf(absl::Span<const int> selected, int n);

// The decision for the mean of the first `count` of the rows ordered by
// `scores`, lowest first.
Decision MeanOfLowest(std::vector<double> scores, int count);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_SELECTION_H_
