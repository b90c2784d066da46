#include "server/rules/krum_scores.h"
#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

class Krum : public Stage {
 public:
  int Needed(int f) const override { return 2 * f + 3; }
  absl::StatusOr<Decision> Decide(const View& view) const override {
    return MeanOfLowest(KrumScores(view.distances, view.f), 1);
  }
};

}  // namespace

StageInfo KrumStage() {
  return {.name = "krum",
          .kind = StageKind::kDistance,
          .formula = "the x_i with the least sum of its n-f-2 smallest D_ij",
          .limits = "n >= 2f+3",
          .cost = "n^2 d",
          .paper =
              "Blanchard, El Mhamdi, Guerraoui, Stainer, Machine learning with "
              "adversaries, NeurIPS 2017",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Krum>(); }};
}

}  // namespace parapet::rules
