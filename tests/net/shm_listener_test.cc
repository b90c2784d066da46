// Where processes that share memory meet: what is at the path before, and
// after.
#include "common/net/shm_listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/net/shm_transport.h"

namespace parapet::net {
namespace {

class ShmListenerTest : public testing::Test {
 protected:
  ~ShmListenerTest() override { unlink(path_.c_str()); }

  // As a process that was killed leaves it.
  void Abandon() {
    const UniqueFd socket = OpenShmSocket();
    const sockaddr_un at = *ParseShmAddress(address_);
    ASSERT_EQ(
        bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)),
        0);
  }
  bool Exists() const { return access(path_.c_str(), F_OK) == 0; }
  UniqueFd Connect() const {
    UniqueFd socket = OpenShmSocket();
    const int connected =
        ConnectShmSocket(socket.get(), *ParseShmAddress(address_));
    return connected == 0 ? std::move(socket) : UniqueFd();
  }

  const std::string path_ = absl::StrCat("/tmp/parapet-listener-", getpid());
  const std::string address_ = "shm://" + path_;
};

TEST_F(ShmListenerTest, TakesWhatWasAbandonedAndLeavesNothing) {
  Abandon();
  auto listener = ShmListener::Open(address_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat file;
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_TRUE(Connect().valid());
  EXPECT_TRUE((*listener)->Accept().valid());
  EXPECT_FALSE((*listener)->Accept().valid());
  EXPECT_TRUE(absl::IsAlreadyExists(ShmListener::Open(address_).status()));
  listener->reset();
  EXPECT_FALSE(Exists());
}

TEST_F(ShmListenerTest, AFileIsNotRemoved) {
  std::ofstream(path_) << "precious";
  EXPECT_TRUE(absl::IsAlreadyExists(ShmListener::Open(address_).status()));
  std::stringstream content;
  content << std::ifstream(path_).rdbuf();
  EXPECT_EQ(content.str(), "precious");
}

TEST_F(ShmListenerTest, ThePathOfAnotherIsNotRemoved) {
  auto first = ShmListener::Open(address_);
  ASSERT_TRUE(first.ok());
  unlink(path_.c_str());
  const auto second = ShmListener::Open(address_);
  ASSERT_TRUE(second.ok());
  first->reset();
  EXPECT_TRUE(Connect().valid());
}

// Whoever loses finds a listener there, not a path to take.
TEST_F(ShmListenerTest, OneOfManyTakesAnAbandonedPath) {
  constexpr int kMany = 8;
  for (int round = 0; round < 100; ++round) {
    Abandon();
    std::vector<std::unique_ptr<ShmListener>> taken(kMany);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kMany; ++i) {
      threads.emplace_back([&, i] {
        ++ready;
        while (ready < kMany) std::this_thread::yield();
        auto listener = ShmListener::Open(address_);
        if (listener.ok()) taken[i] = *std::move(listener);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(std::count(taken.begin(), taken.end(), nullptr), kMany - 1);
  }
}

// Otherwise he would wait, and whoever listens would look again and again.
TEST_F(ShmListenerTest, WithoutADescriptorPeopleAreHungUpOn) {
  const auto listener = ShmListener::Open(address_);
  ASSERT_TRUE(listener.ok());
  const UniqueFd peer = Connect();
  ASSERT_TRUE(peer.valid());
  rlimit saved;
  getrlimit(RLIMIT_NOFILE, &saved);
  rlimit low = saved;
  low.rlim_cur = static_cast<rlim_t>(UniqueFd(dup(0)).get());
  setrlimit(RLIMIT_NOFILE, &low);
  const bool taken = (*listener)->Accept().valid();
  setrlimit(RLIMIT_NOFILE, &saved);
  EXPECT_FALSE(taken);
  char byte;
  EXPECT_EQ(recv(peer.get(), &byte, 1, MSG_DONTWAIT), 0) << errno;
  pollfd ready = {(*listener)->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 0);
  EXPECT_TRUE(Connect().valid());
  EXPECT_TRUE((*listener)->Accept().valid());
}

// Only root can be two users.
TEST_F(ShmListenerTest, WhoListensMustBeOfTheSameUser) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(1);
    const auto listener = ShmListener::Open(address_);
    chmod(path_.c_str(), 0666);
    [[maybe_unused]] const ssize_t n =
        write(ready[1], "x", listener.ok() ? 1 : 0);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto client = MakeShmTransport({});
  const auto id = client->Connect(address_);
  ASSERT_TRUE(id.ok());
  std::vector<Event> events;
  ASSERT_TRUE(client->Poll(absl::Seconds(5), &events).ok());
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Event::Kind::kDown);
  EXPECT_THAT(events[0].reason, testing::HasSubstr("one user's processes"));
}

}  // namespace
}  // namespace parapet::net
