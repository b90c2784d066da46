#include <algorithm>
#include <numeric>

#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

// max(0, cosine of the angle between two rows); 0 for a zero vector.
double Trust(const Distances& distances, int i, int root) {
  const double lengths = distances.Norm(i) * distances.Norm(root);
  if (lengths == 0) return 0;
  const int zero = distances.zero();
  const double inner =
      0.5 * (distances(i, zero) + distances(root, zero) - distances(i, root));
  return std::clamp(inner / lengths, 0.0, 1.0);
}

class Fltrust : public Stage {
 public:
  explicit Fltrust(int root) : root_(root) {}

  int trusted() const override { return root_; }
  absl::StatusOr<Decision> Decide(const View& view) const override {
    absl::StatusOr<int> root = RowOf(view, root_, "fltrust's root");
    if (!root.ok()) return root.status();
    Decision decision;
    for (int i = 0; i < view.n(); ++i) {
      decision.trust.push_back(i == *root ? 1
                                          : Trust(view.distances, i, *root));
    }
    decision.mixing = Rescaled(view.distances, decision.trust, *root);
    return decision;
  }

 private:
  // What a row is scaled by goes to zero, so that the weights sum to 1.
  static Mixing Rescaled(const Distances& distances,
                         const std::vector<double>& trust, int root) {
    const double total = std::accumulate(trust.begin(), trust.end(), 0.0);
    Mixing mean(1, distances.size());
    for (int i = 0; i < distances.n(); ++i) {
      if (trust[i] == 0) continue;
      const double scale =
          i == root ? 1 : distances.Norm(root) / distances.Norm(i);
      mean.at(0, i) = trust[i] / total * scale;
      mean.at(0, distances.zero()) += trust[i] / total * (1 - scale);
    }
    return mean;
  }

  int root_;
};

}  // namespace

StageInfo FltrustStage() {
  return {.name = "fltrust",
          .kind = StageKind::kDistance,
          .formula =
              "mean of the x_i rescaled to ||x_root||, weighted by max(0, "
              "cos(x_i, x_root))",
          .limits = "n > 2f, the root present",
          .cost = "n^2 d",
          .paper = "Cao, Fang, Liu, Gong, FLTrust, NDSS 2021",
          .options = {{.name = "root",
                       .kind = OptionSpec::Kind::kInteger,
                       .required = true,
                       .least = 0}},
          .make =
              [](const Options& options) {
                return std::make_unique<Fltrust>(options.Integer("root"));
              },
          .example = "fltrust(0)"};
}

}  // namespace parapet::rules
