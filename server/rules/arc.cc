#include <algorithm>
#include <functional>

#include "server/rules/clipping.h"
#include "server/rules/registry.h"

namespace parapet::rules {
namespace {

class Arc : public Stage {
 public:
  absl::StatusOr<Decision> Decide(const View& view) const override {
    const int64_t n = view.n(), f = view.f;
    const int64_t clipped = 2 * f * (n - f) / n;
    std::vector<double> norms;
    for (int i = 0; i < view.n(); ++i) norms.push_back(view.distances.Norm(i));
    std::sort(norms.begin(), norms.end(), std::greater<>());
    Decision decision;
    decision.mixing = Clipped(view.distances, norms[clipped]);
    return decision;
  }
};

}  // namespace

StageInfo ArcStage() {
  return {.name = "arc",
          .kind = StageKind::kMixing,
          .formula =
              "the floor(2f(n-f)/n) largest norms clipped to the next largest",
          .limits = "n > 2f",
          .cost = "n^2 d",
          .paper =
              "Allouah, Guerraoui, Gupta, Jellouli, Rizk, Stephan, Adaptive "
              "gradient clipping for robust federated learning, ICLR 2025",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Arc>(); }};
}

}  // namespace parapet::rules
