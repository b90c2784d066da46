// What a process of the same user can do to the others over shared memory, and
// what is left of one that was killed, or had children.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/shm_link.h"
#include "common/net/shm_listener.h"
#include "common/net/shm_transport.h"
#include "tests/common/temp_dir.h"

namespace parapet::net {
namespace {

using Kind = Event::Kind;

constexpr size_t kSize = 100000;  // of what is lent

class ShmHostileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto listening = server_->Listen(address_);
    ASSERT_TRUE(listening.ok()) << listening.status();
  }

  // Polls the server until `done`.
  bool Await(const std::function<bool()>& done) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (!done()) {
      if (absl::Now() > end) return false;
      EXPECT_TRUE(server_->Poll(absl::Milliseconds(1), &events_).ok());
    }
    return true;
  }
  int Count(Kind kind) const {
    int count = 0;
    for (const Event& event : events_) count += event.kind == kind;
    return count;
  }

  UniqueFd RawConnect() {
    UniqueFd socket = OpenShmSocket();
    EXPECT_EQ(ConnectShmSocket(socket.get(), *ParseShmAddress(address_)), 0);
    return socket;
  }
  // What the server says next; size 0: it hung up.
  Packet Answer(const UniqueFd& socket) {
    absl::StatusOr<Packet> packet;
    char content[256];
    EXPECT_TRUE(Await([&] {
      packet = ReceivePacket(socket.get(), content, sizeof(content));
      return !absl::IsUnavailable(packet.status()) || Reset(packet.status());
    }));
    return packet.ok() ? *std::move(packet) : Packet();
  }
  // A link that has said hello, and said so to the server's owner.
  ShmLink RawLink(const UniqueFd& socket) {
    EXPECT_TRUE(SendHello(socket.get(), *bell_).ok());
    absl::StatusOr<ShmLink> link;
    EXPECT_TRUE(Await([&] {
      link = TakeAnswer(socket.get(), {});
      return link.ok();
    }));
    ShmWriter::Progress progress;
    EXPECT_TRUE(*link->writer->Write("hello", {}, &progress));
    EXPECT_TRUE(Await([&] { return Count(Kind::kMessage) == 1; }));
    return *std::move(link);
  }

  // A payload that the server lends, and a watch over it.
  Payload Lendable(std::weak_ptr<const void>* watch) {
    auto owner = std::make_shared<const std::shared_ptr<std::byte>>(
        server_->Allocate(kSize));
    *watch = owner;
    std::byte* const bytes = owner->get();
    return Payload(std::move(owner), bytes, kSize);
  }

  const std::string address_ =
      absl::StrCat("shm:///tmp/parapet-hostile-", getpid());
  const std::unique_ptr<Transport> server_ = MakeShmTransport({});
  const std::shared_ptr<ShmBell> bell_ = *ShmBell::Make();
  std::vector<Event> events_;

 private:
  static bool Reset(const absl::Status& status) {
    return absl::StrContains(status.message(), "reset");
  }
};

