#ifndef PARAPET_TESTS_WORKER_CLIENT_FIXTURE_H_
#define PARAPET_TESTS_WORKER_CLIENT_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"
#include "common/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/client.h"

namespace parapet {

// Servers that answer a client's hellos and pings by themselves, keep what it
// says, and say what a test tells them to. Shared by the test's thread and the
// client's.
class FakeServers {
 public:
  static constexpr uint64_t kTerm = 9, kToken = 555;

  FakeServers(const ShardMap& map, DType wire) : map_(map), wire_(wire) {}

  // What a hello is answered with; set before the client is made.
  std::string snapshot;
  bool answer = true;
  std::string refuse;

  // ---- For the transport.
  net::ConnectionId Connect(const std::string& address) {
    Lock lock(this);
    const net::ConnectionId id = ++last_id_;
    servers_[id] = address == "sim://0" ? 0 : 1;
    events_.push_back({net::Event::Kind::kUp, id, "", {}, ""});
    return id;
  }
  void Take(net::ConnectionId id, absl::string_view header,
            const Payload& payload) {
    absl::StatusOr<Message> message = Decode(header, payload, WireLimits());
    ASSERT_TRUE(message.ok()) << message.status();
    Lock lock(this);
    if (auto* hello = std::get_if<HelloMessage>(&message->body)) {
      return OnHello(id, *hello);
    }
    if (std::holds_alternative<PingMessage>(message->body)) {
      return Answer(id, PongMessage{});
    }
    heard_.push_back({servers_[id], *std::move(message)});
  }
  absl::Status Poll(absl::Duration timeout, std::vector<net::Event>* events) {
    Lock lock(this);
    Await(timeout, [this] { return woken_ || !events_.empty(); });
    woken_ = false;
    events->swap(events_);
    events_.clear();
    return broken_;
  }
  void Wake() {
    Lock lock(this);
    woken_ = true;
  }

  // ---- For the test.
  void Say(int server, uint16_t link, Body body) {
    Lock lock(this);
    Answer(IdOf(server, link), std::move(body));
  }
  // Every weight of chunk c of a version is 100 version + c.
  static float WeightOf(uint64_t version, int64_t chunk) {
    return static_cast<float>(100 * version) + static_cast<float>(chunk);
  }
  void GiveChunk(uint64_t version, int64_t chunk) {
    const auto n = static_cast<size_t>(map_.ChunkRange(chunk).size());
    const std::vector<float> values(n, WeightOf(version, chunk));
    std::string bytes(n * static_cast<size_t>(SizeOf(wire_)), '\0');
    MakeCpuDevice()->Encode(values.data(), static_cast<int64_t>(n), wire_, 1,
                            bytes.data());
    Say(map_.OwnerOf(chunk), 1,
        WeightsMessage{version, static_cast<uint64_t>(chunk), wire_,
                       (version + 2) * 100,
                       Payload::FromString(std::move(bytes))});
  }
  void GiveVersion(uint64_t version) {
    for (int64_t chunk = 0; chunk < map_.chunks(); ++chunk) {
      GiveChunk(version, chunk);
    }
  }
  // The same on a float32 wire with all chunks side by side in memory, which is
  // filled with kSpoilt when the client has let go of them all.
  static constexpr float kSpoilt = -1;
  void GiveVersionInOnePiece(uint64_t version) {
    auto values = std::make_shared<std::vector<float>>();
    for (int64_t chunk = 0; chunk < map_.chunks(); ++chunk)
      values->resize(map_.ChunkRange(chunk).end, WeightOf(version, chunk));
    pieces_.push_back(values);
    const std::shared_ptr<const float> owner(
        values->data(), [values](const float*) {
          std::fill(values->begin(), values->end(), kSpoilt);
        });
    for (int64_t chunk = 0; chunk < map_.chunks(); ++chunk) {
      const Range range = map_.ChunkRange(chunk);
      const Payload data(owner, values->data() + range.begin,
                         static_cast<size_t>(range.size()) * sizeof(float));
      Say(map_.OwnerOf(chunk), 1,
          WeightsMessage{version, static_cast<uint64_t>(chunk), wire_,
                         (version + 2) * 100, data});
    }
  }
  void GiveLease(uint64_t from, uint64_t until, std::vector<Mark> marks = {}) {
    Lease lease{kTerm, from, until, {{1, 1}, {3, kToken}}, {}, {}, {}};
    for (uint64_t r = from; r < until; ++r) {
      lease.facts.push_back({r / 10, r * 9, 9, 0.1, 1, 1});
    }
    lease.marks = std::move(marks);
    Say(0, 0, LeaseMessage{std::move(lease)});
  }
  void Bye(Code code, const std::string& words) {
    Say(0, 0, ByeMessage{code, words});
  }
  void BreakTransport() {
    Lock lock(this);
    broken_ = absl::InternalError("no more sockets");
    woken_ = true;
  }

  // Waits for `count` messages of a kind and returns all there are, with the
  // servers that got them.
  template <typename M>
  std::vector<std::pair<int, M>> Wait(size_t count) {
    Lock lock(this);
    Await(kLongWait, [this, count] { return Count<M>() >= count; });
    std::vector<std::pair<int, M>> all;
    for (const auto& [server, message] : heard_) {
      if (auto* m = std::get_if<M>(&message.body)) all.push_back({server, *m});
    }
    EXPECT_GE(all.size(), count);
    return all;
  }
  void WaitForAHello() {
    Lock lock(this);
    EXPECT_TRUE(Await(kLongWait, [this] { return !unanswered_.empty(); }));
  }
  // The hellos so far, and all that follow.
  void AnswerNow() {
    Lock lock(this);
    answer = true;
    for (const auto& [id, hello] : std::exchange(unanswered_, {}))
      OnHello(id, hello);
  }
  // Waits until every link has been opened.
  void WaitForLinks() {
    Lock lock(this);
    EXPECT_TRUE(Await(kLongWait, [this] {
      return links_.size() == 2 * static_cast<size_t>(map_.servers());
    }));
  }

