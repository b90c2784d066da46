#ifndef PARAPET_SERVER_RULES_MEDOID_FRAME_H_
#define PARAPET_SERVER_RULES_MEDOID_FRAME_H_

#include <Eigen/Core>

#include "server/rules/distances.h"

namespace parapet::rules {

// Distances from any affine combination of rows to the rows, by inner products
// about the medoid r (the row with the least sum of its n-f-1 smallest
// distances): B_ij = 1/2 (D_ir + D_jr - D_ij). An honest origin near the honest
// rows keeps their digits beside a far outlier.
class MedoidFrame {
 public:
  MedoidFrame(const Distances& distances, int f);

  // Distance (not squared) from sum_k weights_k row_k to each of the n rows.
  // `weights` sums to 1 over the n rows, prev and zero.
  Eigen::VectorXd DistancesTo(const Eigen::VectorXd& weights) const;

 private:
  int n_;
  Eigen::MatrixXd inner_;
};

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_MEDOID_FRAME_H_
