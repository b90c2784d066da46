// What a peer that is not ours can do to the zmq transport: nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <functional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/zmq_transport.h"
#include "common/rng.h"

namespace parapet::net {
namespace {

using Kind = Event::Kind;

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return port;
}

sockaddr_in Loopback(int port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return name;
}

int RawConnect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in name = Loopback(port);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)),
            0);
  return fd;
}

// A listening socket, at a port of its own.
int RawListen(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = Loopback(0);
  socklen_t size = sizeof(name);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), size), 0);
  EXPECT_EQ(listen(fd, 4), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
  *port = ntohs(name.sin_port);
  return fd;
}

void Write(int fd, const std::string& bytes) {
  [[maybe_unused]] const ssize_t n =
      send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// A ZMTP 3.0 greeting and a READY command of a DEALER, as a true peer sends
// them.
std::string Greeting() {
  std::string bytes("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 16);
  bytes.resize(64, '\0');
  return bytes + std::string(
                     "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
                     "DEALER",
                     2 + 28);
}

// Greets, and waits for the other side's greeting and READY: then messages may
// follow.
void Greet(int fd) {
  Write(fd, Greeting());
  char buffer[256];
  for (ssize_t got = 0, n = 1; got < 64 + 30 && n > 0; got += n) {
    n = recv(fd, buffer, sizeof(buffer), 0);
    EXPECT_GT(n, 0);
  }
}

class ZmqHostileTest : public testing::Test {
 protected:
  void SetUp() override {
    context_ = zmq_ctx_new();
    options_.limits.max_header = 100;
    options_.limits.max_payload = 10000;
    options_.connect_timeout = absl::Seconds(2);
    options_.linger = absl::Milliseconds(50);
    server_ = MakeZmqTransport(options_);
    const auto address = server_->Listen("tcp://127.0.0.1:0");
    ASSERT_TRUE(address.ok()) << address.status();
    address_ = *address;
  }
  void TearDown() override {
    for (void* s : sockets_) zmq_close(s);
    server_.reset();
    zmq_ctx_term(context_);
  }

  void* RawZmq(int type, const std::string& routing_id = "") {
    void* s = zmq_socket(context_, type);
    const int linger = 0;
    zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof(linger));
    if (!routing_id.empty()) {
      zmq_setsockopt(s, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size());
    }
    sockets_.push_back(s);
    return s;
  }
  void* RawDealer(const std::string& routing_id = "") {
    void* s = RawZmq(ZMQ_DEALER, routing_id);
    const int once = -1;
    zmq_setsockopt(s, ZMQ_RECONNECT_IVL, &once, sizeof(once));
    EXPECT_EQ(zmq_connect(s, address_.c_str()), 0);
    return s;
  }
  static void SendFrames(void* socket, int count, const std::string& frame) {
    for (int i = 0; i < count; ++i) {
      zmq_send(socket, frame.data(), frame.size(),
               i + 1 < count ? ZMQ_SNDMORE : 0);
    }
  }

  bool Await(Transport* transport, const std::function<bool()>& done) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (!done()) {
      if (absl::Now() > end) return false;
      EXPECT_TRUE(transport->Poll(absl::Milliseconds(5), &events_).ok());
    }
    return true;
  }
  void Settle() {
    const absl::Time end = absl::Now() + absl::Milliseconds(100);
    (void)Await(server_.get(), [&] { return absl::Now() > end; });
  }
  // A well-behaved client is served, and nothing else was heard.
  void ExpectServes() {
    EXPECT_TRUE(events_.empty());
    auto client = MakeZmqTransport(options_);
    const auto id = client->Connect(address_);
    ASSERT_TRUE(id.ok());
    ASSERT_TRUE(client->Send(*id, "good", Payload::FromString("p")).ok());
    ASSERT_TRUE(Await(server_.get(), [&] { return !events_.empty(); }));
    EXPECT_EQ(events_[0].header, "good");
    EXPECT_EQ(events_.size(), 1u);
  }

  void* context_ = nullptr;
  std::vector<void*> sockets_;
  ZmqOptions options_;
  std::unique_ptr<Transport> server_;
  std::string address_;
  std::vector<Event> events_;
};

TEST_F(ZmqHostileTest, RandomBytes) {
  Random random(20240601);
  for (int i = 0; i < 50; ++i) {
    const int fd = RawConnect(PortOf(address_));
    std::string bytes(random.Below(3000), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next32());
    if (i % 3 == 1) Greet(fd);
    Write(fd, i % 3 == 2 ? Greeting() + bytes : bytes);
    (void)Await(server_.get(), [n = 0]() mutable { return ++n > 2; });
    close(fd);
  }
  Settle();
  // What happens to parse as a message may come; nothing but messages, and the
  // server lives.
  for (const Event& e : events_) EXPECT_EQ(e.kind, Kind::kMessage);
  events_.clear();
  ExpectServes();
}

