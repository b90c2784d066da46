#include <utility>

#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

class Cge : public Stage {
 public:
  absl::StatusOr<Decision> Decide(const View& view) const override {
    std::vector<double> squares;
    for (int i = 0; i < view.n(); ++i)
      squares.push_back(view.distances(i, view.distances.zero()));
    return MeanOfLowest(std::move(squares), view.n() - view.f);
  }
};

}  // namespace

StageInfo CgeStage() {
  return {.name = "cge",
          .kind = StageKind::kDistance,
          .formula = "mean of the n-f vectors of least norm",
          .limits = "n > 2f",
          .cost = "n^2 d",
          .paper =
              "Gupta, Liu, Vaidya, Byzantine fault-tolerant distributed "
              "machine learning with norm-based comparative gradient "
              "elimination, DSN-W 2021",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Cge>(); }};
}

}  // namespace parapet::rules
