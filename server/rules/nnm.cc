#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

class Nnm : public Stage {
 public:
  absl::StatusOr<Decision> Decide(const View& view) const override {
    const int count = view.n() - view.f;
    Decision decision;
    decision.mixing = Mixing(view.n(), view.n() + 2);
    for (int i = 0; i < view.n(); ++i) {
      for (int j : Nearest(view.distances, i, count))
        decision.mixing.at(i, j) = 1.0 / count;
    }
    return decision;
  }
};

}  // namespace

StageInfo NnmStage() {
  return {.name = "nnm",
          .kind = StageKind::kMixing,
          .formula =
              "y_i = mean of the n-f vectors nearest to x_i, itself included",
          .limits = "n > 2f",
          .cost = "n^2 d",
          .paper =
              "Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, Fixing "
              "by mixing, AISTATS 2023",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Nnm>(); }};
}

}  // namespace parapet::rules