TEST_F(
    ZmqHostileTest,
    AWellFormedRawPeerIsHeard) {  // or the tests with Greeting() test nothing
  const int fd = RawConnect(PortOf(address_));
  Greet(fd);
  Write(fd, std::string("\0\x03raw", 5));
  ASSERT_TRUE(Await(server_.get(), [&] { return !events_.empty(); }));
  EXPECT_EQ(events_[0].header, "raw");
  close(fd);
}

TEST_F(ZmqHostileTest, SilentPeersAndHalfMessages) {
  const int silent = RawConnect(PortOf(address_));
  const int half = RawConnect(PortOf(address_));
  Greet(half);
  Write(half, std::string("\x01\x7fxyz", 5));
  Settle();
  ExpectServes();
  close(silent);
  close(half);
}

TEST_F(ZmqHostileTest, FrameOfHugeLengthIsRefusedBeforeItIsAllocated) {
  const int fd = RawConnect(PortOf(address_));
  Greet(fd);
  Write(fd, std::string("\x02\x7f\xff\xff\xff\xff\xff\xff\xff", 9));
  char byte;
  EXPECT_TRUE(Await(server_.get(), [&] {
    const ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }));
  close(fd);
  ExpectServes();
}

TEST_F(ZmqHostileTest, MessagesOfTooManyFramesCloseTheConnection) {
  for (const int frames : {3, 100, 5000}) {
    void* raw = RawDealer();
    SendFrames(raw, 2, "fine");
    ASSERT_TRUE(Await(server_.get(), [&] { return !events_.empty(); }));
    EXPECT_EQ(events_[0].header, "fine");
    EXPECT_EQ(events_[0].payload.ToString(), "fine");
    const ConnectionId id = events_[0].connection;
    events_.clear();
    SendFrames(raw, frames, "x");
    SendFrames(raw, 1, "after");
    ASSERT_TRUE(Await(server_.get(), [&] { return !events_.empty(); }));
    EXPECT_EQ(events_[0].kind, Kind::kDown);
    EXPECT_EQ(events_[0].connection, id);
    EXPECT_THAT(events_[0].reason,
                testing::HasSubstr(absl::StrCat(frames, " frames")));
    Settle();
    EXPECT_EQ(events_.size(), 1u);
    events_.clear();
  }
  ExpectServes();
}

TEST_F(ZmqHostileTest, FirstMessageBadIsNeverHeardOf) {
  SendFrames(RawDealer(), 3, "x");
  SendFrames(RawDealer(), 1, std::string(101, 'h'));
  SendFrames(RawDealer(), 1, std::string(20000, 'h'));
  SendFrames(RawDealer(), 2, std::string(20000, 'h'));
  Settle();
  ExpectServes();
}

TEST_F(ZmqHostileTest, ChosenRoutingIdsAreRefused) {
  SendFrames(RawDealer("admin"), 1, "x");
  SendFrames(RawDealer("admin"), 1, "x");
  SendFrames(RawDealer(std::string(255, 'i')), 1, "x");
  Settle();
  ExpectServes();
}

TEST_F(ZmqHostileTest, OtherSocketTypesAreHarmless) {
  for (const int type :
       {ZMQ_REQ, ZMQ_ROUTER, ZMQ_PUB, ZMQ_PUSH, ZMQ_PAIR, ZMQ_SUB}) {
    void* raw = RawZmq(type);
    ASSERT_EQ(zmq_connect(raw, address_.c_str()), 0);
    zmq_send(raw, "x", 1, ZMQ_DONTWAIT);
  }
  Settle();
  // A REQ sends an empty frame and one of its own: two frames are a message.
  for (const Event& e : events_) EXPECT_EQ(e.kind, Kind::kMessage);
  events_.clear();
  ExpectServes();
}

