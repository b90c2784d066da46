#ifndef PARAPET_COMMON_NET_ZMQ_ADDRESS_H_
#define PARAPET_COMMON_NET_ZMQ_ADDRESS_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace parapet::net {

// "tcp://host:port" (host: a name, an IPv4 address, an IPv6 address in
// brackets, or to listen "*" or an interface's name) or "ipc:///path".
struct ZmqAddress {
  bool ipc = false;
  std::string path;  // ipc
  std::string host;  // tcp, without brackets
  int port = 0;
};

// InvalidArgument, in words, for what can never work.
absl::StatusOr<ZmqAddress> ParseZmqAddress(const std::string& address);

// libzmq's endpoint to connect to. Asks the name service, so it can take a
// while; NotFound if it does not know the host. Port 0 is InvalidArgument.
absl::StatusOr<std::string> ConnectEndpoint(const ZmqAddress& address);

// libzmq's endpoint to listen at. libzmq replaces whatever is at an ipc path: a
// path that is not a socket is FailedPrecondition here, and one at which
// somebody listens AlreadyExists.
absl::StatusOr<std::string> ListenEndpoint(const ZmqAddress& address);

// Whether what is at this endpoint, as the two above give it, can only be on
// this machine, reached over TCP.
bool IsLoopback(absl::string_view endpoint);

// The address that peers connect to, when libzmq listens at `bound`: the host
// as it was given, or this machine's name for "all interfaces", with the true
// port.
std::string PublicAddress(const ZmqAddress& address, const std::string& bound);

// The file of an ipc listener, which libzmq leaves behind.
class IpcFile {
 public:
  IpcFile() = default;
  // Takes the file that is at the path now.
  explicit IpcFile(const std::string& path);
  // Unless another process has put its own there.
  void Remove() const;

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_ZMQ_ADDRESS_H_
