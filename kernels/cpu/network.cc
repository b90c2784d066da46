#include "kernels/cpu/network.h"

namespace parapet {

std::vector<Comparator> SelectionNetwork(int rows, int first, int last) {
  std::vector<Comparator> all;
  ForComparators(rows, [&](int low, int high) {
    all.push_back({static_cast<uint16_t>(low), static_cast<uint16_t>(high)});
  });
  // From the end: a comparator matters if one of its two places does.
  std::vector<bool> wanted(rows);
  for (int row = first; row <= last; ++row) wanted[row] = true;
  std::vector<Comparator> needed;
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    if (!wanted[c->low] && !wanted[c->high]) continue;
    wanted[c->low] = wanted[c->high] = true;
    needed.push_back(*c);
  }
  return {needed.rbegin(), needed.rend()};
}

}  // namespace parapet
