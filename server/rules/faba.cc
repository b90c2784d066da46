#include <algorithm>

#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

// The row among `left` that is farthest from their mean: that of the largest
// row sum of D, from which the squared distance differs by a factor and a
// constant. The lowest rows survive ties.
int Farthest(const Distances& distances, const std::vector<int>& left) {
  int farthest = left[0];
  double most = -1;
  for (int i : left) {
    const double sum =
        NeighbourSum(distances, i, left, static_cast<int>(left.size()));
    if (sum >= most) farthest = i;
    most = std::max(most, sum);
  }
  return farthest;
}

class Faba : public Stage {
 public:
  absl::StatusOr<Decision> Decide(const View& view) const override {
    Decision decision;
    decision.selected = Everyone(view.n());
    for (int k = 0; k < view.f; ++k) {
      const int farthest = Farthest(view.distances, decision.selected);
      std::vector<int>& left = decision.selected;
      left.erase(std::find(left.begin(), left.end(), farthest));
    }
    decision.mixing = MeanOf(decision.selected, view.n());
    return decision;
  }
};

}  // namespace

StageInfo FabaStage() {
  return {.name = "faba",
          .kind = StageKind::kDistance,
          .formula =
              "f times drop the vector farthest from the mean of those left; "
              "mean of the rest",
          .limits = "n > 2f",
          .cost = "n^2 d",
          .paper = "Xia, Tao, Hao, Li, FABA, IJCAI 2019",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Faba>(); }};
}

}  // namespace parapet::rules
