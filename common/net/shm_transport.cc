#include "common/net/shm_transport.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/ready_set.h"
#include "common/net/shm_arena.h"
#include "common/net/shm_borrowed.h"
#include "common/net/shm_ended.h"
#include "common/net/shm_link.h"
#include "common/net/shm_listener.h"
#include "common/status_macros.h"

namespace parapet::net {
namespace {

constexpr size_t kMostEvents = 256;  // of one Poll
constexpr int kTurn = 16;            // messages of a connection in its turn
constexpr uint64_t kListener = 0, kBell = 1, kFirstId = 2;  // keys
// While a handshake is under way, which no descriptor tells of.
constexpr absl::Duration kHandshakeTick = absl::Milliseconds(5);

class ShmTransport : public Transport {
 public:
  explicit ShmTransport(const ShmOptions& options) : options_(options) {
    ready_status_ = Open();
  }
  ~ShmTransport() override;

  absl::StatusOr<std::string> Listen(const std::string& address) override;
  absl::StatusOr<ConnectionId> Connect(const std::string& address) override;
  absl::Status Send(ConnectionId to, absl::string_view header,
                    Payload payload) override;
  void Close(ConnectionId connection) override { End(connection); }
  absl::Status Poll(absl::Duration timeout,
                    std::vector<Event>* events) override;
  void Wake() override { ready_.Wake(); }
  std::shared_ptr<std::byte> Allocate(size_t bytes) override {
    return arena_->Allocate(bytes);
  }

 private:
  struct Waiting {
    std::string header;
    Payload payload;
    ShmWriter::Progress progress;
    bool asked = false;  // whether it can be lent
    std::optional<ShmWriter::Loan> loan;
  };
  struct Connection {
    Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    // The other side hears of it also where a forked process has the socket.
    ~Connection() {
      if (socket.valid()) shutdown(socket.get(), SHUT_RDWR);
    }

    UniqueFd socket;
    sockaddr_un to{};        // of one that we asked for
    bool connected = false;  // the socket is
    bool accepted = false;   // by us
    bool heard = false;      // the owner knows of it
    bool gone = false;       // the other side is; what it wrote is still there
    std::string reason = "the other side ended";
    absl::Time deadline;  // of the handshake
    std::optional<ShmLink> link;
    std::deque<Waiting> waiting;
    absl::flat_hash_set<uint32_t> told;  // slabs of ours that it knows
    ShmBorrowed borrowed;
  };
  using Links = std::map<ConnectionId, Connection>;

  absl::Status Open();
  void Accept();
  // Whatever a descriptor's turn asks for. Null events: nothing to tell.
  void OnReady(uint64_t key, std::vector<Event>* events);
  // False: the connection is over, and was taken out.
  bool Advance(ConnectionId id, Connection* connection,
               std::vector<Event>* events);
  absl::Status Greet(Connection* connection);
  absl::Status Shake(Connection* connection, bool* up);
  void OnSocket(ConnectionId id, std::vector<Event>* events);
  void AdvanceHandshakes(std::vector<Event>* events);
  std::optional<ShmWriter::Loan> LoanOf(Connection* connection,
                                        const Payload& payload);
  absl::Status Flush(Connection* connection);
  void FlushAll(std::vector<Event>* events);
  void ReadTurn(ConnectionId id, std::vector<Event>* events);
  void ReadAll(std::vector<Event>* events);
  bool HasWork() const;
  bool Shaking() const { return shaking_ > 0; }
  void Down(ConnectionId id, absl::string_view reason,
            std::vector<Event>* events);
  void CountShaking();
  void End(ConnectionId id);

  const ShmOptions options_;
  absl::Status ready_status_;
  ReadySet ready_;
  std::shared_ptr<ShmBell> bell_;
  const std::shared_ptr<ShmArena> arena_ = ShmArena::Make();
  std::unique_ptr<ShmListener> listener_;
  ConnectionId next_ = kFirstId;
  ConnectionId turn_ = kFirstId;  // who is read first
  size_t shaking_ = 0;            // connections without a link
  int polls_ = 0;
  Links links_;
  ShmEnded ended_{options_.keep_lent};
};

absl::Status ShmTransport::Open() {
  PARAPET_RETURN_IF_ERROR(ready_.Open());
  PARAPET_ASSIGN_OR_RETURN(bell_, ShmBell::Make());
  return ready_.Watch(bell_->fd(), kBell);
}

ShmTransport::~ShmTransport() {
  const absl::Time end = absl::Now() + options_.linger;
  const auto waits = [&] {
    return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
      return link.second.link && !link.second.gone &&
             !link.second.waiting.empty();
    });
  };
  std::vector<Event> ignored;
  while (ready_status_.ok() && waits() && absl::Now() < end) {
    FlushAll(&ignored);
    std::vector<uint64_t> found;
    if (!ready_.Scan(absl::Milliseconds(1), &found).ok()) break;
    for (uint64_t key : found) OnReady(key, &ignored);
  }
}

