#include "common/trace.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace parapet {

Trace::Trace(std::string process, int pid, size_t max_events)
    : process_(std::move(process)), pid_(pid), max_events_(max_events) {}

void Trace::Span(const char* name, int64_t number, int thread, absl::Time begin,
                 absl::Time end) {
  MutexLock lock(&mutex_);
  if (items_.size() < max_events_)
    items_.push_back({name, number, thread, begin, end});
}

absl::Status Trace::Write(Disk& disk, const std::string& path) const {
  std::string text = absl::StrFormat(
      "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":"
      "\"%s\"}}",
      pid_, process_);
  MutexLock lock(&mutex_);
  for (const Item& item : items_) {
    absl::StrAppendFormat(
        &text,
        ",\n{\"name\":\"%s "
        "%d\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}",
        item.name, item.number, pid_, item.thread,
        absl::ToDoubleMicroseconds(item.begin - absl::UnixEpoch()),
        absl::ToDoubleMicroseconds(item.end - item.begin));
  }
  absl::StrAppend(&text, "]\n");
  return WriteWholeFile(disk, path, text);
}

}  // namespace parapet
