#include "tools/load_lent.h"

#include <cstring>
#include <functional>
#include <utility>

namespace parapet {

void LoadLent::Add(absl::Span<const std::byte> table,
                   net::Transport* transport) {
  std::shared_ptr<std::byte> copy = transport->Allocate(table.size());
  if (copy == nullptr) return;
  std::memcpy(copy.get(), table.data(), table.size());
  tables_.push_back({table, std::move(copy)});
}

Payload LoadLent::Lend(Payload payload) const {
  for (const Table& table : tables_) {
    const std::byte* const begin = table.original.data();
    if (std::less<>()(payload.data(), begin) ||
        !std::less<>()(payload.data(), begin + table.original.size()))
      continue;
    return Payload(table.copy, table.copy.get() + (payload.data() - begin),
                   payload.size());
  }
  return payload;
}

}  // namespace parapet