// ---- Connections ------------------------------------------------------------

absl::StatusOr<std::string> ShmTransport::Listen(const std::string& address) {
  PARAPET_RETURN_IF_ERROR(ready_status_);
  if (listener_ != nullptr)
    return absl::FailedPreconditionError("this transport listens already");
  PARAPET_ASSIGN_OR_RETURN(std::unique_ptr<ShmListener> listener,
                           ShmListener::Open(address));
  PARAPET_RETURN_IF_ERROR(ready_.Watch(listener->fd(), kListener));
  listener_ = std::move(listener);
  return address;
}

absl::StatusOr<ConnectionId> ShmTransport::Connect(const std::string& address) {
  PARAPET_RETURN_IF_ERROR(ready_status_);
  PARAPET_ASSIGN_OR_RETURN(const sockaddr_un to, ParseShmAddress(address));
  const ConnectionId id = next_++;
  Connection& connection = links_[id];
  connection.to = to;
  connection.heard = true;
  connection.deadline = absl::Now() + options_.connect_timeout;
  connection.socket = OpenShmSocket();
  ++shaking_;
  return id;
}

void ShmTransport::Accept() {
  while (true) {
    UniqueFd socket = listener_->Accept();
    if (!socket.valid()) return;
    const auto accepted =
        std::count_if(links_.begin(), links_.end(),
                      [](const auto& link) { return link.second.accepted; });
    if (static_cast<size_t>(accepted) >= options_.limits.max_connections)
      continue;  // hangs up
    const ConnectionId id = next_++;
    if (!ready_.Watch(socket.get(), id).ok()) continue;
    Connection& connection = links_[id];
    connection.socket = std::move(socket);
    connection.connected = connection.accepted = true;
    connection.deadline = absl::Now() + options_.connect_timeout;
    ++shaking_;
  }
}

// Makes the socket of a connection that we asked for reach the other side.
absl::Status ShmTransport::Greet(Connection* connection) {
  if (!connection->socket.valid())
    return absl::ResourceExhaustedError("no descriptor is left for a socket");
  if (ConnectShmSocket(connection->socket.get(), connection->to) != 0) {
    // Nobody is there yet, or many others wait there as well.
    const bool yet =
        errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN;
    const absl::Status status = absl::ErrnoToStatus(errno, "cannot connect");
    return yet ? absl::UnavailableError(status.message()) : status;
  }
  connection->connected = true;
  // Whoever was first at a path that others can write to.
  PARAPET_RETURN_IF_ERROR(CheckSameUser(connection->socket.get()));
  return SendHello(connection->socket.get(), *bell_);
}

// A step of the handshake. `up`: it is over.
absl::Status ShmTransport::Shake(Connection* connection, bool* up) {
  const int socket = connection->socket.get();
  if (connection->accepted) {
    PARAPET_ASSIGN_OR_RETURN(
        connection->link,
        AnswerHello(socket, *bell_, options_.shape, options_.limits));
  } else {
    PARAPET_ASSIGN_OR_RETURN(connection->link,
                             TakeAnswer(socket, options_.limits));
  }
  *up = true;
  return absl::OkStatus();
}

