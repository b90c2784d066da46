#ifndef PARAPET_COMMON_NET_SHM_LISTENER_H_
#define PARAPET_COMMON_NET_SHM_LISTENER_H_

#include <sys/stat.h>
#include <sys/un.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/unique_fd.h"

namespace parapet::net {

// The Unix sockets by which processes meet that share memory.

// Of "shm:///path". InvalidArgument: it is none.
absl::StatusOr<sockaddr_un> ParseShmAddress(absl::string_view address);

// A socket that does not block; not valid: no descriptor is left.
UniqueFd OpenShmSocket();

// As connect.
int ConnectShmSocket(int socket, const sockaddr_un& to);

// A socket at a path, which is for this user alone. Both are gone with it.
class ShmListener {
 public:
  // AlreadyExists: there is something at the path already. A socket that
  // nobody listens at any more, of a process that was killed, does not count.
  static absl::StatusOr<std::unique_ptr<ShmListener>> Open(
      const std::string& address);
  ~ShmListener();

  // Readable when somebody has come.
  int fd() const { return socket_.get(); }
  // Somebody of this user; others are hung up on. Not valid: nobody is there.
  // When no descriptor is left for him, he is hung up on as well: otherwise he
  // would be there for ever.
  UniqueFd Accept();

 private:
  ShmListener() = default;

  sockaddr_un at_{};
  struct stat file_ {};  // at the path, when it was made
  UniqueFd socket_;
  UniqueFd spare_;  // given up to hang up on somebody
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_LISTENER_H_
