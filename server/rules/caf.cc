#include <algorithm>
#include <limits>

#include "server/rules/gram.h"
#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

// The weighted mean's spread: its covariance's top eigenvalue, and each row's
// squared projection on that eigenvector up to one factor.
struct Spread {
  double value = 0;
  Eigen::ArrayXd projections;
};

Spread SpreadOf(const Eigen::MatrixXd& squared, const Eigen::VectorXd& c) {
  const double total = c.sum();
  const Eigen::MatrixXd gram = CentredGram(squared, c / total);
  const Eigen::VectorXd root = c.cwiseSqrt();
  const Eigenpair top =
      TopEigenpair(root.asDiagonal() * gram * root.asDiagonal() / total);
  return {top.value, (gram * root.cwiseProduct(top.vector)).array().square()};
}

// Multiplies each weight by 1 - projection / largest projection. False if there
// is nothing to tell the rows apart by. The row of the largest gets exactly 0,
// so at most n calls return true.
bool LowerWeights(const Eigen::ArrayXd& projections, Eigen::VectorXd& c) {
  double most = 0;
  for (Eigen::Index i = 0; i < c.size(); ++i) {
    if (c[i] > 0) most = std::max(most, projections[i]);
  }
  if (most == 0) return false;
  c.array() *= (1 - projections / most).max(0);
  return true;
}

class Caf : public Stage {
 public:
  absl::StatusOr<Decision> Decide(const View& view) const override {
    const int n = view.n();
    const Eigen::MatrixXd squared = SubMatrix(view.distances, Everyone(n));
    Eigen::VectorXd c = Eigen::VectorXd::Ones(n), best = c;
    double least = std::numeric_limits<double>::infinity();
    for (int pass = 0; pass < n && c.sum() > n - 2 * view.f; ++pass) {
      const Spread spread = SpreadOf(squared, c);
      if (spread.value < least) {
        least = spread.value;
        best = c;
      }
      if (!LowerWeights(spread.projections, c)) break;
    }
    return WeightedMean(best);
  }

 private:
  static Decision WeightedMean(const Eigen::VectorXd& c) {
    Decision decision;
    decision.mixing = Mixing(1, static_cast<int>(c.size()) + 2);
    const double total = c.sum();
    for (int i = 0; i < c.size(); ++i) decision.mixing.at(0, i) = c[i] / total;
    decision.trust.assign(c.begin(), c.end());
    return decision;
  }
};

}  // namespace

StageInfo CafStage() {
  return {.name = "caf",
          .kind = StageKind::kDistance,
          .formula =
              "down-weight along the top eigenvector until n-2f of the weight "
              "is left; the mean of least top eigenvalue",
          .limits = "n > 2f",
          .cost = "n^2 d + n^4",
          .paper =
              "Allouah, Guerraoui, Stephan, Towards trustworthy federated "
              "learning with untrusted participants, ICML 2025",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Caf>(); }};
}

}  // namespace parapet::rules
