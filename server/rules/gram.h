#ifndef PARAPET_SERVER_RULES_GRAM_H_
#define PARAPET_SERVER_RULES_GRAM_H_

#include <Eigen/Core>

#include "absl/types/span.h"
#include "server/rules/distances.h"

namespace parapet::rules {

// Squared distances among the given rows.
Eigen::MatrixXd SubMatrix(const Distances& distances,
                          absl::Span<const int> rows);

// Inner products about the mean weighted by p (which sums to 1):
// -1/2 (D - D p 1' - 1 (D p)' + p' D p), the classical scaling of W. Torgerson,
// Psychometrika 17, 1952.
Eigen::MatrixXd CentredGram(const Eigen::MatrixXd& squared,
                            const Eigen::VectorXd& p);

struct Eigenpair {
  double value = 0;
  Eigen::VectorXd vector;
};

// The largest eigenvalue of a symmetric matrix of at least one row, with its
// unit vector.
Eigenpair TopEigenpair(const Eigen::MatrixXd& symmetric);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_GRAM_H_
