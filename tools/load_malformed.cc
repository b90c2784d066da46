#include "tools/load_malformed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "common/net/shm_transport.h"
#include "common/net/zmq_transport.h"

namespace parapet {
namespace {

constexpr uint64_t kMalformed = 0x6d616c666f726d;
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(20);
constexpr size_t kMostOpen = 256;  // connections

std::string Noise(Random* random, uint64_t most) {
  std::string bytes(random->Below(most + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(random->Below(256));
  return bytes;
}

void Spoil(Random* random, std::string* bytes) {
  if (bytes->empty()) *bytes = Noise(random, 16);
  if (bytes->empty()) return;
  const size_t at = random->Below(bytes->size());
  switch (random->Below(5)) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random->Below(8)));
      return;
    case 1:
      (*bytes)[at] = static_cast<char>(random->Below(256));
      return;
    case 2:
      bytes->resize(at);
      return;
    case 3:
      bytes->insert(at, Noise(random, 16));
      return;
    default:
      bytes->erase(at, random->Below(16));
  }
}

// A stranger may say hello only: this one with a layout that no job has.
Body AnyBody(Random* random) {
  switch (random->Below(6)) {
    case 0:
      return HelloMessage{kProtocolVersion,
                          {Role::kWorker, 0},
                          static_cast<uint16_t>(random->Below(3)),
                          random->Next64(),
                          random->Next64(),
                          1,
                          "malformed",
                          "job_id=none"};
    case 1:
      return PushMessage{random->Below(100),
                         random->Below(100),
                         1,
                         DType::kFloat32,
                         1,
                         Payload::FromString(Noise(random, 256))};
    case 2:
      return WeightsMessage{random->Below(100), random->Below(100),
                            DType::kFloat32, 0,
                            Payload::FromString(Noise(random, 256))};
    case 3:
      return NeedGradientsMessage{random->Below(100), 0, {true, false}};
    case 4:
      return PingMessage{};
    default:
      return ByeMessage{Code::kOk, "go home"};
  }
}

// One that lets through what is too long for the other end.
std::unique_ptr<net::Transport> MakeMalformedTransport(
    const std::string& server) {
  net::Limits limits;
  limits.max_header = 8192;
  if (absl::StartsWith(server, "shm://")) {
    net::ShmOptions options;
    options.limits = limits;
    return net::MakeShmTransport(options);
  }
  net::ZmqOptions options;
  options.limits = limits;
  return net::MakeZmqTransport(options);
}

}  // namespace

LoadFrames MakeMalformed(Random* random) {
  Encoder encoder;
  Payload payload;
  LoadFrames frames;
  frames.header =
      std::string(encoder.Encode({0, 0, AnyBody(random)}, &payload));
  frames.payload = payload.ToString();
  // 1 in 5 is whole, and merely not welcome.
  const uint64_t times = random->Below(5);
  for (uint64_t i = 0; i < times; ++i) Spoil(random, &frames.header);
  // Noise, and now and then more of it than a header may have.
  if (random->Below(20) == 0)
    frames.header = Noise(random, random->Below(4) == 0 ? 5000 : 200);
  if (random->Below(20) == 0) std::swap(frames.header, frames.payload);
  // The own transport would not send it.
  frames.header.resize(std::clamp<size_t>(frames.header.size(), 1, 6000));
  return frames;
}

LoadMalformed::LoadMalformed(const LoadPlan& plan, double rate)
    : servers_(plan.servers),
      limits_(LimitsFor(plan.map)),
      every_(absl::Seconds(1 / rate)),
      random_(MixKey(plan.flags.common.job.seed, kMalformed)),
      thread_([this] { Loop(); }) {}

LoadMalformed::~LoadMalformed() {
  quit_ = true;
  thread_.join();
}

LoadMalformedStats LoadMalformed::Stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

void LoadMalformed::Loop() {
  transport_ = MakeMalformedTransport(servers_.front());
  std::vector<net::Event> events;
  absl::Time next = clock_.Now();
  while (!quit_) {
    events.clear();
    const absl::Duration wait =
        std::clamp(next - clock_.Now(), absl::ZeroDuration(), kLongestPoll);
    if (!transport_->Poll(wait, &events).ok()) return;
    MutexLock lock(&mutex_);
    const absl::Time now = clock_.Now();
    for (net::Event& event : events) Handle(event);
    GiveUp(now);
    for (; next <= now; next += every_) StartOne(now);
  }
}

void LoadMalformed::StartOne(absl::Time now) {
  if (open_.size() >= kMostOpen) return;
  const std::string& server = servers_[random_.Below(servers_.size())];
  absl::StatusOr<net::ConnectionId> id = transport_->Connect(server);
  if (id.ok()) open_[*id] = {now, false};
}

void LoadMalformed::Handle(net::Event& event) {
  const auto open = open_.find(event.connection);
  if (open == open_.end()) return;
  if (event.kind == net::Event::Kind::kUp) {
    LoadFrames frames = MakeMalformed(&random_);
    open->second.sent =
        transport_
            ->Send(event.connection, frames.header,
                   frames.payload.empty()
                       ? Payload()
                       : Payload::FromString(std::move(frames.payload)))
            .ok();
    stats_.sent += open->second.sent ? 1 : 0;
    if (!open->second.sent) Forget(event.connection);
  } else if (event.kind == net::Event::Kind::kDown) {
    stats_.cut_off += open->second.sent ? 1 : 0;
    open_.erase(open);
  } else {
    const absl::StatusOr<Message> answer =
        Decode(event.header, event.payload, limits_);
    const auto* refuse =
        answer.ok() ? std::get_if<RefuseMessage>(&answer->body) : nullptr;
    if (refuse == nullptr) return;
    ++stats_.refused[refuse->code];
    Forget(event.connection);
  }
}

void LoadMalformed::GiveUp(absl::Time now) {
  std::vector<net::ConnectionId> old;
  for (const auto& [id, open] : open_) {
    if (now >= open.since + kPatience) old.push_back(id);
  }
  for (const net::ConnectionId id : old) {
    stats_.unanswered += open_[id].sent ? 1 : 0;
    Forget(id);
  }
}

void LoadMalformed::Forget(net::ConnectionId connection) {
  open_.erase(connection);
  transport_->Close(connection);
}

}  // namespace parapet