TEST_F(ZmqHostileTest, ClosedPeerIsIgnoredThenCutOff) {
  options_.linger = absl::Milliseconds(300);
  server_ = MakeZmqTransport(options_);
  address_ = *server_->Listen("tcp://127.0.0.1:0");
  auto client = MakeZmqTransport(options_);
  const auto id = client->Connect(address_);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(client->Send(*id, "hello", {}).ok());
  ASSERT_TRUE(Await(server_.get(), [&] { return !events_.empty(); }));
  const ConnectionId end = events_[0].connection;
  events_.clear();
  ASSERT_TRUE(server_->Send(end, "bye", {}).ok());
  server_->Close(end);
  std::vector<Event> heard;
  // Goes on talking; hears the bye, then the end.
  EXPECT_TRUE(Await(server_.get(), [&] {
    (void)client->Send(*id, "me again", {});
    EXPECT_TRUE(client->Poll(absl::Milliseconds(1), &heard).ok());
    return heard.back().kind == Kind::kDown;
  }));
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[0].kind, Kind::kUp);
  EXPECT_EQ(heard[1].header, "bye");
  ExpectServes();
}

class ZmqHostileServerTest : public ZmqHostileTest {
 protected:
  void ExpectDown(const std::string& address) {
    auto client = MakeZmqTransport(options_);
    const auto id = client->Connect(address);
    ASSERT_TRUE(id.ok()) << id.status();
    (void)client->Send(*id, "hello", {});
    ASSERT_TRUE(Await(client.get(), [&] { return !events_.empty(); }));
    EXPECT_EQ(events_[0].kind, Kind::kDown);
    EXPECT_NE(events_[0].reason, "");
    EXPECT_EQ(events_.size(), 1u);
    EXPECT_TRUE(absl::IsNotFound(client->Send(*id, "x", {})));
  }
};

TEST_F(ZmqHostileServerTest, AcceptsAndSaysNothing) {
  options_.connect_timeout = absl::Milliseconds(200);
  int port = 0;
  const int fd = RawListen(&port);
  ExpectDown(absl::StrCat("tcp://127.0.0.1:", port));
  close(fd);
}

TEST_F(ZmqHostileServerTest, AcceptsAndHangsUp) {
  int port = 0;
  const int fd = RawListen(&port);
  auto client = MakeZmqTransport(options_);
  ASSERT_TRUE(client->Connect(absl::StrCat("tcp://127.0.0.1:", port)).ok());
  close(accept(fd, nullptr, nullptr));
  ASSERT_TRUE(Await(client.get(), [&] { return !events_.empty(); }));
  EXPECT_EQ(events_[0].kind, Kind::kDown);
  close(fd);
}

TEST_F(ZmqHostileServerTest, SpeaksAnotherProtocol) {
  int port = 0;
  const int fd = RawListen(&port);
  auto client = MakeZmqTransport(options_);
  ASSERT_TRUE(client->Connect(absl::StrCat("tcp://127.0.0.1:", port)).ok());
  const int peer = accept(fd, nullptr, nullptr);
  // libzmq takes whoever does not greet for one of its first version, and may
  // see messages.
  Write(peer, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" +
                  std::string(200, 'x'));
  shutdown(peer, SHUT_WR);
  ASSERT_TRUE(Await(client.get(), [&] {
    return !events_.empty() && events_.back().kind == Kind::kDown;
  }));
  close(peer);
  close(fd);
}

TEST_F(ZmqHostileServerTest, SendsTooManyFrames) {
  void* raw = RawZmq(ZMQ_ROUTER);
  ASSERT_EQ(zmq_bind(raw, "tcp://127.0.0.1:*"), 0);
  char address[256];
  size_t size = sizeof(address);
  ASSERT_EQ(zmq_getsockopt(raw, ZMQ_LAST_ENDPOINT, address, &size), 0);
  auto client = MakeZmqTransport(options_);
  const auto id = client->Connect(address);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(client->Send(*id, "hello", {}).ok());
  char routing[16];
  const int n = zmq_recv(raw, routing, sizeof(routing), 0);
  ASSERT_EQ(n, 5);
  zmq_send(raw, routing, 5, ZMQ_SNDMORE);
  SendFrames(raw, 2, "good");
  zmq_send(raw, routing, 5, ZMQ_SNDMORE);
  SendFrames(raw, 3, "bad");
  zmq_send(raw, routing, 5, ZMQ_SNDMORE);
  SendFrames(raw, 2, "after");
  ASSERT_TRUE(Await(client.get(),
                    [&] { return !events_.empty() && events_.size() >= 3; }));
  EXPECT_EQ(events_[0].kind, Kind::kUp);
  EXPECT_EQ(events_[1].header, "good");
  EXPECT_EQ(events_[2].kind, Kind::kDown);
  EXPECT_THAT(events_[2].reason, testing::HasSubstr("3 frames"));
}

TEST_F(ZmqHostileServerTest, UnknownHostIsDown) {
  ExpectDown("tcp://no-such-host.invalid:4000");
}

}  // namespace
}  // namespace parapet::net
