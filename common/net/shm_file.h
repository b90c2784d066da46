#ifndef PARAPET_COMMON_NET_SHM_FILE_H_
#define PARAPET_COMMON_NET_SHM_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace parapet::net {

// Memory files, and their way to another process of the same user.

// A mapped file; ends with its last owner.
using Mapping = std::shared_ptr<std::byte>;

// An anonymous file of `bytes` zeros whose size nobody can change: a peer that
// truncated it would end us with a SIGBUS.
absl::StatusOr<UniqueFd> MakeSharedFile(size_t bytes);
absl::StatusOr<Mapping> MapFile(int fd, size_t bytes, bool writable);
// Nobody can map it writable any more; who has, keeps it.
absl::Status SealWriting(int fd);
// That a file of a peer has at least `bytes` and is sealed as MakeSharedFile
// seals it.
absl::Status CheckSharedFile(int fd, size_t bytes);

// One packet over a connected SOCK_SEQPACKET socket, with descriptors. Neither
// blocks: Unavailable if it would.
absl::Status SendPacket(int socket, const void* data, size_t size,
                        const std::vector<int>& fds);
struct Packet {
  size_t size = 0;   // 0: the other side is gone
  bool cut = false;  // there were more descriptors than there is room for
  std::vector<UniqueFd> fds;
};
// At most `size` bytes; what is longer is cut.
absl::StatusOr<Packet> ReceivePacket(int socket, void* data, size_t size);

// PermissionDenied: the process at the other end of a Unix socket belongs to
// another user.
absl::Status CheckSameUser(int socket);
// That process, or the one that it was, as it opened its end; 0: it lives where
// ours cannot see it.
pid_t ProcessOf(int socket);

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_FILE_H_
