#ifndef PARAPET_TOOLS_LOAD_LENT_H_
#define PARAPET_TOOLS_LOAD_LENT_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/net/transport.h"
#include "common/payload.h"

namespace parapet {

// Tables that payloads are cut from, once more in memory that a transport can
// lend to its peers: what all players push is sent from there without a copy,
// and one table serves them all. Not thread-safe.
class LoadLent {
 public:
  // Copies `table`, which must outlive this, into memory of the transport if it
  // has any to give.
  void Add(absl::Span<const std::byte> table, net::Transport* transport);
  // The same bytes from the transport's memory, if they lie in a table.
  Payload Lend(Payload payload) const;

 private:
  struct Table {
    absl::Span<const std::byte> original;
    std::shared_ptr<const std::byte> copy;
  };
  std::vector<Table> tables_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_LENT_H_
