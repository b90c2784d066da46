#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

class Monna : public Stage {
 public:
  explicit Monna(int pivot) : pivot_(pivot) {}

  int trusted() const override { return pivot_; }
  absl::StatusOr<Decision> Decide(const View& view) const override {
    absl::StatusOr<int> pivot = RowOf(view, pivot_, "monna's pivot");
    if (!pivot.ok()) return pivot.status();
    Decision decision;
    decision.selected = Nearest(view.distances, *pivot, view.n() - view.f);
    decision.mixing = MeanOf(decision.selected, view.n());
    for (int i = 0; i < view.n(); ++i)
      decision.scores.push_back(view.distances(i, *pivot));
    return decision;
  }

 private:
  int pivot_;
};

}  // namespace

StageInfo MonnaStage() {
  return {.name = "monna",
          .kind = StageKind::kDistance,
          .formula = "mean of the n-f vectors nearest to a trusted worker's",
          .limits = "n > 2f, the pivot present",
          .cost = "n^2 d",
          .paper =
              "Farhadkhani, Guerraoui, Gupta, Hoang, Pinot, Stephan, Robust "
              "collaborative learning with linear gradient overhead, ICML 2023",
          .options = {{.name = "pivot",
                       .kind = OptionSpec::Kind::kInteger,
                       .required = true,
                       .least = 0}},
          .make =
              [](const Options& options) {
                return std::make_unique<Monna>(options.Integer("pivot"));
              },
          .example = "monna(0)"};
}

}  // namespace parapet::rules
