#include "common/net/zmq_address.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace parapet::net {
namespace {

using testing::HasSubstr;

TEST(ZmqAddressTest, Parses) {
  const auto tcp = ParseZmqAddress("tcp://example.org:80");
  ASSERT_TRUE(tcp.ok());
  EXPECT_FALSE(tcp->ipc);
  EXPECT_EQ(tcp->host, "example.org");
  EXPECT_EQ(tcp->port, 80);
  EXPECT_EQ(ParseZmqAddress("tcp://[::1]:5")->host, "::1");
  EXPECT_EQ(ParseZmqAddress("ipc:///a/b")->path, "/a/b");
}

TEST(ZmqAddressTest, RefusesInWords) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "must begin with"},
      {"udp://a:1", "must begin with"},
      {"tcp://", "no port"},
      {"tcp://host", "no port"},
      {"tcp://:80", "no host"},
      {"tcp://host:", "not a number"},
      {"tcp://host:65536", "not a number"},
      {"tcp://host:-1", "not a number"},
      {"tcp://::1:80", "needs brackets"},
      {"tcp://[::1:80", "brackets do not match"},
      {"tcp://a;b:80", "such letters"},
      {"ipc://", "needs a path"},
      {"ipc://*", "needs a path"},
      {"ipc:///" + std::string(107, 'a'), "the system takes 107"},
  };
  for (const auto& [address, words] : cases) {
    const absl::Status s = ParseZmqAddress(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(s)) << address;
    EXPECT_THAT(std::string(s.message()), HasSubstr(words)) << address;
  }
  EXPECT_TRUE(ParseZmqAddress("ipc:///" + std::string(106, 'a')).ok());
}

TEST(ZmqAddressTest, ConnectEndpointIsInNumbers) {
  EXPECT_EQ(*ConnectEndpoint({false, "", "127.0.0.1", 7}), "tcp://127.0.0.1:7");
  EXPECT_EQ(*ConnectEndpoint({false, "", "::1", 7}), "tcp://[::1]:7");
  EXPECT_TRUE(
      absl::IsInvalidArgument(ConnectEndpoint({false, "", "*", 7}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ConnectEndpoint({false, "", "127.0.0.1", 0}).status()));
  EXPECT_TRUE(absl::IsNotFound(
      ConnectEndpoint({false, "", "no-such-host.invalid", 7}).status()));
}

TEST(ZmqAddressTest, LoopbackIsWhatCannotLeaveTheMachine) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"})
    EXPECT_TRUE(IsLoopback(*ConnectEndpoint({false, "", host, 7}))) << host;
  for (const char* host : {"0.0.0.0", "10.127.0.1", "::"})
    EXPECT_FALSE(IsLoopback(*ListenEndpoint({false, "", host, 7}))) << host;
  EXPECT_FALSE(IsLoopback("ipc:///127."));
}

TEST(ZmqAddressTest, PublicAddressKeepsTheHostAndTakesTheTruePort) {
  EXPECT_EQ(PublicAddress({false, "", "localhost", 0}, "tcp://127.0.0.1:41"),
            "tcp://localhost:41");
  EXPECT_EQ(PublicAddress({false, "", "::1", 0}, "tcp://[::1]:42"),
            "tcp://[::1]:42");
  EXPECT_EQ(
      PublicAddress({false, "", "no-such-interface", 0}, "tcp://10.0.0.1:43"),
      "tcp://10.0.0.1:43");
  const std::string any =
      PublicAddress({false, "", "*", 0}, "tcp://0.0.0.0:44");
  EXPECT_THAT(any, testing::EndsWith(":44"));
  EXPECT_THAT(any, testing::Not(HasSubstr("0.0.0.0")));
}

TEST(ZmqAddressTest, LeavesAloneWhatIsNoSocket) {
  const std::string path = absl::StrCat("/tmp/parapet-address-", getpid());
  close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ListenEndpoint({true, path, "", 0}).status()));
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  unlink(path.c_str());
  EXPECT_TRUE(ListenEndpoint({true, path, "", 0}).ok());
}

TEST(ZmqAddressTest, TellsAStaleSocketFromALiveOne) {
  const std::string path = absl::StrCat("/tmp/parapet-stale-", getpid());
  unlink(path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(listen(fd, 4), 0);
  EXPECT_TRUE(
      absl::IsAlreadyExists(ListenEndpoint({true, path, "", 0}).status()));
  close(fd);
  EXPECT_TRUE(ListenEndpoint({true, path, "", 0}).ok());
  unlink(path.c_str());
}

}  // namespace
}  // namespace parapet::net