// A process that runs `child` until it is killed.
class Child {
 public:
  explicit Child(const std::function<void()>& child) : pid_(fork()) {
    if (pid_ != 0) return;
    child();
    while (true) pause();
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// ---- Descriptors ------------------------------------------------------------

// A full pipe would keep the server as soon as it rang.
TEST_F(ShmHostileTest, ABellMustNotBlock) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd in(ends[0]), out(ends[1]);
  for (const int bell : {out.get(), STDERR_FILENO}) {
    const UniqueFd socket = RawConnect();
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    const UniqueFd to(pair[0]), from(pair[1]);
    ASSERT_TRUE(SendHello(to.get(), *bell_).ok());
    char hello[64];
    const auto packet = ReceivePacket(from.get(), hello, sizeof(hello));
    ASSERT_TRUE(packet.ok());
    ASSERT_TRUE(SendPacket(socket.get(), hello, packet->size,
                           {bell, packet->fds[1].get()})
                    .ok());
    EXPECT_EQ(Answer(socket).size, 0u);
  }
}

TEST_F(ShmHostileTest, FilesThatMayShrinkAreRefused) {
  const UniqueFd socket = RawConnect();
  const TempDir dir;
  const UniqueFd file(
      open((dir / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  const ShmLink link = RawLink(socket);
  ASSERT_TRUE(SendSlab(socket.get(), 1, file.get(), 1 << 20).ok());
  ASSERT_TRUE(Await([&] { return Count(Kind::kDown) == 1; }));
  EXPECT_THAT(events_.back().reason, testing::HasSubstr("may shrink"));
}

TEST_F(ShmHostileTest, DescriptorsWithoutEnd) {
  const int before = OpenDescriptors();
  {
    const UniqueFd socket = RawConnect();
    const ShmLink link = RawLink(socket);
    const auto file = MakeSharedFile(4096);
    ASSERT_TRUE(file.ok());
    // Each would be mapped in place of the last one, for as long as they come.
    ASSERT_TRUE(SendSlab(socket.get(), 1, file->get(), 4096).ok());
    ASSERT_TRUE(SendSlab(socket.get(), 1, file->get(), 4096).ok());
    ASSERT_TRUE(Await([&] { return Count(Kind::kDown) == 1; }));
    EXPECT_THAT(events_.back().reason, testing::HasSubstr("by one number"));
    const UniqueFd many = RawConnect();
    char hello[16] = {};
    ASSERT_TRUE(SendPacket(many.get(), hello, sizeof(hello),
                           std::vector<int>(8, file->get()))
                    .ok());
    EXPECT_EQ(Answer(many).size, 0u);
  }
  EXPECT_LE(OpenDescriptors(), before);
}

TEST_F(ShmHostileTest, MoreMemoryThanThereAreAddresses) {
  const UniqueFd socket = RawConnect();
  const ShmLink link = RawLink(socket);
  const size_t bytes = size_t{700} << 30;  // none of it is there
  const auto file = MakeSharedFile(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(SendSlab(socket.get(), 1, file->get(), bytes).ok());
  ASSERT_TRUE(SendSlab(socket.get(), 2, file->get(), bytes).ok());
  ASSERT_TRUE(Await([&] { return Count(Kind::kDown) == 1; }));
  EXPECT_THAT(events_.back().reason, testing::HasSubstr("too much memory"));
}

TEST_F(ShmHostileTest, TwoDescriptorsForEachEnd) {
  const auto client = MakeShmTransport({});
  const int before = OpenDescriptors();
  std::vector<Event> events;
  for (int i = 0; i < 50; ++i) {
    const auto id = client->Connect(address_);
    ASSERT_TRUE(id.ok());
    ASSERT_TRUE(client->Send(*id, "hello", {}).ok());
  }
  ASSERT_TRUE(Await([&] {
    EXPECT_TRUE(client->Poll(absl::Milliseconds(1), &events).ok());
    return Count(Kind::kMessage) == 50;
  }));
  EXPECT_LE(OpenDescriptors(), before + 2 * 2 * 50);
}

// ---- Processes that are gone ------------------------------------------------

// Otherwise a worker that crashes again and again would fill the memory with
// old versions.
TEST_F(ShmHostileTest, WhatADeadProcessHadBorrowedIsFreed) {
  Child reader([this] {
    const auto client = MakeShmTransport({});
    (void)client->Send(*client->Connect(address_), "hello", {});
    std::vector<Event> kept;
    while (true) (void)client->Poll(absl::Milliseconds(50), &kept);
  });
  ASSERT_TRUE(Await([&] { return Count(Kind::kMessage) == 1; }));
  std::weak_ptr<const void> watch;
  ASSERT_TRUE(
      server_->Send(events_[0].connection, "lent", Lendable(&watch)).ok());
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(watch.expired());
  reader.Kill();
  EXPECT_TRUE(Await([&] { return watch.expired(); }));
}

TEST_F(ShmHostileTest, WhoComesAndGoesKeepsNoMoreThanTheLast) {
  constexpr int kTimes = 40;
  const auto client = MakeShmTransport({});
  std::vector<Event> kept;
  std::vector<std::weak_ptr<const void>> watches(kTimes);
  for (std::weak_ptr<const void>& watch : watches) {
    events_.clear();
    const auto id = client->Connect(address_);
    ASSERT_TRUE(client->Send(*id, "hello", {}).ok());
    const auto poll = [&] {
      EXPECT_TRUE(client->Poll(absl::Milliseconds(1), &kept).ok());
    };
    ASSERT_TRUE(Await([&] { return poll(), Count(Kind::kMessage) == 1; }));
    ASSERT_TRUE(
        server_->Send(events_[0].connection, "lent", Lendable(&watch)).ok());
    const size_t before = kept.size();
    ASSERT_TRUE(Await([&] { return poll(), kept.size() > before; }));
    EXPECT_TRUE(kept.back().payload.may_change());
    client->Close(*id);
    ASSERT_TRUE(Await([&] { return Count(Kind::kDown) == 1; }));
  }
  int held = 0;
  for (const std::weak_ptr<const void>& watch : watches)
    held += !watch.expired();
  EXPECT_LE(held, 16);
  EXPECT_FALSE(watches.back().expired());  // it is being read
}

// What a training loop forks, to load data, say, has the sockets as well.
TEST_F(ShmHostileTest, AForkedProcessKeepsNoConnectionOpen) {
  const auto client = MakeShmTransport({});
  const auto id = client->Connect(address_);
  ASSERT_TRUE(client->Send(*id, "hello", {}).ok());
  std::vector<Event> events;
  ASSERT_TRUE(Await([&] {
    EXPECT_TRUE(client->Poll(absl::Milliseconds(1), &events).ok());
    return Count(Kind::kMessage) == 1;
  }));
  const Child child([] {});
  client->Close(*id);
  EXPECT_TRUE(Await([&] { return Count(Kind::kDown) == 1; }));
  // Nor does a socket that is closed here wake anybody for ever.
  const absl::Time start = absl::Now();
  events_.clear();
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  ASSERT_TRUE(server_->Poll(absl::Milliseconds(300), &events_).ok());
  getrusage(RUSAGE_SELF, &after);
  EXPECT_TRUE(events_.empty());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(299));
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 100);
}

}  // namespace
}  // namespace parapet::net
