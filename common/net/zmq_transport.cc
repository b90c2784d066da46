#include "common/net/zmq_transport.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/net/ready_set.h"
#include "common/net/zmq_address.h"
#include "common/net/zmq_connection.h"
#include "common/net/zmq_dealer.h"
#include "common/net/zmq_router.h"
#include "common/net/zmq_util.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

constexpr size_t kEventsPerPoll = 256;
// Of one socket, before the next one has its turn.
constexpr size_t kEventsPerTurn = 32;
// Sockets known to have messages are read without asking the system; every so
// many Polls it is asked all the same, or one busy socket would hide the
// others.
constexpr int kPollsPerScan = 8;
// libzmq wakes us when a full connection takes messages again; this is in case
// a Send or a Receive on another connection of the same socket has swallowed
// that.
constexpr absl::Duration kRetry = absl::Milliseconds(5);
// A lost accepted connection is reported when all that came from it is read, or
// at this age.
constexpr absl::Duration kReadRest = absl::Seconds(1);

// Keys of the ready set: a dealer's data socket is 2 id, its monitor 2 id + 1;
// ids begin at 1.
constexpr uint64_t kRouterKey = 1;
constexpr uint64_t DataKey(ConnectionId id) { return 2 * id; }
constexpr uint64_t MonitorKey(ConnectionId id) { return 2 * id + 1; }

class ZmqTransport final : public Transport {
 public:
  explicit ZmqTransport(const ZmqOptions& options);
  ~ZmqTransport() override;

  absl::StatusOr<std::string> Listen(const std::string& address) override;
  absl::StatusOr<ConnectionId> Connect(const std::string& address) override;
  absl::Status Send(ConnectionId to, absl::string_view header,
                    Payload payload) override;
  void Close(ConnectionId connection) override;
  absl::Status Poll(absl::Duration timeout,
                    std::vector<Event>* events) override;
  void Wake() override { ready_.Wake(); }

 private:
  absl::Status Init();
  uint64_t KeyOf(const ZmqConnection& c) const {
    return c.dealer ? DataKey(c.id) : kRouterKey;
  }
  ZmqConnection* Find(ConnectionId id);

  absl::StatusOr<ConnectionId> OpenDealer(const std::string& endpoint);
  absl::Status CheckSize(size_t header, size_t payload) const;
  int TrySend(ZmqConnection* c, absl::string_view header,
              const Payload& payload);
  bool FlushQueue(ZmqConnection* c);
  bool FlushQueues();

  absl::Status Scan(absl::Duration wait);
  void OnMonitor(ConnectionId id);
  void ReadReady(size_t limit, std::vector<Event>* events);
  bool ReadDealer(ConnectionId id, size_t limit, std::vector<Event>* events);
  bool ReadRouter(size_t limit, std::vector<Event>* events);
  ZmqConnection* Accept(RoutingId from, const ZmqIncoming& message);
  void DropViolator(ZmqConnection* c, const std::string& why,
                    std::vector<Event>* events);
  void ReportUp(ZmqConnection* c, std::vector<Event>* events);
  void ReportGone(bool all, std::vector<Event>* events);
  void Tick(absl::Time now);
  absl::Time NextDeadline(absl::Time now) const;
  void Remove(ZmqConnection* c, absl::Duration linger);

  ZmqOptions options_;
  SteadyClock clock_;
  absl::Status status_;
  ZmqContext context_;
  ReadySet ready_;
  ZmqRouter router_;
  bool listening_ = false;
  IpcFile ipc_file_;
  ConnectionId next_id_ = 1;
  absl::flat_hash_map<ConnectionId, std::unique_ptr<ZmqConnection>>
      connections_;
  absl::flat_hash_map<RoutingId, ZmqConnection*> accepted_;
  absl::btree_set<ConnectionId> waiting_;    // with a queue of ours
  absl::btree_set<ConnectionId> unsettled_;  // dealers with a deadline, or lost
  absl::btree_set<ConnectionId> gone_;       // accepted, lost, not reported yet
  std::vector<Event> pending_;
  int polls_ = 0;
};

ZmqTransport::ZmqTransport(const ZmqOptions& options)
    : options_(options), context_(options.io_threads) {
  status_ = Init();
}

absl::Status ZmqTransport::Init() {
  if (!context_.ok()) return absl::ResourceExhaustedError("no zmq context");
  return ready_.Open();
}

