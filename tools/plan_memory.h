#ifndef PARAPET_TOOLS_PLAN_MEMORY_H_
#define PARAPET_TOOLS_PLAN_MEMORY_H_

#include <string>
#include <vector>

#include "tools/plan_model.h"

namespace parapet {

// The memory of a job's processes, item by item, as docs/plan.md has it. Pure
// functions; sizes in bytes.

// A part of a process's memory. Usual: all workers in step and no snapshot
// being written. Most: what the protocol lets it hold.
struct MemoryItem {
  std::string name;
  double usual = 0, most = 0;
};

// Of the fullest server, in its host's memory; on a GPU, of what is there.
// Empty if the servers have none.
std::vector<MemoryItem> ServerMemory(const PlanJob& job,
                                     const PlanShape& shape);
std::vector<MemoryItem> GpuMemory(const PlanJob& job, const PlanShape& shape);
// Without activations, data and the libraries' own.
std::vector<MemoryItem> WorkerMemory(const PlanJob& job,
                                     const PlanShape& shape);

// What a process maps over shared memory and another made: it counts in the
// resident size of both and takes memory once. Empty otherwise.
std::vector<MemoryItem> MappedByServer(const PlanJob& job,
                                       const PlanShape& shape);
std::vector<MemoryItem> MappedByWorker(const PlanJob& job,
                                       const PlanShape& shape);

MemoryItem Total(const std::vector<MemoryItem>& items);

}  // namespace parapet

#endif  // PARAPET_TOOLS_PLAN_MEMORY_H_
