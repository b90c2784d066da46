#include "server/rules/gram.h"

#include <Eigen/Eigenvalues>

namespace parapet::rules {

Eigen::MatrixXd SubMatrix(const Distances& distances,
                          absl::Span<const int> rows) {
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd squared(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j)
      squared(i, j) = distances(rows[i], rows[j]);
  }
  return squared;
}

Eigen::MatrixXd CentredGram(const Eigen::MatrixXd& squared,
                            const Eigen::VectorXd& p) {
  const Eigen::VectorXd to_mean = squared * p;
  const double spread = p.dot(to_mean);
  Eigen::MatrixXd gram = squared;
  gram.colwise() -= to_mean;
  gram.rowwise() -= to_mean.transpose();
  return -0.5 * (gram.array() + spread).matrix();
}

Eigenpair TopEigenpair(const Eigen::MatrixXd& symmetric) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(symmetric);
  const Eigen::Index last = symmetric.rows() - 1;  // eigenvalues ascend
  return {solver.eigenvalues()[last], solver.eigenvectors().col(last)};
}

}  // namespace parapet::rules