bool ShmTransport::Advance(ConnectionId id, Connection* connection,
                           std::vector<Event>* events) {
  bool up = false;
  absl::Status status;
  if (!connection->connected) {
    status = Greet(connection);
    if (status.ok()) status = ready_.Watch(connection->socket.get(), id);
  }
  if (status.ok()) status = Shake(connection, &up);
  if (absl::IsUnavailable(status)) {
    if (absl::Now() < connection->deadline) return true;
    status = absl::DeadlineExceededError(
        absl::StrCat("there was no answer in time: ", status.message()));
  }
  if (!status.ok()) {
    Down(id, status.message(), events);
    return false;
  }
  --shaking_;
  // std::map keeps a connection where it is as long as it lives, and its reader
  // goes with it.
  connection->link->reader->SetLender(
      [connection](uint32_t slab, uint64_t offset, uint64_t bytes) {
        return connection->borrowed.Find(connection->socket.get(), slab, offset,
                                         bytes);
      });
  if (connection->accepted) return true;
  Event event;
  event.kind = Event::Kind::kUp;
  event.connection = id;
  events->push_back(std::move(event));
  return true;
}

void ShmTransport::AdvanceHandshakes(std::vector<Event>* events) {
  if (!Shaking()) return;
  for (auto at = links_.begin(); at != links_.end();) {
    const auto here = at++;
    if (!here->second.link) Advance(here->first, &here->second, events);
  }
  CountShaking();
}

void ShmTransport::CountShaking() {
  shaking_ = static_cast<size_t>(
      std::count_if(links_.begin(), links_.end(),
                    [](const auto& link) { return !link.second.link; }));
}

// After the handshake a socket tells of slabs, and that the other side ended.
void ShmTransport::OnSocket(ConnectionId id, std::vector<Event>* events) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Connection& connection = found->second;
  if (!connection.link) {
    Advance(id, &connection, events);
    return;
  }
  const absl::Status status = connection.borrowed.Take(connection.socket.get());
  if (absl::IsUnavailable(status)) return;
  if (!absl::IsAborted(status))
    connection.reason = std::string(status.message());
  connection.gone = true;
  ready_.Unwatch(connection.socket.get());
}

// Where the other side finds a payload, if it lies in memory of ours that it
// can map.
std::optional<ShmWriter::Loan> ShmTransport::LoanOf(Connection* connection,
                                                    const Payload& payload) {
  if (payload.size() <= ShmWriter::kInline) return std::nullopt;
  const std::optional<ShmArena::Place> place =
      arena_->Find(payload.data(), payload.size());
  if (!place) return std::nullopt;
  const ShmArena::Slab& slab = *place->slab;
  if (!connection->told.contains(slab.id)) {
    // If it cannot be told now, this payload is copied.
    if (!SendSlab(connection->socket.get(), slab.id, slab.file.get(),
                  slab.bytes)
             .ok())
      return std::nullopt;
    connection->told.insert(slab.id);
  }
  return ShmWriter::Loan{slab.id, place->offset};
}

void ShmTransport::OnReady(uint64_t key, std::vector<Event>* events) {
  if (key == kBell) {
    bell_->Clear();
  } else if (key == kListener) {
    Accept();
  } else {
    OnSocket(key, events);
  }
}

void ShmTransport::Down(ConnectionId id, absl::string_view reason,
                        std::vector<Event>* events) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  if (found->second.heard) {
    Event event;
    event.kind = Event::Kind::kDown;
    event.connection = id;
    event.reason = std::string(reason);
    events->push_back(std::move(event));
  }
  End(id);
}

void ShmTransport::End(ConnectionId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Connection& connection = found->second;
  const int socket = connection.socket.get();
  // A forked process may have the socket: then it would be watched for ever.
  ready_.Unwatch(socket);
  if (connection.link) {
    ended_.Keep(std::move(connection.link->writer), ProcessOf(socket),
                absl::Now());
  }
  links_.erase(found);
}

// ---- Messages ---------------------------------------------------------------

absl::Status ShmTransport::Send(ConnectionId to, absl::string_view header,
                                Payload payload) {
  PARAPET_RETURN_IF_ERROR(ready_status_);
  const auto found = links_.find(to);
  if (found == links_.end()) return absl::NotFoundError("no such connection");
  Connection& connection = found->second;
  const Limits& limits = options_.limits;
  if (header.size() > limits.max_header || payload.size() > limits.max_payload)
    return absl::InvalidArgumentError("a message is over the limits");
  if (connection.waiting.size() >= limits.max_queued_messages)
    return absl::ResourceExhaustedError("the other side takes nothing");
  connection.waiting.push_back(
      {std::string(header), std::move(payload), {}, false, std::nullopt});
  // What breaks here shows in the next Poll.
  if (connection.link && !connection.gone) (void)Flush(&connection);
  return absl::OkStatus();
}

