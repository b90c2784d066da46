#ifndef PARAPET_KERNELS_CPU_NETWORK_H_
#define PARAPET_KERNELS_CPU_NETWORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace parapet {

// Puts the smaller of two values first. low < high.
struct Comparator {
  uint16_t low = 0, high = 0;
};

// Calls visit(low, high) for the comparators that in turn sort `rows` values:
// K. Batcher, "Sorting networks and their applications", AFIPS 1968. The same
// for every target.
template <class Visit>
constexpr void ForComparators(int rows, Visit&& visit) {
  for (int p = 1; p < rows; p *= 2) {
    for (int k = p; k >= 1; k /= 2) {
      for (int j = k % p; j + k < rows; j += 2 * k) {
        for (int i = 0; i < k && i + j + k < rows; ++i) {
          // Within one block of 2p only; those past the end would meet
          // infinities.
          if ((i + j) / (p * 2) == (i + j + k) / (p * 2))
            visit(i + j, i + j + k);
        }
      }
    }
  }
}

// The comparators that decide what is at places first .. last once `rows`
// values are sorted, 0 <= first <= last < rows: the others are left out.
std::vector<Comparator> SelectionNetwork(int rows, int first, int last);

// The same for a number of rows that is known when this is compiled.
template <int kRows, int kFirst, int kLast>
class FixedNetwork {
  static constexpr size_t kAll = [] {
    size_t count = 0;
    ForComparators(kRows, [&](int, int) { ++count; });
    return count;
  }();
  // All comparators, and behind them how many are needed; the needed ones come
  // first.
  static constexpr std::pair<std::array<Comparator, kAll>, size_t> kPruned =
      [] {
        std::array<Comparator, kAll> all{};
        size_t count = 0;
        ForComparators(kRows, [&](int low, int high) {
          all[count++] = {static_cast<uint16_t>(low),
                          static_cast<uint16_t>(high)};
        });
        std::array<bool, kRows> wanted{};
        for (int row = kFirst; row <= kLast; ++row) wanted[row] = true;
        std::array<bool, kAll> needed{};
        for (size_t c = kAll; c-- > 0;) {
          needed[c] = wanted[all[c].low] || wanted[all[c].high];
          if (needed[c]) wanted[all[c].low] = wanted[all[c].high] = true;
        }
        std::array<Comparator, kAll> pruned{};
        count = 0;
        for (size_t c = 0; c < kAll; ++c) {
          if (needed[c]) pruned[count++] = all[c];
        }
        return std::pair(pruned, count);
      }();

 public:
  static constexpr size_t size() { return kPruned.second; }
  static constexpr Comparator at(size_t c) { return kPruned.first[c]; }
};

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_NETWORK_H_
