#ifndef PARAPET_TESTS_CUDA_HOST_RUN_H_
#define PARAPET_TESTS_CUDA_HOST_RUN_H_

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce_coordinate.h"
#include "kernels/cuda/reduce_plan.h"
#include "kernels/cuda/sort_tile.h"

// The GPU's kernels, run by the CPU thread by thread: the same functions in the
// same order, with the same shapes. Memory of a block is allocated anew for
// each block, to the byte, so that the address sanitizer sees what is out of
// it.
namespace parapet::cuda::host {

// The order in which the threads of a block do a phase: results must not depend
// on it.
inline bool backwards = false;

// Calls phase(thread) for all threads of a block.
template <class Phase>
void RunPhase(int threads, const Phase& phase) {
  for (int i = 0; i < threads; ++i) phase(backwards ? threads - 1 - i : i);
}

template <int N>
void RunInRegisters(const ReduceTask& task, const InlineRows* rows) {
  const bool median = task.op == Operation::kMedian;
  for (int64_t j = 0; j < task.elements; ++j) {
    std::vector<float> column(N);
    const Column at = {column.data(), 1};
    if (rows == nullptr) {
      median ? MixedAt<N, true>(task, j, at) : MixedAt<N, false>(task, j, at);
    } else if (median) {
      OrderedAt<N, true>(task, *rows, j, Column());
    } else {
      OrderedAt<N, false>(task, *rows, j, at);
    }
  }
}

inline void RunInRegisters(const ReduceTask& task, const InlineRows* rows) {
  switch (PlacesFor(task.values)) {
    case 8:
      return RunInRegisters<8>(task, rows);
    case 16:
      return RunInRegisters<16>(task, rows);
    case 32:
      return RunInRegisters<32>(task, rows);
    default:
      return RunInRegisters<64>(task, rows);
  }
}

inline void RunTile(const ReduceTask& task, int lanes, int threads,
                    int64_t begin) {
  const auto size = static_cast<size_t>(task.values) * lanes;
  std::vector<float> sorted(size), unsorted(size);
  std::vector<int> kept(lanes);
  const bool both = SumsInRowOrder(task.op, task.values);
  const SortTile tile = {sorted.data(), both ? unsorted.data() : nullptr,
                         kept.data(), lanes, begin};
  RunPhase(threads, [&](int t) { ClearPhase(task, tile, t, threads); });
  RunPhase(threads, [&](int t) { LoadPhase(task, tile, t, threads); });
  RunPhase(threads, [&](int t) {
    if (task.mixing.combinations > 0) MixAgainPhase(task, tile, t, threads);
  });
  for (int p = 1; p < task.values; p *= 2) {
    for (int k = p; k >= 1; k /= 2)
      RunPhase(threads,
               [&](int t) { SortPhase(task, tile, p, k, t, threads); });
  }
  RunPhase(threads, [&](int t) { FinishPhase(task, tile, t, threads); });
}

// False: more values than can be sorted.
inline bool RunSorted(const ReduceTask& task, const Limits& limits) {
  const int copies = SumsInRowOrder(task.op, task.values) ? 2 : 1;
  const SortShape made =
      ShapeOfSort(task.elements, task.values, copies, limits);
  if (made.lanes == 0) return false;
  for (int64_t begin = 0; begin < task.elements; begin += made.lanes)
    RunTile(task, made.lanes, made.shape.threads, begin);
  return true;
}

// As Reduce in operations.h chooses.
inline bool Reduce(const ReduceTask& task, const RowEntry* entries,
                   const Limits& limits) {
  const bool mixed = task.mixing.combinations > 0;
  if (!mixed && !NeedsOrder(task.op)) {
    const bool vote = task.op == Operation::kSignVote;
    for (int64_t j = 0; j < task.elements; ++j)
      vote ? VoteAt(task, j) : MeanAt(task, j);
    return true;
  }
  if (task.values > kMostInRegisters) return RunSorted(task, limits);
  if (mixed) {
    RunInRegisters(task, nullptr);
  } else {
    const InlineRows rows = MakeInlineRows(task, entries);
    RunInRegisters(task, &rows);
  }
  return true;
}

// A warp's two tiles of one pair of blocks: its 32 threads in step.
inline void MeasureBlocks(const DistanceTask& task, const GroupPair& groups,
                          const float* shared, int64_t first, int warp) {
  const BlockPlaces places = PlacesOf(groups, warp);
  float sums[kTilesAtOnce * kTileLanes][kBlockPairs];
  for (int t = 0; t < 32; ++t)
    SumLane(shared, places, t / kTileLanes, t % kTileLanes, sums[t]);
  const auto exchange = [&](auto width) {
    constexpr int kWidth = decltype(width)();
    for (int i = 0; i < kWidth; ++i) {
      float sent[32];
      for (int t = 0; t < 32; ++t)
        sent[t] = Outgoing<kWidth>(sums[t], t % kTileLanes, i);
      for (int t = 0; t < 32; ++t)
        Incoming<kWidth>(sums[t], t % kTileLanes, i, sent[t ^ kWidth]);
    }
  };
  exchange(std::integral_constant<int, 8>());
  exchange(std::integral_constant<int, 4>());
  exchange(std::integral_constant<int, 2>());
  exchange(std::integral_constant<int, 1>());
  for (int t = 0; t < 32; ++t) {
    StoreTileSum(task, groups, shared, places, first, t / kTileLanes,
                 t % kTileLanes, sums[t][0]);
  }
}

inline void Distances(const DistanceTask& task, const Limits& limits) {
  std::memset(task.finite, 1,
              static_cast<size_t>(task.leaves() * task.rows.count));
  const DistanceShape made =
      ShapeOfDistances(task.vectors(), task.tiles(), limits);
  const auto floats =
      static_cast<size_t>(made.shape.shared_bytes) / sizeof(Four);
  for (int64_t y = 0; y < made.group_pairs(); ++y) {
    const GroupPair groups = GroupsOf(made.group, made.groups, y);
    for (int64_t first = 0; first < task.tiles(); first += kTilesAtOnce) {
      std::vector<Four> memory(floats);
      auto* shared = reinterpret_cast<float*>(memory.data());
      RunPhase(made.shape.threads, [&](int t) {
        LoadTilesPhase(task, groups, first, shared, t, made.shape.threads);
      });
      for (int warp = 0; warp < groups.blocks(); ++warp)
        MeasureBlocks(task, groups, shared, first, warp);
    }
  }
  for (int64_t i = 0; i < task.leaves() * task.pairs(); ++i) SumLeaf(task, i);
}

inline void LeafSquares(const SquaresTask& task) {
  for (int64_t leaf = 0; leaf < task.leaves(); ++leaf) {
    double lanes[kSquareLanes];
    for (int l = 0; l < kSquareLanes; ++l)
      lanes[l] = LaneOfSquares(task, leaf, l);
    for (int half = kSquareLanes / 2; half > 0; half /= 2)
      RunPhase(kSquareLanes, [&](int l) { AddLanes(lanes, l, half); });
    task.sums[leaf] = lanes[0];
  }
}

}  // namespace parapet::cuda::host

#endif  // PARAPET_TESTS_CUDA_HOST_RUN_H_
