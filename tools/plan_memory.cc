#include "tools/plan_memory.h"

#include <algorithm>

#include "common/layout.h"
#include "kernels/cuda/memory_plan.h"

namespace parapet {
namespace {

constexpr double kFloat = 4;
// common/net/shm_ring.h: of each direction of a connection.
constexpr double kRing = 128 << 10, kBlocks = 8, kLargestBlock = 1 << 20;

// What all items are made of, in bytes.
struct Sizes {
  double full = 0;       // the shard as float32
  double sent = 0;       // on the wire
  double chunk = 0;      // one, on the wire
  double gradients = 0;  // a shard of each worker's, on the wire
  double links = 0;      // connections that carry data
};

Sizes SizesOf(const PlanJob& job, const PlanShape& shape) {
  const auto wire = static_cast<double>(SizeOf(job.wire));
  const auto shard = static_cast<double>(shape.shard);
  Sizes sizes;
  sizes.full = shard * kFloat;
  sizes.sent = shard * wire;
  sizes.chunk = wire * static_cast<double>(std::min(shape.chunk, shape.shard));
  sizes.gradients = job.workers * sizes.sent;
  sizes.links = static_cast<double>(job.workers) * job.connections;
  return sizes;
}

// What stays beside the weights, wherever the shard is.
void AddShard(const PlanJob& job, double full, std::vector<MemoryItem>* items) {
  items->push_back({"moments", full * job.moments, full * job.moments});
  if (job.previous) items->push_back({"previous aggregate", full, full});
  if (job.clip_norm) items->push_back({"aggregates", full, full});
}

// Over shared memory they are the workers', but what is measured and reduced
// later is copied first: it must not change in between.
void AddGradients(const PlanJob& job, const Sizes& sizes,
                  std::vector<MemoryItem>* items) {
  if (job.distances) {
    items->push_back(
        {"gradients held for the rule", sizes.gradients, sizes.gradients});
    return;
  }
  if (job.shared_memory) return;
  const double two = 2 * job.workers * sizes.chunk;
  items->push_back({"gradients within the credit",
                    std::min(sizes.gradients, two), sizes.gradients});
}

// A frame on its way in on each connection; or rings, and blocks for what is
// copied because it cannot be lent.
MemoryItem Queues(const PlanJob& job, const Sizes& sizes) {
  if (!job.shared_memory)
    return {"transport queues", sizes.links * sizes.chunk,
            sizes.links * sizes.chunk};
  const double rings = 2 * kRing * (sizes.links + job.workers);
  const double block = std::min(sizes.chunk, kLargestBlock);
  return {"transport rings", rings, rings + 2 * kBlocks * block * sizes.links};
}

cuda::MemoryNeeds NeedsOf(const PlanJob& job, const PlanShape& shape) {
  cuda::MemoryNeeds needs;
  needs.shard_elements = shape.shard;
  needs.chunk_elements = std::min(shape.chunk, shape.shard);
  needs.leaf_elements = kLeafElements;
  needs.rows = job.workers;
  needs.moments = job.moments;
  needs.previous = job.previous;
  needs.aggregates = job.clip_norm;
  needs.distances = job.distances;
  needs.calls = job.reducing_threads;
  return needs;
}

}  // namespace

std::vector<MemoryItem> ServerMemory(const PlanJob& job,
                                     const PlanShape& shape) {
  const Sizes sizes = SizesOf(job, shape);
  std::vector<MemoryItem> items;
  if (!job.gpu) items.push_back({"weights", sizes.full, sizes.full});
  // On a float32 wire the newest version is the weights themselves, if these
  // are the host's.
  const int own = job.wire == DType::kFloat32 && !job.gpu ? 1 : 0;
  // Over shared memory workers read one where it is while the next two are
  // made.
  const int usual = job.shared_memory ? 3 : 2;
  items.push_back(
      {"versions kept", (usual - own) * sizes.sent, (4 - own) * sizes.sent});
  if (!job.gpu) AddShard(job, sizes.full, &items);
  AddGradients(job, sizes, &items);
  // The weights are shared with the snapshot: a step meanwhile takes new ones.
  // From a GPU they are copied.
  const double kept = sizes.full * (job.moments + (job.previous ? 1 : 0));
  if (job.snapshots) items.push_back({"snapshot copies", 0, kept + sizes.full});
  if (job.gpu) {
    const auto staging =
        2.0 * job.reducing_threads *
        static_cast<double>(cuda::PlanCall(NeedsOf(job, shape)).staging);
    items.push_back({"staging for the GPU", staging, staging});
  }
  items.push_back(Queues(job, sizes));
  return items;
}

std::vector<MemoryItem> GpuMemory(const PlanJob& job, const PlanShape& shape) {
  if (!job.gpu) return {};
  const Sizes sizes = SizesOf(job, shape);
  const cuda::MemoryPlan plan = cuda::PlanMemory(NeedsOf(job, shape));
  std::vector<MemoryItem> items = {{"weights", sizes.full, sizes.full}};
  AddShard(job, sizes.full, &items);
  const auto calls = static_cast<double>(plan.calls);
  items.push_back({"reductions under way", calls, calls});
  const auto rows = static_cast<double>(plan.kept_wanted);
  if (job.distances) items.push_back({"rows kept, if there is room", 0, rows});
  return items;
}

std::vector<MemoryItem> WorkerMemory(const PlanJob& job, const PlanShape&) {
  const auto all = static_cast<double>(job.parameters);
  const double full = all * kFloat;
  const double sent = all * static_cast<double>(SizeOf(job.wire));
  std::vector<MemoryItem> items = {{"weights", full, full}};
  // Those of the round that is being worked on, and of the next; and one more
  // for whoever skips.
  if (!job.shared_memory)
    items.push_back({"weights received", 2 * sent, 3 * sent});
  // What was sent is kept until the next round's is.
  if (job.wire == DType::kFloat32) {
    items.push_back({"gradients", 2 * full, 3 * full});
  } else {
    items.push_back({"gradients", full, full});
    items.push_back({"gradients to send", sent, 3 * sent});
  }
  if (job.worker_momentum) items.push_back({"momentum", full, full});
  return items;
}

std::vector<MemoryItem> MappedByServer(const PlanJob& job,
                                       const PlanShape& shape) {
  if (!job.shared_memory) return {};
  // All buffers that a worker uses in turn.
  const double gradients = SizesOf(job, shape).gradients;
  return {{"gradients, the workers' own", 2 * gradients, 3 * gradients}};
}

std::vector<MemoryItem> MappedByWorker(const PlanJob& job, const PlanShape&) {
  if (!job.shared_memory) return {};
  const double sent = static_cast<double>(job.parameters) *
                      static_cast<double>(SizeOf(job.wire));
  return {{"versions, the servers' own", 3 * sent, 4 * sent}};
}

MemoryItem Total(const std::vector<MemoryItem>& items) {
  MemoryItem total{"total", 0, 0};
  for (const MemoryItem& item : items) {
    total.usual += item.usual;
    total.most += item.most;
  }
  return total;
}

}  // namespace parapet
