#include "common/net/shm_listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/net/shm_file.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

constexpr int kBacklog = 512;

// Looking at a path and taking it is one step, for whoever asks for this: or
// two processes could both find it abandoned, and one would remove what the
// other has just made. Not valid: somebody else keeps the folder.
UniqueFd LockFolderOf(const sockaddr_un& at) {
  std::string folder = at.sun_path;
  folder.resize(folder.find_last_of('/') + 1);
  UniqueFd lock(open(folder.empty() ? "." : folder.c_str(),
                     O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int tries = 0; lock.valid() && tries < 100; ++tries) {
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) break;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return lock;
}

void RemoveAbandoned(const sockaddr_un& at) {
  struct stat file;
  if (lstat(at.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return;
  const UniqueFd probe = OpenShmSocket();
  if (probe.valid() && ConnectShmSocket(probe.get(), at) != 0 &&
      errno == ECONNREFUSED)
    unlink(at.sun_path);
}

absl::Status CannotListen(int error, const std::string& address) {
  if (error == EADDRINUSE)
    return absl::AlreadyExistsError(absl::StrCat(address, " is in use"));
  return absl::ErrnoToStatus(error, absl::StrCat("cannot listen at ", address));
}

// Holds a number that can be had again.
UniqueFd Spare() { return UniqueFd(open("/", O_PATH | O_CLOEXEC)); }

}  // namespace

absl::StatusOr<sockaddr_un> ParseShmAddress(absl::string_view address) {
  absl::string_view path = address;
  sockaddr_un parsed{};
  parsed.sun_family = AF_UNIX;
  if (!absl::ConsumePrefix(&path, "shm://") || path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address; write shm:///path"));
  }
  if (path.size() >= sizeof(parsed.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "': a path may have ",
                     sizeof(parsed.sun_path) - 1, " characters at most"));
  }
  std::memcpy(parsed.sun_path, path.data(), path.size());
  return parsed;
}

UniqueFd OpenShmSocket() {
  return UniqueFd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int ConnectShmSocket(int socket, const sockaddr_un& to) {
  return connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
}

absl::StatusOr<std::unique_ptr<ShmListener>> ShmListener::Open(
    const std::string& address) {
  std::unique_ptr<ShmListener> opened(new ShmListener);
  PARAPET_ASSIGN_OR_RETURN(const sockaddr_un at, ParseShmAddress(address));
  opened->spare_ = Spare();
  UniqueFd socket = OpenShmSocket();
  if (!socket.valid())
    return absl::ErrnoToStatus(errno, "cannot open a socket");
  const UniqueFd lock = LockFolderOf(at);
  RemoveAbandoned(at);
  // What the path gets: nobody else may even connect.
  fchmod(socket.get(), S_IRUSR | S_IWUSR);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) !=
      0)
    return CannotListen(errno, address);
  opened->at_ = at;  // from now on to be removed
  lstat(at.sun_path, &opened->file_);
  if (listen(socket.get(), kBacklog) != 0) return CannotListen(errno, address);
  opened->socket_ = std::move(socket);
  return opened;
}

ShmListener::~ShmListener() {
  struct stat now;
  // It may be another's by now, if somebody removed ours.
  if (at_.sun_path[0] != '\0' && lstat(at_.sun_path, &now) == 0 &&
      now.st_dev == file_.st_dev && now.st_ino == file_.st_ino)
    unlink(at_.sun_path);
}

UniqueFd ShmListener::Accept() {
  while (true) {
    const auto accept = [this] {
      return UniqueFd(accept4(socket_.get(), nullptr, nullptr,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    };
    UniqueFd socket = accept();
    if (socket.valid()) {
      if (CheckSameUser(socket.get()).ok()) return socket;
      continue;
    }
    if ((errno != EMFILE && errno != ENFILE) || !spare_.valid()) return {};
    spare_ = UniqueFd();
    const bool came = accept().valid();  // and hangs up
    spare_ = Spare();
    if (!came) return {};
  }
}

}  // namespace parapet::net
