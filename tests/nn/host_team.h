#ifndef PARAPET_TESTS_NN_HOST_TEAM_H_
#define PARAPET_TESTS_NN_HOST_TEAM_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "common/rng.h"

namespace parapet::cuda {

// A block's threads, one after the other in each phase: ascending, descending,
// or shuffled anew for every phase. Where a phase lacks a barrier that it
// needs, the orders differ.
class HostTeam {
 public:
  enum class Order : uint8_t { kAscending, kDescending, kShuffled };

  HostTeam(int threads, Order order) : order_(order), threads_(threads) {
    std::iota(threads_.begin(), threads_.end(), 0);
    if (order == Order::kDescending)
      std::reverse(threads_.begin(), threads_.end());
  }

  int threads() const { return static_cast<int>(threads_.size()); }

  template <typename Phase>
  void Each(const Phase& phase) const {
    if (order_ == Order::kShuffled) Shuffle();
    for (const int thread : threads_) phase(thread);
  }

 private:
  void Shuffle() const {
    for (size_t i = threads_.size(); i-- > 1;)
      std::swap(threads_[i], threads_[random_.Below(i + 1)]);
  }

  const Order order_;
  mutable std::vector<int> threads_;
  mutable Random random_{5};
};

// Runs a cooperative kernel as a grid of one block would. Scratch lies on the
// heap, where a sanitizer sees its bounds, and begins as garbage.
template <typename Scratch, typename Kernel>
void RunTeams(const Kernel& kernel, int threads,
              HostTeam::Order order = HostTeam::Order::kAscending) {
  const HostTeam team(threads, order);
  const auto scratch = std::make_unique<Scratch>();
  std::fill_n(reinterpret_cast<unsigned char*>(scratch.get()), sizeof(Scratch),
              0xff);
  for (int64_t item = 0; item < kernel.items(); ++item)
    kernel(team, item, scratch.get());
}

template <typename Functor>
void RunElements(const Functor& functor, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) functor(i);
}

}  // namespace parapet::cuda

#endif  // PARAPET_TESTS_NN_HOST_TEAM_H_