ZmqTransport::~ZmqTransport() {
  for (auto& [id, c] : connections_) {
    if (c->dealer)
      c->dealer->Shut(c->up ? options_.linger : absl::ZeroDuration());
  }
  router_.Shut(options_.linger);
  ipc_file_.Remove();
}

ZmqConnection* ZmqTransport::Find(ConnectionId id) {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.get();
}

absl::StatusOr<std::string> ZmqTransport::Listen(const std::string& address) {
  if (!status_.ok()) return status_;
  if (listening_)
    return absl::FailedPreconditionError("this transport listens already");
  PARAPET_ASSIGN_OR_RETURN(const ZmqAddress parsed, ParseZmqAddress(address));
  PARAPET_ASSIGN_OR_RETURN(const std::string endpoint, ListenEndpoint(parsed));
  PARAPET_RETURN_IF_ERROR(router_.Open(context_, options_, endpoint));
  PARAPET_RETURN_IF_ERROR(router_.Bind(endpoint));
  PARAPET_RETURN_IF_ERROR(ready_.Watch(router_.fd(), kRouterKey));
  listening_ = true;
  if (parsed.ipc) ipc_file_ = IpcFile(parsed.path);
  ready_.Mark(kRouterKey);
  return PublicAddress(parsed, router_.LastEndpoint());
}

absl::StatusOr<ConnectionId> ZmqTransport::Connect(const std::string& address) {
  if (!status_.ok()) return status_;
  PARAPET_ASSIGN_OR_RETURN(const ZmqAddress parsed, ParseZmqAddress(address));
  const absl::StatusOr<std::string> endpoint = ConnectEndpoint(parsed);
  if (endpoint.ok()) return OpenDealer(*endpoint);
  if (!absl::IsNotFound(endpoint.status())) return endpoint.status();
  // The name may be known later, as when the peer's machine starts: a
  // connection that failed.
  const ConnectionId id = next_id_++;
  AppendDown(id, std::string(endpoint.status().message()), &pending_);
  return id;
}

absl::StatusOr<ConnectionId> ZmqTransport::OpenDealer(
    const std::string& endpoint) {
  const ConnectionId id = next_id_++;
  auto c = std::make_unique<ZmqConnection>();
  c->id = id;
  PARAPET_ASSIGN_OR_RETURN(c->dealer, ZmqDealer::Open(context_, options_, id,
                                                      endpoint, clock_.Now()));
  PARAPET_RETURN_IF_ERROR(ready_.Watch(c->dealer->data_fd(), DataKey(id)));
  PARAPET_RETURN_IF_ERROR(
      ready_.Watch(c->dealer->monitor_fd(), MonitorKey(id)));
  connections_.emplace(id, std::move(c));
  unsettled_.insert(id);
  // The descriptors tell of changes from now on only.
  ready_.Mark(DataKey(id));
  OnMonitor(id);
  return id;
}

absl::Status ZmqTransport::CheckSize(size_t header, size_t payload) const {
  if (header <= options_.limits.max_header &&
      payload <= options_.limits.max_payload) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a message of ", header, " + ", payload, " bytes is over the limits, ",
      options_.limits.max_header, " + ", options_.limits.max_payload));
}

absl::Status ZmqTransport::Send(ConnectionId to, absl::string_view header,
                                Payload payload) {
  ZmqConnection* c = Find(to);
  if (c == nullptr || IsLost(*c)) {
    return absl::NotFoundError(absl::StrCat("connection ", to, " is down"));
  }
  PARAPET_RETURN_IF_ERROR(CheckSize(header.size(), payload.size()));
  // Sending may swallow the sign that there is something to read.
  ready_.Mark(KeyOf(*c));
  if (c->queue.empty()) {
    const int error = TrySend(c, header, payload);
    if (error == 0) return absl::OkStatus();
    if (error != EAGAIN)
      return absl::NotFoundError(absl::StrCat("connection ", to, " is lost"));
  }
  if (c->queue.size() >= options_.limits.max_queued_messages) {
    return absl::ResourceExhaustedError(
        absl::StrCat(c->queue.size(), " messages wait for connection ", to));
  }
  c->queue.push_back({std::string(header), std::move(payload)});
  waiting_.insert(to);
  return absl::OkStatus();
}

