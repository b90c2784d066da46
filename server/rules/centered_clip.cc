#include "server/rules/medoid_frame.h"
#include "server/rules/registry.h"

namespace parapet::rules {
namespace {

class CenteredClip : public Stage {
 public:
  CenteredClip(double tau, int iterations)
      : tau_(tau), iterations_(iterations) {}

  bool needs_previous() const override { return true; }
  absl::StatusOr<Decision> Decide(const View& view) const override {
    const int n = view.n();
    const MedoidFrame frame(view.distances, view.f);
    Eigen::VectorXd v = Eigen::VectorXd::Unit(n + 2, view.distances.prev());
    for (int iteration = 0; iteration < iterations_; ++iteration) {
      const Eigen::ArrayXd distances = frame.DistancesTo(v).array();
      // tau / max(tau, distance) is min(1, tau / distance) without a division
      // by 0.
      const Eigen::VectorXd pull = (tau_ / distances.max(tau_) / n).matrix();
      v *= 1 - pull.sum();
      v.head(n) += pull;
    }
    Decision decision;
    decision.mixing = Mixing(1, n + 2);
    decision.mixing.weights.assign(v.begin(), v.end());
    decision.trust.assign(v.begin(), v.begin() + n);
    return decision;
  }

 private:
  double tau_;
  int iterations_;
};

}  // namespace

StageInfo CenteredClipStage() {
  return {.name = "centered_clip",
          .kind = StageKind::kDistance,
          .formula =
              "v from prev: v += (1/n) sum (x_i - v) min(1, tau / ||x_i - "
              "v||), a few times",
          .limits = "n > 2f, tau > 0",
          .cost = "n^2 d + iterations n^2",
          .paper =
              "Karimireddy, He, Jaggi, Learning from history for Byzantine "
              "robust optimization, ICML 2021",
          .options = {{.name = "tau", .above = 0, .fallback = "1"},
                      {.name = "iterations",
                       .kind = OptionSpec::Kind::kInteger,
                       .least = 1,
                       .fallback = "3"}},
          .make = [](const Options& options) {
            return std::make_unique<CenteredClip>(
                options.Number("tau"), options.Integer("iterations"));
          }};
}

}  // namespace parapet::rules
