#ifndef PARAPET_SERVER_RULES_CLIPPING_H_
#define PARAPET_SERVER_RULES_CLIPPING_H_

#include "server/rules/distances.h"

namespace parapet::rules {

// Rows scaled to norm at most `bound`: what a row is scaled by goes to zero.
inline Mixing Clipped(const Distances& distances, double bound) {
  Mixing clipped = Mixing::Identity(distances.n());
  for (int i = 0; i < distances.n(); ++i) {
    const double norm = distances.Norm(i);
    if (norm <= bound) continue;
    clipped.at(i, i) = bound / norm;
    clipped.at(i, distances.zero()) = 1 - bound / norm;
  }
  return clipped;
}

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_CLIPPING_H_