// 0 or errno; EAGAIN: it takes nothing now, otherwise it is lost (and will be
// reported).
int ZmqTransport::TrySend(ZmqConnection* c, absl::string_view header,
                          const Payload& payload) {
  const int error = c->dealer ? c->dealer->Send(header, payload)
                              : router_.Send(c->routing, header, payload);
  if (error == EAGAIN) return error;
  ready_.Mark(KeyOf(*c));
  if (error == 0) return error;
  if (c->dealer) {
    c->dealer->Fail(zmq_strerror(error));
  } else if (!c->gone()) {
    c->lost = clock_.Now();
    gone_.insert(c->id);
  }
  return error;
}

// True: something was sent.
bool ZmqTransport::FlushQueue(ZmqConnection* c) {
  const size_t before = c->queue.size();
  while (!c->queue.empty()) {
    const int error =
        TrySend(c, c->queue.front().header, c->queue.front().payload);
    if (error == EAGAIN) break;
    c->queue.pop_front();
    if (error != 0) c->queue.clear();
  }
  return c->queue.size() < before;
}

bool ZmqTransport::FlushQueues() {
  bool sent = false;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    ZmqConnection* c = connections_.at(*it).get();
    sent = FlushQueue(c) || sent;
    it = c->queue.empty() ? waiting_.erase(it) : std::next(it);
  }
  return sent;
}

void ZmqTransport::Close(ConnectionId connection) {
  ZmqConnection* c = Find(connection);
  if (c == nullptr) {
    std::erase_if(pending_,
                  [&](const Event& e) { return e.connection == connection; });
    return;
  }
  FlushQueue(c);
  if (!c->dealer)
    router_.Ban(c->routing, c->socket, clock_.Now() + options_.linger);
  Remove(c, options_.linger);
}

void ZmqTransport::Remove(ZmqConnection* c, absl::Duration linger) {
  if (c->dealer) {
    ready_.Unwatch(c->dealer->data_fd());
    ready_.Unwatch(c->dealer->monitor_fd());
    c->dealer->Shut(linger);
  } else {
    accepted_.erase(c->routing);
  }
  waiting_.erase(c->id);
  unsettled_.erase(c->id);
  gone_.erase(c->id);
  connections_.erase(c->id);
}

absl::Status ZmqTransport::Poll(absl::Duration timeout,
                                std::vector<Event>* events) {
  if (!status_.ok()) return status_;
  const size_t before = events->size();
  events->insert(events->end(), pending_.begin(), pending_.end());
  pending_.clear();
  const absl::Time end = clock_.Now() + timeout;
  if (++polls_ % kPollsPerScan == 0) status_ = Scan(absl::ZeroDuration());
  while (status_.ok()) {
    Tick(clock_.Now());
    for (const ConnectionId id : waiting_)
      ready_.Mark(KeyOf(*connections_.at(id)));
    FlushQueues();
    ReadReady(before + kEventsPerPoll, events);
    // Reading also takes libzmq's notes that there is room again.
    const bool sent = FlushQueues();
    ReportGone(false, events);
    if (events->size() > before || ready_.TakeWake()) break;
    if (sent) continue;
    const absl::Time now = clock_.Now();
    if (now >= end) break;
    status_ = Scan(std::min(end, NextDeadline(now)) - now);
  }
  return status_;
}

absl::Time ZmqTransport::NextDeadline(absl::Time now) const {
  if (!ready_.empty()) return now;
  absl::Time next = router_.deadline();
  for (const ConnectionId id : unsettled_) {
    next = std::min(next, connections_.at(id)->dealer->deadline());
  }
  return waiting_.empty() && gone_.empty() ? next
                                           : std::min(next, now + kRetry);
}

absl::Status ZmqTransport::Scan(absl::Duration wait) {
  std::vector<uint64_t> found;
  const absl::Status status = ready_.Scan(wait, &found);
  for (const uint64_t key : found) {
    if (key == kRouterKey || key % 2 == 0) {
      ready_.Mark(key);
    } else {
      OnMonitor(key / 2);
    }
  }
  return status;
}

void ZmqTransport::OnMonitor(ConnectionId id) {
  ZmqConnection* c = Find(id);
  if (c == nullptr) return;
  c->dealer->ReadMonitor(clock_.Now());
  unsettled_.insert(id);
  ready_.Mark(DataKey(id));
}

