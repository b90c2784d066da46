#include "kernels/cuda/memory_plan.h"

#include <algorithm>
#include <cstdio>

#include "kernels/cuda/distance_tile.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce_coordinate.h"

namespace parapet::cuda {
namespace {

// What a driver and its fragmentation take of what it calls free.
constexpr int64_t kReserve = 256 << 20;

int64_t Floats(int64_t elements) { return elements * 4; }

int64_t TilesOf(int64_t elements, int64_t leaf) {
  DistanceTask task;
  task.elements = elements;
  task.leaf = leaf;
  return task.tiles();
}

int64_t PairsOf(int64_t rows) { return (rows + 2) * (rows + 1) / 2; }

// The numbers of a call: a mixing of as many combinations as there are rows, in
// both precisions, and what each row means.
int64_t NumbersOf(int64_t rows) {
  const int64_t stride = PlacesFor(static_cast<int>(rows) + 1);
  return (rows + 1) * stride * (4 + 8) + rows * 64 +
         Report::BytesFor(static_cast<int>(rows)) + 256;
}

}  // namespace

// As if rows were float32: those of an odd scale are staged as that.
int64_t PieceElements(const MemoryNeeds& needs) {
  const int64_t row = needs.rows * int64_t{4};
  const int64_t each = needs.piece_bytes / std::max<int64_t>(1, row);
  // A multiple of what fills a cache line.
  const int64_t piece = std::max<int64_t>(64, each / 64 * 64);
  return std::min(piece, std::max<int64_t>(1, needs.chunk_elements));
}

int64_t PieceOfLeaves(const MemoryNeeds& needs) {
  const int64_t leaves = PieceElements(needs) / needs.leaf_elements;
  return std::max<int64_t>(1, leaves) * needs.leaf_elements;
}

CallBytes PlanCall(const MemoryNeeds& needs) {
  const int64_t rows = std::max(needs.rows, 1);
  const int64_t chunk = needs.chunk_elements;
  int64_t piece = PieceElements(needs);
  CallBytes call;
  call.publish = Floats(chunk);
  call.sums = CeilDiv(chunk, needs.leaf_elements) * 8;
  call.numbers = NumbersOf(rows);
  if (needs.distances) {
    const int64_t leaves = PieceOfLeaves(needs);
    call.tile_sums = TilesOf(leaves, needs.leaf_elements) * PairsOf(rows) * 8;
    call.sums =
        CeilDiv(chunk, needs.leaf_elements) * (PairsOf(rows) * 8 + rows + 8);
    piece = std::max(piece, leaves);
  }
  // Each row begins at a multiple of 16 bytes.
  call.staging = rows * (Floats(piece) + 16);
  return call;
}

MemoryPlan PlanMemory(const MemoryNeeds& needs) {
  MemoryPlan plan;
  const int64_t shard = Floats(needs.shard_elements);
  plan.weights = shard;
  plan.moments = needs.moments * shard;
  plan.previous = needs.previous ? shard : 0;
  plan.aggregates = needs.aggregates ? shard : 0;
  plan.calls = needs.calls * PlanCall(needs).total();
  if (needs.distances) {
    const int64_t chunks = CeilDiv(needs.shard_elements,
                                   std::max<int64_t>(1, needs.chunk_elements));
    const int64_t waiting = needs.credit_chunks > 0
                                ? std::min(chunks, needs.credit_chunks)
                                : chunks;
    plan.kept_wanted = waiting * needs.chunk_elements * needs.rows * 4;
  }
  return plan;
}

int64_t BudgetForKept(const MemoryPlan& plan, int64_t free) {
  const int64_t left = free - kReserve - plan.needed();
  if (left < 0) return -1;
  return std::min(left, plan.kept_wanted);
}

std::string DescribeBytes(int64_t bytes) {
  char words[32];
  const auto mebibytes = static_cast<double>(bytes) / (1 << 20);
  if (mebibytes < 1024) {
    std::snprintf(words, sizeof(words), "%.1f MiB", mebibytes);
  } else {
    std::snprintf(words, sizeof(words), "%.1f GiB", mebibytes / 1024);
  }
  return words;
}

std::string Describe(const MemoryPlan& plan) {
  std::string words;
  const auto add = [&words](const char* what, int64_t bytes) {
    if (bytes == 0) return;
    if (!words.empty()) words += ", ";
    words += std::string(what) + " " + DescribeBytes(bytes);
  };
  add("weights", plan.weights);
  add("moments", plan.moments);
  add("the previous aggregate", plan.previous);
  add("aggregates", plan.aggregates);
  add("reductions under way", plan.calls);
  return words;
}

}  // namespace parapet::cuda
