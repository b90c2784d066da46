#include "tests/sim/hostile_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parapet::sim {
namespace {

Payload RandomBytes(Random& random, size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next32());
  return Payload::FromString(std::move(bytes));
}

}  // namespace

HostileTransport::HostileTransport(std::unique_ptr<net::Transport> inner,
                                   const Scenario& scenario,
                                   const ShardMap& map, const Ledger* ledger,
                                   uint32_t worker)
    : ForwardingTransport(std::move(inner)),
      map_(map),
      worker_(worker),
      most_samples_(static_cast<uint32_t>(scenario.job.batch)),
      ledger_(ledger),
      random_(MixKey(scenario.seed, 1000 + worker)) {
  limits_.chunk_payload = static_cast<size_t>(map.chunk_elements()) * 4;
}

absl::Status HostileTransport::Send(net::ConnectionId to,
                                    absl::string_view header, Payload payload) {
  // The header lies in the caller's encoder, not in ours.
  const absl::StatusOr<Message> message = Decode(header, payload, limits_);
  const bool push =
      message.ok() && std::holds_alternative<PushMessage>(message->body);
  const bool mischief = push && random_.Below(3) == 0;
  if (mischief) Before(to, *message);
  // Not before it has joined: without it the job would never begin.
  pushed_ = pushed_ || push;
  if (pushed_ && random_.Below(40) == 0) SendGarbage(to, header);
  const absl::Status sent = inner().Send(to, header, std::move(payload));
  if (sent.ok() && mischief) After(to, *message);
  return sent;
}

void HostileTransport::Say(net::ConnectionId to, const Message& message) {
  Payload payload;
  const absl::string_view header = encoder_.Encode(message, &payload);
  // Whether it is sent is all the same.
  inner().Send(to, header, std::move(payload)).IgnoreError();
}

Message HostileTransport::Changed(const Message& message) {
  Message other = message;
  PushMessage& push = std::get<PushMessage>(other.body);
  push.data = RandomBytes(random_, push.data.size());
  return other;
}

void HostileTransport::Before(net::ConnectionId to, const Message& message) {
  Message other = Changed(message);
  PushMessage& push = std::get<PushMessage>(other.body);
  switch (random_.Below(8)) {
    case 0:
      push.data = RandomBytes(random_, 1 + random_.Below(2 * push.data.size()));
      if (push.data.size() == std::get<PushMessage>(message.body).data.size()) {
        return;
      }
      break;
    case 1:  // another server's, or nobody's
      push.chunk = map_.servers() > 1 ? push.chunk + 1
                                      : static_cast<uint64_t>(map_.chunks());
      break;
    case 2:
      push.round += 100;
      break;
    case 3:
      if (push.round == 0) return;
      --push.round;
      break;
    case 4:
      push.samples = most_samples_ + 1;
      break;
    case 5:
      ++other.session;
      break;
    case 6:
      ++other.term;
      break;
    default:
      return SendAhead(to, message);
  }
  Say(to, other);
}

void HostileTransport::After(net::ConnectionId to, const Message& message) {
  switch (random_.Below(4)) {
    case 0:
      return Say(to, message);
    case 1:
      return Say(to, Changed(message));
    case 2:
      return Say(to,
                 {message.term, message.session,
                  AbstainMessage{std::get<PushMessage>(message.body).round}});
    default:
      return SendOthersWords(to, message);
  }
}

