#include "server/rules/medoid_frame.h"

#include <vector>

#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

int Medoid(const Distances& distances, int f) {
  const std::vector<int> everyone = Everyone(distances.n());
  std::vector<double> sums;
  for (int i : everyone) {
    sums.push_back(NeighbourSum(distances, i, everyone, distances.n() - f - 1));
  }
  return Order(sums)[0];
}

}  // namespace

MedoidFrame::MedoidFrame(const Distances& distances, int f)
    : n_(distances.n()), inner_(distances.size(), distances.size()) {
  const int r = Medoid(distances, f);
  for (int i = 0; i < distances.size(); ++i) {
    for (int j = 0; j < distances.size(); ++j) {
      inner_(i, j) =
          0.5 * (distances(i, r) + distances(j, r) - distances(i, j));
    }
  }
}

Eigen::VectorXd MedoidFrame::DistancesTo(const Eigen::VectorXd& weights) const {
  const Eigen::VectorXd products = inner_ * weights;
  const double square = weights.dot(products);
  const Eigen::ArrayXd squared = square - 2 * products.head(n_).array() +
                                 inner_.diagonal().head(n_).array();
  return squared.max(0).sqrt().matrix();
}

}  // namespace parapet::rules
