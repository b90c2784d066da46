#ifndef PARAPET_SERVER_RULES_KRUM_SCORES_H_
#define PARAPET_SERVER_RULES_KRUM_SCORES_H_

#include <vector>

#include "server/rules/selection.h"

namespace parapet::rules {

// Each row's sum of its n-f-2 smallest squared distances to others.
inline std::vector<double> KrumScores(const Distances& distances, int f) {
  const std::vector<int> everyone = Everyone(distances.n());
  std::vector<double> scores;
  for (int i : everyone) {
    scores.push_back(
        NeighbourSum(distances, i, everyone, distances.n() - f - 2));
  }
  return scores;
}

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_KRUM_SCORES_H_