absl::Status ShmTransport::Flush(Connection* connection) {
  bool any = false;
  absl::Status status;
  while (!connection->waiting.empty()) {
    Waiting& next = connection->waiting.front();
    if (!std::exchange(next.asked, true))
      next.loan = LoanOf(connection, next.payload);
    const absl::StatusOr<bool> done = connection->link->writer->Write(
        next.header, next.payload, &next.progress, next.loan);
    any = true;
    if (!done.ok()) status = done.status();
    if (!done.ok() || !*done) break;
    connection->waiting.pop_front();
  }
  if (any) connection->link->peer->Ring();
  return status;
}

void ShmTransport::FlushAll(std::vector<Event>* events) {
  for (auto at = links_.begin(); at != links_.end();) {
    const auto here = at++;
    Connection& connection = here->second;
    if (!connection.link || connection.gone || connection.waiting.empty())
      continue;
    const absl::Status status = Flush(&connection);
    if (!status.ok()) Down(here->first, status.message(), events);
  }
}

void ShmTransport::ReadTurn(ConnectionId id, std::vector<Event>* events) {
  Connection& connection = links_.at(id);
  for (int i = 0; i < kTurn && events->size() < kMostEvents; ++i) {
    absl::StatusOr<std::optional<ShmReader::Message>> message =
        connection.link->reader->Read();
    if (!message.ok()) return Down(id, message.status().message(), events);
    if (!*message) {
      if (connection.gone) Down(id, connection.reason, events);
      return;
    }
    connection.heard = true;
    Event event;
    event.connection = id;
    event.header = std::move((*message)->header);
    event.payload = std::move((*message)->payload);
    events->push_back(std::move(event));
  }
}

// Connections by turns, beginning behind the one that came last.
void ShmTransport::ReadAll(std::vector<Event>* events) {
  std::vector<ConnectionId> ids;
  for (auto at = links_.lower_bound(turn_); at != links_.end(); ++at)
    ids.push_back(at->first);
  for (auto at = links_.begin(); at != links_.lower_bound(turn_); ++at)
    ids.push_back(at->first);
  for (ConnectionId id : ids) {
    const Connection& connection = links_.at(id);
    if (!connection.link) continue;
    if (!connection.gone && !connection.link->reader->HasMore()) continue;
    ReadTurn(id, events);
    turn_ = id + 1;
    if (events->size() >= kMostEvents) return;
  }
}

bool ShmTransport::HasWork() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& each) {
    const Connection& connection = each.second;
    return connection.link &&
           (connection.gone || connection.link->reader->HasMore());
  });
}

absl::Status ShmTransport::Poll(absl::Duration timeout,
                                std::vector<Event>* events) {
  PARAPET_RETURN_IF_ERROR(ready_status_);
  const absl::Time end = absl::Now() + timeout;
  std::vector<Event> fresh;
  std::vector<uint64_t> found;
  // Descriptors have their turn now and then also while messages come.
  bool look = ++polls_ % 16 == 0;
  while (true) {
    if (look) {
      found.clear();
      PARAPET_RETURN_IF_ERROR(ready_.Scan(absl::ZeroDuration(), &found));
      for (uint64_t key : found) OnReady(key, &fresh);
      ended_.Forget(absl::Now());
    }
    AdvanceHandshakes(&fresh);
    FlushAll(&fresh);
    ReadAll(&fresh);
    if (!fresh.empty() || ready_.TakeWake()) break;
    const absl::Time now = absl::Now();
    if (now >= end && look) break;
    bell_->SetSleeping(true);
    FlushAll(&fresh);
    if (fresh.empty() && !HasWork()) {
      absl::Duration wait = std::max(end - now, absl::ZeroDuration());
      if (Shaking()) wait = std::min(wait, kHandshakeTick);
      found.clear();
      const absl::Status scanned = ready_.Scan(wait, &found);
      bell_->SetSleeping(false);
      PARAPET_RETURN_IF_ERROR(scanned);
      for (uint64_t key : found) OnReady(key, &fresh);
    }
    bell_->SetSleeping(false);
    look = true;
  }
  for (Event& event : fresh) events->push_back(std::move(event));
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Transport> MakeShmTransport(const ShmOptions& options) {
  return std::make_unique<ShmTransport>(options);
}

}  // namespace parapet::net
