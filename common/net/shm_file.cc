#include "common/net/shm_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif

namespace parapet::net {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr size_t kMostFds = 8;

absl::Status Errno(const char* what) {
  return absl::ErrnoToStatus(errno, what);
}

bool GetPeer(int socket, ucred* peer) {
  socklen_t size = sizeof(*peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0;
}

}  // namespace

absl::StatusOr<UniqueFd> MakeSharedFile(size_t bytes) {
  UniqueFd file(memfd_create("parapet", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return Errno("cannot make shared memory");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return Errno("cannot size shared memory");
  if (fcntl(file.get(), F_ADD_SEALS, kSizeSeals) != 0)
    return Errno("cannot seal shared memory");
  return file;
}

absl::StatusOr<Mapping> MapFile(int fd, size_t bytes, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const at = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return Errno("cannot map shared memory");
  return Mapping(static_cast<std::byte*>(at),
                 [bytes](std::byte* mapped) { munmap(mapped, bytes); });
}

absl::Status SealWriting(int fd) {
  return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0
             ? absl::OkStatus()
             : Errno("cannot seal shared memory");
}

absl::Status CheckSharedFile(int fd, size_t bytes) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return Errno("cannot look at shared memory");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals ||
      facts.st_size < static_cast<off_t>(bytes)) {
    return absl::InvalidArgumentError(
        "the other side's shared memory is too small, or may shrink");
  }
  return absl::OkStatus();
}

absl::Status SendPacket(int socket, const void* data, size_t size,
                        const std::vector<int>& fds) {
  iovec part = {const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(size) ? absl::OkStatus()
                                            : Errno("cannot send descriptors");
}

absl::StatusOr<Packet> ReceivePacket(int socket, void* data, size_t size) {
  iovec part = {data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got =
      recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return Errno("cannot receive descriptors");
  Packet packet;
  packet.size = static_cast<size_t>(got);
  packet.cut = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
      packet.fds.emplace_back(fd);
    }
  }
  return packet;
}

absl::Status CheckSameUser(int socket) {
  ucred peer{};
  if (!GetPeer(socket, &peer))
    return Errno("cannot tell whose process connected");
  if (peer.uid == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "shared memory is for one user's processes; this one is user ", peer.uid,
      "'s"));
}

pid_t ProcessOf(int socket) {
  ucred peer{};
  return GetPeer(socket, &peer) ? peer.pid : 0;
}

}  // namespace parapet::net
