#ifndef PARAPET_COMMON_TRACE_H_
#define PARAPET_COMMON_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/disk.h"
#include "common/mutex.h"

namespace parapet {

// A timeline of what a process did, in Chrome's trace format (Perfetto opens
// it). Times are the machine's steady clock, so files of processes on one
// machine can be laid side by side. Holds a bounded number of events: the first
// ones. Thread-safe.
class Trace {
 public:
  // `process` names the row, e.g. "worker 3"; `pid` orders the rows.
  Trace(std::string process, int pid, size_t max_events);

  // Something that took from `begin` to `end`; `thread` is 0 for the loop, 1
  // and up for others.
  void Span(const char* name, int64_t number, int thread, absl::Time begin,
            absl::Time end);
  // Writes everything so far as one JSON array.
  absl::Status Write(Disk& disk, const std::string& path) const;

 private:
  struct Item {
    const char* name;
    int64_t number;
    int thread;
    absl::Time begin, end;
  };

  const std::string process_;
  const int pid_;
  const size_t max_events_;
  mutable Mutex mutex_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace parapet

#endif  // PARAPET_COMMON_TRACE_H_
