#ifndef PARAPET_SERVER_RULES_MDA_H_
#define PARAPET_SERVER_RULES_MDA_H_

#include <cstdint>
#include <vector>

#include "server/rules/distances.h"

namespace parapet::rules {

// The lexicographically first n-f vectors of least diameter, ascending, and how
// many steps of the search for vertex covers it took to find them.
struct MdaSearch {
  std::vector<int> selected;
  int64_t steps = 0;
};

// n > 2f.
MdaSearch FindLeastDiameter(const Distances& distances, int f);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_MDA_H_
