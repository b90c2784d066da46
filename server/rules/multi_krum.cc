#include <algorithm>

#include "server/rules/krum_scores.h"
#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

class MultiKrum : public Stage {
 public:
  // m = 0: n-f-2, which is what the proof covers.
  explicit MultiKrum(int m) : m_(m) {}

  int Needed(int f) const override { return std::max(2 * f + 3, m_ + f); }
  absl::StatusOr<Decision> Decide(const View& view) const override {
    return MeanOfLowest(KrumScores(view.distances, view.f),
                        m_ > 0 ? m_ : view.n() - view.f - 2);
  }

 private:
  int m_;
};

}  // namespace

StageInfo MultiKrumStage() {
  return {.name = "multi_krum",
          .kind = StageKind::kDistance,
          .formula = "mean of the m best Krum scores, m = n-f-2 by default",
          .limits = "n >= 2f+3, m <= n-f",
          .cost = "n^2 d",
          .paper =
              "Blanchard, El Mhamdi, Guerraoui, Stainer, Machine learning with "
              "adversaries, NeurIPS 2017",
          .options = {{.name = "m",
                       .kind = OptionSpec::Kind::kInteger,
                       .least = 1}},
          .make = [](const Options& options) {
            return std::make_unique<MultiKrum>(options.Integer("m", 0));
          }};
}

}  // namespace parapet::rules
