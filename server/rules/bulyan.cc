#include <algorithm>

#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

// The Krum winner among the rows left, with max(1, left-f-2) neighbours; ties
// go to the lowest row.
int Winner(const Distances& distances, const std::vector<int>& left, int f) {
  const int neighbours = std::max(1, static_cast<int>(left.size()) - f - 2);
  std::vector<double> scores;
  for (int i : left)
    scores.push_back(NeighbourSum(distances, i, left, neighbours));
  return left[Order(scores)[0]];
}

class Bulyan : public Stage {
 public:
  int Needed(int f) const override { return 4 * f + 3; }

  absl::StatusOr<Decision> Decide(const View& view) const override {
    const int picks = view.n() - 2 * view.f;
    std::vector<int> left = Everyone(view.n());
    Decision decision;
    decision.mixing = Mixing(picks, view.n() + 2);
    for (int pick = 0; pick < picks; ++pick) {
      const int winner = Winner(view.distances, left, view.f);
      decision.mixing.at(pick, winner) = 1;
      decision.selected.push_back(winner);
      left.erase(std::find(left.begin(), left.end(), winner));
    }
    // The picks - 2f values nearest to their median.
    decision.coordinate = {.op = CoordinateOp::kMeamed, .f = 2 * view.f};
    return decision;
  }
};

}  // namespace

StageInfo BulyanStage() {
  return {.name = "bulyan",
          .kind = StageKind::kDistance,
          .formula =
              "meamed about n-2f picks, each the Krum winner among those left",
          .limits = "n >= 4f+3",
          .cost = "n^2 d + n^3 log n",
          .paper =
              "El Mhamdi, Guerraoui, Rouault, The hidden vulnerability of "
              "distributed learning in Byzantium, ICML 2018",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Bulyan>(); }};
}

}  // namespace parapet::rules
