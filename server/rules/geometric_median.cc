#include "server/rules/medoid_frame.h"
#include "server/rules/registry.h"

namespace parapet::rules {
namespace {

constexpr double kSettled =
    1e-12;  // no weight moves by more than this of itself

class GeometricMedian : public Stage {
 public:
  GeometricMedian(double nu, int iterations, bool from_zero)
      : nu_(nu), iterations_(iterations), from_zero_(from_zero) {}

  absl::StatusOr<Decision> Decide(const View& view) const override {
    const MedoidFrame frame(view.distances, view.f);
    Eigen::VectorXd weights = Start(view.distances);
    for (int iteration = 0; iteration < iterations_; ++iteration) {
      const Eigen::VectorXd next = Next(frame.DistancesTo(weights));
      const bool settled = Settled(weights, next);
      weights = next;
      if (settled) break;
    }
    Decision decision;
    decision.mixing = Mixing(1, view.n() + 2);
    decision.mixing.weights.assign(weights.begin(), weights.end());
    decision.trust.assign(weights.begin(), weights.begin() + view.n());
    return decision;
  }

 private:
  Eigen::VectorXd Start(const Distances& distances) const {
    Eigen::VectorXd weights = Eigen::VectorXd::Zero(distances.size());
    if (from_zero_) {
      weights[distances.zero()] = 1;
    } else {
      weights.head(distances.n()).setConstant(1.0 / distances.n());
    }
    return weights;
  }

  Eigen::VectorXd Next(const Eigen::VectorXd& distances) const {
    Eigen::VectorXd next = Eigen::VectorXd::Zero(distances.size() + 2);
    next.head(distances.size()) = distances.cwiseMax(nu_).cwiseInverse();
    return next / next.sum();
  }

  static bool Settled(const Eigen::VectorXd& before,
                      const Eigen::VectorXd& after) {
    return ((after - before).array().abs() <= kSettled * after.array().abs())
        .all();
  }

  double nu_;
  int iterations_;
  bool from_zero_;
};

}  // namespace

StageInfo GeometricMedianStage() {
  return {.name = "geometric_median",
          .kind = StageKind::kDistance,
          .formula =
              "smoothed Weiszfeld: z = sum w_i x_i / sum w_i, w_i = 1 / "
              "max(nu, ||z - x_i||)",
          .limits = "n > 2f",
          .cost = "n^2 d + iterations n^2",
          .paper =
              "Pillutla, Kakade, Harchaoui, Robust aggregation for federated "
              "learning, IEEE TSP 70, 2022",
          .options = {{.name = "nu", .above = 0, .fallback = "1e-6"},
                      {.name = "iterations",
                       .kind = OptionSpec::Kind::kInteger,
                       .least = 1,
                       .fallback = "100"},
                      {.name = "start",
                       .words = {"mean", "zero"},
                       .numeric = false,
                       .fallback = "mean"}},
          .make = [](const Options& options) {
            return std::make_unique<GeometricMedian>(
                options.Number("nu"), options.Integer("iterations"),
                options.Word("start", "mean") == "zero");
          }};
}

}  // namespace parapet::rules