void ZmqTransport::Tick(absl::Time now) {
  router_.Tick(now);
  for (const ConnectionId id : unsettled_) {
    ZmqDealer* dealer = connections_.at(id)->dealer.get();
    dealer->Tick(now);
    if (dealer->state() == ZmqDealer::State::kLost) ready_.Mark(DataKey(id));
  }
}

void ZmqTransport::ReadReady(size_t limit, std::vector<Event>* events) {
  while (!ready_.empty() && events->size() < limit) {
    const uint64_t key = ready_.Take();
    const size_t turn = std::min(limit, events->size() + kEventsPerTurn);
    const bool more = key == kRouterKey ? ReadRouter(turn, events)
                                        : ReadDealer(key / 2, turn, events);
    if (more) ready_.Mark(key);
  }
}

void ZmqTransport::ReportUp(ZmqConnection* c, std::vector<Event>* events) {
  if (c->up) return;
  c->up = true;
  AppendState(Event::Kind::kUp, c->id, "", events);
}

// True: there may be more. What the state says was known before the last try to
// receive, so that nothing can come after kLost.
bool ZmqTransport::ReadDealer(ConnectionId id, size_t limit,
                              std::vector<Event>* events) {
  ZmqConnection* c = Find(id);
  if (c == nullptr) return false;
  while (events->size() < limit) {
    const ZmqDealer::State state = c->dealer->state();
    if (state == ZmqDealer::State::kUp) {
      ReportUp(c, events);
      unsettled_.erase(id);
    }
    ZmqIncoming message;
    if (c->dealer->Receive(&message)) {
      ReportUp(c, events);
      if (message.violation.empty()) {
        AppendMessage(id, std::move(message), events);
        continue;
      }
      c->dealer->Fail(absl::StrCat("the peer sent ", message.violation));
    } else if (state != ZmqDealer::State::kLost) {
      return false;
    }
    AppendDown(id, c->dealer->reason(), events);
    Remove(c, absl::ZeroDuration());
    return false;
  }
  return true;
}

bool ZmqTransport::ReadRouter(size_t limit, std::vector<Event>* events) {
  while (events->size() < limit) {
    RoutingId from = 0;
    ZmqIncoming message;
    bool banned = false;
    if (!router_.Receive(&from, &message, &banned)) {
      ReportGone(true, events);
      return false;
    }
    if (banned) continue;
    ZmqConnection* c = Accept(from, message);
    if (c == nullptr) continue;
    if (message.violation.empty()) {
      AppendMessage(c->id, std::move(message), events);
    } else {
      DropViolator(c, absl::StrCat("the peer sent ", message.violation),
                   events);
    }
  }
  return true;
}

// The connection of a message; null: it is not to be.
ZmqConnection* ZmqTransport::Accept(RoutingId from,
                                    const ZmqIncoming& message) {
  const auto known = accepted_.find(from);
  if (known != accepted_.end()) return known->second;
  const PeerSocket socket = ZmqRouter::Identify(message);
  if (!message.violation.empty() ||
      accepted_.size() >= options_.limits.max_connections) {
    router_.Ban(from, socket, clock_.Now());
    return nullptr;
  }
  auto c = std::make_unique<ZmqConnection>();
  c->id = next_id_++;
  c->routing = from;
  c->socket = socket;
  ZmqConnection* raw = c.get();
  connections_.emplace(c->id, std::move(c));
  accepted_.emplace(from, raw);
  return raw;
}

void ZmqTransport::DropViolator(ZmqConnection* c, const std::string& why,
                                std::vector<Event>* events) {
  router_.Ban(c->routing, c->socket, clock_.Now());
  AppendDown(c->id, why, events);
  Remove(c, absl::ZeroDuration());
}

// `all`: everything that has come is read. Otherwise only those that have
// waited for that too long.
void ZmqTransport::ReportGone(bool all, std::vector<Event>* events) {
  if (gone_.empty()) return;
  const absl::Time now = clock_.Now();
  const std::vector<ConnectionId> gone(gone_.begin(), gone_.end());
  for (const ConnectionId id : gone) {
    ZmqConnection* c = Find(id);
    if (!all && now < c->lost + kReadRest) continue;
    router_.Forget(c->routing);
    AppendDown(id, "the peer is gone", events);
    Remove(c, absl::ZeroDuration());
  }
}

}  // namespace

std::unique_ptr<Transport> MakeZmqTransport(const ZmqOptions& options) {
  return std::make_unique<ZmqTransport>(options);
}

}  // namespace parapet::net
