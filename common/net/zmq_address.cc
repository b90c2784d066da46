#include "common/net/zmq_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/loopback.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Bad(absl::string_view address, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", address, "\": ", why));
}

absl::StatusOr<ZmqAddress> ParseIpc(absl::string_view whole,
                                    absl::string_view path) {
  if (path.empty() || path == "*")
    return Bad(whole, "an ipc address needs a path");
  if (path.find('\0') != path.npos)
    return Bad(whole, "the path has a zero byte in it");
  if (path.size() > kMaxPath) {
    return Bad(whole, absl::StrCat("the path has ", path.size(),
                                   " bytes, the system takes ", kMaxPath,
                                   ": use a shorter folder"));
  }
  ZmqAddress address;
  address.ipc = true;
  address.path = std::string(path);
  return address;
}

absl::StatusOr<ZmqAddress> ParseTcp(absl::string_view whole,
                                    absl::string_view rest) {
  const size_t colon = rest.rfind(':');
  if (colon == rest.npos) return Bad(whole, "no port; write tcp://host:port");
  absl::string_view host = rest.substr(0, colon);
  const bool brackets = absl::ConsumePrefix(&host, "[");
  if (brackets != absl::ConsumeSuffix(&host, "]"))
    return Bad(whole, "brackets do not match");
  if (host.empty()) return Bad(whole, "no host; write tcp://host:port");
  if (!brackets && absl::StrContains(host, ':')) {
    return Bad(whole, "an IPv6 address needs brackets: tcp://[::1]:port");
  }
  if (host.find_first_of(absl::string_view(" \t\n/;,\0", 7)) != host.npos) {
    return Bad(whole, "a host name cannot have such letters");
  }
  ZmqAddress address;
  address.host = std::string(host);
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return Bad(whole, "the port is not a number from 0 to 65535");
  }
  return address;
}

std::string Endpoint(absl::string_view host, int port) {
  if (absl::StrContains(host, ':'))
    return absl::StrCat("tcp://[", host, "]:", port);
  return absl::StrCat("tcp://", host, ":", port);
}

// The first address of a host, in numbers. IPv4 first: a name often has both,
// and a server that listens at "localhost" listens at one.
absl::StatusOr<std::string> Resolve(const std::string& host) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return absl::NotFoundError(
        absl::StrCat("host \"", host, "\": ", gai_strerror(error)));
  }
  const absl::Cleanup free_list = [list] { freeaddrinfo(list); };
  const addrinfo* chosen = list;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    if (a->ai_family == AF_INET) {
      chosen = a;
      break;
    }
  }
  char text[NI_MAXHOST];
  const int failed = getnameinfo(chosen->ai_addr, chosen->ai_addrlen, text,
                                 sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (failed != 0) return absl::NotFoundError(gai_strerror(failed));
  return std::string(text);
}

bool SomebodyListens(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  const int rc =
      connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  // EAGAIN: somebody does, with a full backlog.
  const bool listens = rc == 0 || errno == EAGAIN;
  close(fd);
  return listens;
}

absl::Status CheckPathIsFree(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ipc path ", path, " exists and is no socket; it is left alone"));
  }
  if (!SomebodyListens(path)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("another process listens at ipc path ", path));
}

bool IsWildcard(const std::string& host) {
  return host == "*" || host == "0.0.0.0" || host == "::";
}

// This machine's name if peers can look it up as we can; else only peers on
// this machine reach us.
std::string ThisHost() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || !Resolve(name).ok())
    return "127.0.0.1";
  return name;
}

}  // namespace

absl::StatusOr<ZmqAddress> ParseZmqAddress(const std::string& address) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "tcp://")) return ParseTcp(address, rest);
  if (absl::ConsumePrefix(&rest, "ipc://")) return ParseIpc(address, rest);
  return Bad(address, "it must begin with tcp:// or ipc://");
}

absl::StatusOr<std::string> ConnectEndpoint(const ZmqAddress& address) {
  if (address.ipc) return absl::StrCat("ipc://", address.path);
  if (address.host == "*" || address.port == 0) {
    return Bad(Endpoint(address.host, address.port),
               "to connect takes a host and a port");
  }
  const absl::StatusOr<std::string> host = Resolve(address.host);
  if (!host.ok()) return host.status();
  return Endpoint(*host, address.port);
}

absl::StatusOr<std::string> ListenEndpoint(const ZmqAddress& address) {
  if (address.ipc) {
    PARAPET_RETURN_IF_ERROR(CheckPathIsFree(address.path));
    return absl::StrCat("ipc://", address.path);
  }
  if (IsWildcard(address.host)) return Endpoint(address.host, address.port);
  // What no name service knows may be the name of an interface, which libzmq
  // knows.
  const absl::StatusOr<std::string> host = Resolve(address.host);
  return Endpoint(host.ok() ? *host : address.host, address.port);
}

bool IsLoopback(absl::string_view endpoint) {
  return absl::ConsumePrefix(&endpoint, "tcp://") &&
         IsLoopbackHost(endpoint.substr(0, endpoint.rfind(':')));
}

std::string PublicAddress(const ZmqAddress& address, const std::string& bound) {
  if (address.ipc) return absl::StrCat("ipc://", address.path);
  int port = address.port;
  (void)absl::SimpleAtoi(absl::string_view(bound).substr(bound.rfind(':') + 1),
                         &port);
  if (IsWildcard(address.host)) return Endpoint(ThisHost(), port);
  if (Resolve(address.host).ok()) return Endpoint(address.host, port);
  return bound;  // an interface: libzmq says its address
}

IpcFile::IpcFile(const std::string& path) : path_(path) {
  struct stat info {};
  if (lstat(path_.c_str(), &info) != 0) {
    path_.clear();
    return;
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

void IpcFile::Remove() const {
  struct stat info {};
  if (path_.empty() || lstat(path_.c_str(), &info) != 0) return;
  if (info.st_dev == device_ && info.st_ino == inode_) unlink(path_.c_str());
}

}  // namespace parapet::net