// What only servers say, and lies to the lead.
void HostileTransport::SendOthersWords(net::ConnectionId to,
                                       const Message& message) {
  const uint64_t round = std::get<PushMessage>(message.body).round;
  IdSet only;
  only.Insert(worker_);
  ShardDoneMessage done;
  done.round = round;
  done.participants = {worker_};
  Lease lease;
  lease.term = message.term;
  lease.from = lease.until = round + 1;
  lease.marks.push_back({Mark::Kind::kStop, round + 1});
  NeedWeightsMessage need{random_.Next64() >> random_.Below(64), {}};
  need.locals.assign(random_.Below(3), true);
  const std::vector<Body> words = {
      CloseMessage{round, only},
      CompleteMessage{round, only},
      std::move(done),
      ScaleMessage{round, 0},
      LeaseMessage{std::move(lease)},
      ByeMessage{Code::kFailed, "go away"},
      LoadMessage{0, ""},
      LoadedMessage{false, "no"},
      NormMessage{round, ExactSum()},
      EvalReportMessage{round, 0, 1, 1, 0},
      VersionHashMessage{round, 1, 2},
      VersionHashMessage{random_.Next64(), 1, 2},
      SnapshotDoneMessage{round, true, {"../../etc/passwd", 3, 4}, ""},
      RoundDoneMessage{round, -1e300, 7, 1u << 30, {}},
      std::move(need),
  };
  Say(to, {message.term, message.session, words[random_.Below(words.size())]});
}

// All chunks of the round for that server at once, whatever the credit. They
// are the true ones: some may be within the credit by the time they arrive.
void HostileTransport::SendAhead(net::ConnectionId to, const Message& message) {
  PushMessage push = std::get<PushMessage>(message.body);
  const auto known = ledger_->pushed.find({worker_, push.round});
  if (known == ledger_->pushed.end()) return;
  const int server = map_.OwnerOf(static_cast<int64_t>(push.chunk));
  for (int64_t local = 0; local < map_.ChunksOf(server); ++local) {
    const int64_t chunk = map_.ChunkOf(server, local);
    push.chunk = static_cast<uint64_t>(chunk);
    push.data = known->second.chunks[chunk];
    Say(to, {message.term, message.session, push});
  }
}

void HostileTransport::SendGarbage(net::ConnectionId to,
                                   absl::string_view header) {
  const std::string bytes =
      random_.Below(2) == 0
          ? RandomBytes(random_, random_.Below(300)).ToString()
          : std::string(header.substr(0, random_.Below(header.size())));
  inner().Send(to, bytes, RandomBytes(random_, random_.Below(8))).IgnoreError();
}

// ---- A stranger -------------------------------------------------------------

Stranger::Stranger(std::unique_ptr<net::Transport> transport, int servers,
                   uint64_t seed)
    : transport_(std::move(transport)), servers_(servers), random_(seed) {}

void Stranger::Act() {
  std::vector<net::Event> events;
  if (!transport_->Poll(absl::ZeroDuration(), &events).ok()) return;
  for (const net::Event& event : events) {
    if (event.kind == net::Event::Kind::kDown) {
      std::erase(open_, event.connection);
    }
  }
  if (open_.size() < 4) {
    const auto connection = transport_->Connect(
        absl::StrCat("sim://server-", random_.Below(servers_)));
    if (connection.ok()) open_.push_back(*connection);
  }
  for (net::ConnectionId connection : open_) Speak(connection);
}

void Stranger::Speak(net::ConnectionId to) {
  HelloMessage hello;
  hello.protocol = kProtocolVersion + (random_.Below(4) == 0 ? 1 : 0);
  hello.peer = {static_cast<Role>(random_.Below(3)),
                static_cast<uint32_t>(random_.Below(4))};
  hello.link = static_cast<uint16_t>(random_.Below(3));
  hello.nonce = random_.Next64();
  hello.job = "model=none\n";
  const std::vector<Body> words = {
      hello, PingMessage{}, StoppingMessage{"because I say so"},
      PushMessage{0, 0, 1, DType::kFloat32, 1, RandomBytes(random_, 64)},
      ByeMessage{Code::kFailed, ""}};
  Payload payload;
  const absl::string_view header = encoder_.Encode(
      {random_.Below(3), random_.Below(3), words[random_.Below(words.size())]},
      &payload);
  const bool garbage = random_.Below(3) == 0;
  const std::string noise = RandomBytes(random_, random_.Below(200)).ToString();
  transport_
      ->Send(to, garbage ? absl::string_view(noise) : header,
             std::move(payload))
      .IgnoreError();
}

}  // namespace parapet::sim
