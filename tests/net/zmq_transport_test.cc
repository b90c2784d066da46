#include "common/net/zmq_transport.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace parapet::net {
namespace {

using Kind = Event::Kind;

bool Await(std::vector<std::pair<Transport*, std::vector<Event>*>> peers,
           const std::function<bool()>& done) {
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (!done()) {
    if (absl::Now() > end) return false;
    for (auto& [transport, events] : peers) {
      EXPECT_TRUE(transport->Poll(absl::Milliseconds(1), events).ok());
    }
  }
  return true;
}

// Listens at `listen`, connects to the address that came back and carries one
// message.
void ExpectCarries(const std::string& listen) {
  auto server = MakeZmqTransport({}), client = MakeZmqTransport({});
  const auto address = server->Listen(listen);
  ASSERT_TRUE(address.ok()) << address.status();
  const auto id = client->Connect(*address);
  ASSERT_TRUE(id.ok()) << id.status();
  ASSERT_TRUE(client->Send(*id, "hello", {}).ok());
  std::vector<Event> at_server, at_client;
  EXPECT_TRUE(Await({{server.get(), &at_server}, {client.get(), &at_client}},
                    [&] { return !at_server.empty(); }))
      << *address;
}

bool HasIpv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  if (fd >= 0) close(fd);
  return fd >= 0 && access("/proc/net/if_inet6", R_OK) == 0 && [] {
    struct stat info {};
    FILE* f = fopen("/proc/net/if_inet6", "r");
    const int c = f != nullptr ? fgetc(f) : EOF;
    if (f != nullptr) fclose(f);
    return stat("/proc/net/if_inet6", &info) == 0 && c != EOF;
  }();
}

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

TEST(ZmqTransportTest, Localhost) { ExpectCarries("tcp://localhost:0"); }
TEST(ZmqTransportTest, AllInterfaces) { ExpectCarries("tcp://*:0"); }
TEST(ZmqTransportTest, ZeroAddress) { ExpectCarries("tcp://0.0.0.0:0"); }
TEST(ZmqTransportTest, Ipv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  ExpectCarries("tcp://[::1]:0");
}

TEST(ZmqTransportTest, PortZeroBecomesTheTruePort) {
  auto server = MakeZmqTransport({});
  const auto address = server->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(address.ok());
  EXPECT_THAT(*address, testing::MatchesRegex("tcp://127.0.0.1:[1-9][0-9]+"));
}

TEST(ZmqTransportTest, StaleIpcFileIsReplacedAndRemovedAtTheEnd) {
  const std::string path = absl::StrCat("/tmp/parapet-ipc-", getpid());
  ASSERT_EQ(mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
  ExpectCarries("ipc://" + path);
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(ZmqTransportTest, MissingFolderIsAnErrorInWords) {
  auto server = MakeZmqTransport({});
  const absl::Status s =
      server->Listen("ipc:///no/such/folder/socket").status();
  EXPECT_TRUE(absl::IsNotFound(s)) << s;
  EXPECT_THAT(std::string(s.message()),
              testing::HasSubstr("/no/such/folder/socket"));
}

TEST(ZmqTransportTest, ListenCanBeTriedAgainAfterAnError) {
  auto first = MakeZmqTransport({}), second = MakeZmqTransport({});
  const auto taken = first->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(taken.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(second->Listen(*taken).status()));
  EXPECT_TRUE(second->Listen("tcp://127.0.0.1:0").ok());
}

TEST(ZmqTransportTest, PollWaitsForItsTimeoutAndNotLonger) {
  auto idle = MakeZmqTransport({});
  ASSERT_TRUE(idle->Listen("tcp://127.0.0.1:0").ok());
  std::vector<Event> events;
  const absl::Time start = absl::Now();
  ASSERT_TRUE(idle->Poll(absl::Milliseconds(50), &events).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(49));
  ASSERT_TRUE(idle->Poll(absl::ZeroDuration(), &events).ok());
  ASSERT_TRUE(idle->Poll(-absl::Seconds(1), &events).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_TRUE(events.empty());
}

TEST(ZmqTransportTest, PollWithAQueueDoesNotSpin) {
  ZmqOptions options;
  auto server = MakeZmqTransport(options), client = MakeZmqTransport(options);
  const auto address = server->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(address.ok());
  const auto id = client->Connect(*address);
  ASSERT_TRUE(id.ok());
  std::vector<Event> events;
  for (int i = 0; i < 400;
       ++i) {  // far more than sockets and high-water marks hold
    ASSERT_TRUE(
        client->Send(*id, "x", Payload::FromString(std::string(1 << 18, 'x')))
            .ok());
  }
  ASSERT_TRUE(client->Poll(absl::Seconds(1), &events).ok());  // kUp
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  ASSERT_TRUE(client->Poll(absl::Milliseconds(300), &events).ok());
  getrusage(RUSAGE_THREAD, &after);
  const auto microseconds = [](const rusage& u) {
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           u.ru_utime.tv_usec + u.ru_stime.tv_usec;
  };
  EXPECT_LT(microseconds(after) - microseconds(before), 150000);
}

TEST(ZmqTransportTest, ManyConnectionsComeAndGoWithoutLeaks) {
  auto server = MakeZmqTransport({}), client = MakeZmqTransport({});
  const auto address = server->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(address.ok());
  std::vector<Event> at_server, at_client;
  const auto round = [&] {
    std::vector<ConnectionId> ids;
    at_server.clear();
    for (int i = 0; i < 100; ++i) {
      ids.push_back(*client->Connect(*address));
      ASSERT_TRUE(client->Send(ids.back(), "hello", {}).ok());
    }
    ASSERT_TRUE(Await({{server.get(), &at_server}, {client.get(), &at_client}},
                      [&] { return at_server.size() == 100; }));
    for (const ConnectionId id : ids) client->Close(id);
    for (const Event& e : at_server) server->Close(e.connection);
  };
  round();
  absl::SleepFor(absl::Milliseconds(300));
  const int before = OpenDescriptors();
  for (int i = 0; i < 5; ++i) round();
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (OpenDescriptors() > before + 20 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_LE(OpenDescriptors(), before + 20);
}

// Leaves a process `spare` descriptors to open, while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(int spare) {
    getrlimit(RLIMIT_NOFILE, &saved_);
    rlimit low = saved_;
    low.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = 0; fd >= 0;) {
      fd = open("/dev/null", O_RDONLY);
      if (fd >= 0) taken_.push_back(fd);
    }
    for (int i = 0; i < spare && !taken_.empty(); ++i) {
      close(taken_.back());
      taken_.pop_back();
    }
  }
  ~FewDescriptors() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &saved_);
  }

 private:
  rlimit saved_{};
  std::vector<int> taken_;
};

TEST(ZmqTransportTest, TooFewDescriptorsAreAStatus) {
  for (int spare = 0; spare <= 16; ++spare) {
    auto client = MakeZmqTransport({});
    FewDescriptors few(spare);
    absl::Status status;
    for (int i = 0; i < 20 && status.ok(); ++i) {
      status = client->Connect("tcp://127.0.0.1:1").status();
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << spare << ": " << status;
  }
}

}  // namespace
}  // namespace parapet::net