 private:
  static constexpr absl::Duration kLongWait = absl::Seconds(20);

  // Wakes whoever waits for what may have changed under it.
  class Lock {
   public:
    explicit Lock(FakeServers* servers)
        : servers_(servers), lock_(&servers->mutex_) {}
    ~Lock() { servers_->changed_.SignalAll(); }

   private:
    FakeServers* const servers_;
    MutexLock lock_;
  };
  // With a lock. False: it does not hold after this time.
  template <typename Condition>
  bool Await(absl::Duration time, Condition condition) {
    const absl::Time end = absl::Now() + time;
    while (!condition()) {
      if (!changed_.WaitFor(&mutex_, end - absl::Now())) return condition();
    }
    return true;
  }
  template <typename M>
  size_t Count() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    size_t count = 0;
    for (const auto& [server, message] : heard_) {
      count += std::holds_alternative<M>(message.body) ? 1 : 0;
    }
    return count;
  }
  net::ConnectionId IdOf(int server, uint16_t link) {
    return links_[{server, link}];
  }
  void Answer(net::ConnectionId id, Body body) {
    Payload payload;
    const absl::string_view header =
        encoder_.Encode({kTerm, kToken, std::move(body)}, &payload);
    events_.push_back(
        {net::Event::Kind::kMessage, id, std::string(header), payload, ""});
  }
  void OnHello(net::ConnectionId id, const HelloMessage& hello) {
    if (!answer) return unanswered_.push_back({id, hello});
    if (!refuse.empty()) {
      return Answer(id, RefuseMessage{Code::kJobDiffers, refuse});
    }
    const int server = servers_[id];
    links_[{server, hello.link}] = id;
    Answer(id, WelcomeMessage{0, snapshot});
    if (hello.link == 0) return;
    const auto chunks = static_cast<size_t>(map_.ChunksOf(server));
    Answer(id, NeedGradientsMessage{0, 100, std::vector<bool>(chunks, true)});
  }

  const ShardMap map_;
  const DType wire_;
  std::vector<std::shared_ptr<std::vector<float>>> pieces_;
  Mutex mutex_;
  CondVar changed_;
  Encoder encoder_;
  bool woken_ = false;
  absl::Status broken_;
  net::ConnectionId last_id_ = 0;
  std::map<net::ConnectionId, int> servers_;
  std::map<std::pair<int, uint16_t>, net::ConnectionId> links_;
  std::vector<net::Event> events_;
  std::vector<std::pair<int, Message>> heard_;
  std::vector<std::pair<net::ConnectionId, HelloMessage>> unanswered_;
};

class FakeTransport final : public net::Transport {
 public:
  explicit FakeTransport(FakeServers* servers) : servers_(servers) {}
  absl::StatusOr<std::string> Listen(const std::string&) override {
    return absl::UnimplementedError("a client");
  }
  absl::StatusOr<net::ConnectionId> Connect(const std::string& to) override {
    return servers_->Connect(to);
  }
  absl::Status Send(net::ConnectionId to, absl::string_view header,
                    Payload payload) override {
    servers_->Take(to, header, payload);
    return absl::OkStatus();
  }
  void Close(net::ConnectionId) override {}
  absl::Status Poll(absl::Duration timeout,
                    std::vector<net::Event>* events) override {
    return servers_->Poll(timeout, events);
  }
  void Wake() override { servers_->Wake(); }

 private:
  FakeServers* const servers_;
};

// A client of worker 3 (the second of two members) with two servers, and five
// chunks of eight elements, the last of them short.
class ClientTesting : public testing::Test {
 protected:
  static constexpr int64_t kElements = 36;

  // Makes the client; the fake servers may be told things before.
  FakeServers& Servers(DType wire = DType::kFloat32) {
    if (servers_ == nullptr) {
      wire_ = wire;
      servers_ = std::make_unique<FakeServers>(map_, wire);
    }
    return *servers_;
  }
  Client& MakeClient(Role role = Role::kWorker, bool own_data = false) {
    Servers();
    ClientConfig config;
    config.session.self = {role, 3};
    config.session.wire = wire_;
    config.session.wire_scale = wire_ == DType::kFloat16 ? 2 : 1;
    config.session.samples = 20;
    config.servers = {"sim://0", "sim://1"};
    config.batch = 4;
    config.own_data = own_data;
    client_ = std::make_unique<Client>(
        config, map_, std::make_unique<FakeTransport>(servers_.get()),
        device_.get(), &clock_, logger_.get(), nullptr);
    return *client_;
  }
  // A client that has joined and has its links.
  Client& Joined(Role role = Role::kWorker, bool own_data = false) {
    Client& client = MakeClient(role, own_data);
    EXPECT_TRUE(client.Join().ok());
    Servers().WaitForLinks();
    return client;
  }
  static Client::Next NextOf(Client& client) {
    absl::StatusOr<Client::Next> next = client.WaitNext();
    EXPECT_TRUE(next.ok()) << next.status();
    return next.ok() ? *next : Client::Next();
  }

  const ShardMap map_ = *ShardMap::Create(kElements, 2, 8, 8);
  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  SteadyClock clock_;
  const std::shared_ptr<Logger> logger_ = MakeNullLogger();
  DType wire_ = DType::kFloat32;
  std::unique_ptr<FakeServers> servers_;
  std::unique_ptr<Client> client_;  // ends before its servers
};

}  // namespace parapet

#endif  // PARAPET_TESTS_WORKER_CLIENT_FIXTURE_H_
