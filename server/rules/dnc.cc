#include "server/rules/gram.h"
#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

class Dnc : public Stage {
 public:
  absl::StatusOr<Decision> Decide(const View& view) const override {
    const Eigen::Index n = view.n();
    const Eigen::MatrixXd gram =
        CentredGram(SubMatrix(view.distances, Everyone(view.n())),
                    Eigen::VectorXd::Constant(n, 1.0 / view.n()));
    const Eigenpair top = TopEigenpair(gram);
    const Eigen::ArrayXd projections = top.value * top.vector.array().square();
    return MeanOfLowest({projections.begin(), projections.end()},
                        view.n() - view.f);
  }
};

}  // namespace

StageInfo DncStage() {
  return {.name = "dnc",
          .kind = StageKind::kDistance,
          .formula =
              "mean without the f largest squared projections on the top "
              "singular vector of the centred rows",
          .limits = "n > 2f",
          .cost = "n^2 d + n^3",
          .paper =
              "Shejwalkar, Houmansadr, Manipulating the Byzantine, NDSS 2021 "
              "(without its sampling of coordinates)",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Dnc>(); }};
}

}  // namespace parapet::rules
