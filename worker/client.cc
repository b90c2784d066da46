#include "worker/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

// How long the thread waits at most before it looks around.
constexpr absl::Duration kLongestPoll = absl::Milliseconds(50);
// How long one that is asked to stop waits for the lead's answer to its hello.
constexpr absl::Duration kAnswerTime = absl::Seconds(1);
// Leases that are kept: more than the lead has out at a time.
constexpr size_t kKeptLeases = 32;
// Whole gradients in flight at once: the one being made, and those of rounds
// that went on without us.
constexpr size_t kIdleGradients = 3;

}  // namespace

// Takes what the session brings, on the client's thread, and leaves it for the
// training loop.
class Client::Observer final : public ClientObserver {
 public:
  explicit Observer(Client* client) : client_(client) {}

  void OnAdmitted(uint64_t version, const std::string& snapshot) override {
    MutexLock lock(&client_->mutex_);
    client_->admitted_ = true;
    client_->snapshot_ = snapshot;
    client_->news_.SignalAll();
  }

  void OnLease(const Lease& lease) override {
    MutexLock lock(&client_->mutex_);
    client_->leases_.push_back(lease);
    if (client_->leases_.size() > kKeptLeases)
      client_->leases_.erase(client_->leases_.begin());
    client_->news_.SignalAll();
  }

  void OnVersion(uint64_t version) override {
    MutexLock lock(&client_->mutex_);
    Client& c = *client_;
    c.version_ = version;
    // The loop may still be working with the round it began; everything else is
    // old.
    std::erase_if(c.slots_, [&](const auto& slot) {
      return slot.first != version && slot.first != c.begun_;
    });
    c.slots_[version].chunks.resize(c.map_.chunks());
    c.news_.SignalAll();
  }

  void OnChunk(uint64_t version, int64_t chunk, Payload data) override {
    MutexLock lock(&client_->mutex_);
    VersionSlot& slot = client_->slots_[version];
    slot.chunks[chunk] = std::move(data);
    ++slot.present;
    const bool whole = slot.present == client_->map_.chunks();
    if (whole || slot.present == 1 || chunk == client_->wanted_chunk_)
      client_->news_.SignalAll();
  }

  uint64_t HashOf(uint64_t version) override {
    MutexLock lock(&client_->mutex_);
    const Client& c = *client_;
    uint64_t sum = 0;
    const std::vector<Payload>& chunks = client_->slots_[version].chunks;
    for (int64_t i = 0; i < c.map_.chunks(); ++i) {
      sum += HashLeaves(chunks[i].bytes(), c.map_.ChunkRange(i).begin,
                        SizeOf(c.config_.session.wire), c.map_.leaf_elements());
    }
    return sum;
  }

  void OnFinish(Code code, const std::string& words) override {
    MutexLock lock(&client_->mutex_);
    client_->finish_ = {code, words};
    client_->news_.SignalAll();
  }

 private:
  Client* const client_;
};

namespace {

// Buffers to be sent: in the transport's own memory, if it has some.
std::shared_ptr<BufferPool> PoolOf(net::Transport& transport, size_t bytes,
                                   size_t idle) {
  return BufferPool::CreateFrom(
      [&transport, bytes] {
        std::shared_ptr<std::byte> buffer = transport.Allocate(bytes);
        return buffer != nullptr ? buffer : MakeBuffer(bytes);
      },
      idle);
}

}  // namespace

Client::Client(ClientConfig config, const ShardMap& map,
               std::unique_ptr<net::Transport> transport, const Device* device,
               Clock* clock, Logger* logger, Trace* trace)
    : config_(std::move(config)),
      map_(map),
      transport_(std::move(transport)),
      device_(device),
      clock_(clock),
      logger_(logger),
      trace_(trace),
      gradients_(
          PoolOf(*transport_, map.elements() * sizeof(float), kIdleGradients)),
      wires_(
          PoolOf(*transport_,
                 std::min(map.chunk_elements(), map.elements()) * sizeof(float),
                 2 * map.chunks())),
      copied_(map.chunks()),
      filled_(map.chunks()),
      observer_(std::make_unique<Observer>(this)),
      thread_([this] { Loop(); }) {}

Client::~Client() {
  quit_ = true;
  transport_->Wake();
  thread_.join();
}

// ---- The client's thread
// ------------------------------------------------------------------------

void Client::Loop() {
  ClientCore core(config_.session, map_, config_.servers, transport_.get(),
                  observer_.get(), logger_, clock_->Now());
  std::vector<net::Event> events;
  bool stop_told = false;
  absl::Time stop_at = absl::InfiniteFuture();
  while (!quit_ && !core.finished()) {
    const absl::Time due = std::min(core.NextDeadline(), stop_at);
    const absl::Duration wait =
        std::clamp(due - clock_->Now(), absl::ZeroDuration(), kLongestPoll);
    events.clear();
    const absl::Status polled = transport_->Poll(wait, &events);
    if (!polled.ok())
      return observer_->OnFinish(Code::kFailed, std::string(polled.message()));
    const absl::Time now = clock_->Now();
    for (net::Event& event : events) core.Handle(std::move(event), now);
    std::vector<std::function<void(ClientCore&, absl::Time)>> commands;
    {
      MutexLock lock(&mutex_);
      commands.swap(commands_);
    }
    for (auto& command : commands) command(core, now);
    // After what came: a process that stood still must read before it judges
    // that nothing came.
    core.Tick(now);
    if (!stop_ || stop_told) continue;
    if (admitted()) {
      core.TellLead(StoppingMessage{"was asked to stop"}, now);
      stop_told = true;
      stop_at = absl::InfiniteFuture();
      continue;
    }
    // A lead that has taken it in, and whose answer is on its way, counts on it
    // and must hear of this.
    stop_at = std::min(stop_at, now + kAnswerTime);
    if (core.session().asks_lead() && now < stop_at) continue;
    return observer_->OnFinish(Code::kStopped, "stopped before the job began");
  }
}

bool Client::admitted() const {
  MutexLock lock(&mutex_);
  return admitted_;
}

void Client::Command(std::function<void(ClientCore&, absl::Time)> command) {
  {
    MutexLock lock(&mutex_);
    commands_.push_back(std::move(command));
  }
  transport_->Wake();
}

// ---- The training loop's thread
// -----------------------------------------------------------------

absl::Status Client::EndStatus() const {
  const bool well = ExitCodeOf(finish_->first) == 0;
  if (well) return absl::CancelledError(finish_->second);
  return absl::UnavailableError(finish_->second);
}

absl::StatusOr<std::string> Client::Join() {
  MutexLock lock(&mutex_);
  while (!admitted_ && !finish_) news_.Wait(&mutex_);
  if (finish_) return EndStatus();
  return snapshot_;
}

std::optional<Client::Next> Client::TryNext() const {
  const auto slot = slots_.find(version_);
  if (slot == slots_.end() || (begun_ && version_ <= *begun_))
    return std::nullopt;
  const bool whole = slot->second.present == map_.chunks();
  std::optional<Next> next;
  if (config_.session.self.role == Role::kWorker) {
    next = NextOfLeases();
  } else {
    next.emplace();
    next->kind = Next::Kind::kEvaluate;
    next->version = version_;
  }
  // Who abstains reads no weights, but says that it has this version: a shard
  // that is a round behind would take it for nonsense.
  const bool works =
      next && next->kind == Next::Kind::kRound && next->share.count > 0;
  return whole || works ? next : std::nullopt;
}

std::optional<Client::Next> Client::NextOfLeases() const {
  Next next;
  next.version = version_;
  for (const Lease& lease : leases_)
    next.snapshot =
        next.snapshot || lease.HasMark(Mark::Kind::kSnapshot, version_);
  for (const Lease& lease : leases_) {
    if (lease.HasMark(Mark::Kind::kStop, version_)) {
      next.kind = Next::Kind::kEnd;
      return next;
    }
    if (version_ < lease.from || version_ >= lease.until) continue;
    if (TakePart(lease, &next)) return next;
  }
  return std::nullopt;
}

bool Client::TakePart(const Lease& lease, Next* next) const {
  const auto me = std::find_if(
      lease.members.begin(), lease.members.end(),
      [&](const Member& m) { return m.id == config_.session.self.id; });
  if (me == lease.members.end()) return false;
  const RoundFacts& facts = lease.facts[version_ - lease.from];
  next->epoch = facts.epoch;
  next->position = facts.position;
  next->samples = facts.samples;
  for (const Member& member : lease.members) next->members.push_back(member.id);
  const auto index = static_cast<uint64_t>(me - lease.members.begin());
  next->share =
      config_.own_data
          ? OwnShareOf(facts.position, config_.batch, config_.session.samples)
          : ShareOf(facts.position, facts.samples, lease.members.size(), index);
  return true;
}

absl::StatusOr<Client::Next> Client::WaitNext() {
  MutexLock lock(&mutex_);
  while (true) {
    if (finish_) return EndStatus();
    if (std::optional<Next> next = TryNext()) {
      begun_ = next->version;
      ended_ = next->kind == Next::Kind::kEnd;
      return *next;
    }
    news_.Wait(&mutex_);
  }
}

float* Client::BeginRound(const Next& next) {
  round_ = next.version;
  samples_ = static_cast<uint32_t>(next.share.count);
  std::fill(copied_.begin(), copied_.end(), false);
  std::fill(filled_.begin(), filled_.end(), 0);
  held_back_.clear();
  overflowed_ = 0;
  gradient_ = gradients_->Get();
  return reinterpret_cast<float*>(gradient_.get());
}

absl::Status Client::WaitChunk(int64_t chunk, Payload* data) {
  MutexLock lock(&mutex_);
  while (true) {
    if (finish_) return EndStatus();
    auto slot = slots_.find(round_);
    if (slot == slots_.end())
      return absl::AbortedError("the version was given up");
    if (!slot->second.chunks[chunk].empty()) {
      *data = slot->second.chunks[chunk];
      wanted_chunk_ = -1;
      return absl::OkStatus();
    }
    // A newer version has begun before this one was whole: what is missing will
    // not come any more.
    if (version_ != round_)
      return absl::AbortedError("left behind: a newer version has begun");
    wanted_chunk_ = chunk;
    news_.Wait(&mutex_);
  }
}

absl::Status Client::Fetch(Range range, float* weights) {
  if (range.size() <= 0) return absl::OkStatus();
  for (int64_t chunk = map_.ChunkAt(range.begin);
       chunk <= map_.ChunkAt(range.end - 1); ++chunk) {
    if (copied_[chunk]) continue;
    Payload data;
    PARAPET_RETURN_IF_ERROR(WaitChunk(chunk, &data));
    const Range whole = map_.ChunkRange(chunk);
    device_->Decode(data.data(), config_.session.wire, 1, whole.size(),
                    weights + whole.begin);
    copied_[chunk] = true;
  }
  return absl::OkStatus();
}

absl::Status Client::Await(Range range) {
  if (range.size() <= 0) return absl::OkStatus();
  for (int64_t chunk = map_.ChunkAt(range.begin);
       chunk <= map_.ChunkAt(range.end - 1); ++chunk) {
    Payload data;
    PARAPET_RETURN_IF_ERROR(WaitChunk(chunk, &data));
  }
  return absl::OkStatus();
}

// Null: they do not lie so that they can be read as one array of floats.
absl::StatusOr<const float*> Client::InPlace(Range range) {
  if (config_.session.wire != DType::kFloat32) return nullptr;
  const std::byte* first = nullptr;
  const std::byte* end = nullptr;
  for (int64_t chunk = map_.ChunkAt(range.begin);
       chunk <= map_.ChunkAt(range.end - 1); ++chunk) {
    Payload data;
    PARAPET_RETURN_IF_ERROR(WaitChunk(chunk, &data));
    if (end != nullptr && data.data() != end) return nullptr;
    if (first == nullptr) {
      const int64_t skipped = range.begin - map_.ChunkRange(chunk).begin;
      first = data.data() + static_cast<size_t>(skipped) * sizeof(float);
    }
    end = data.data() + data.size();
  }
  if (reinterpret_cast<uintptr_t>(first) % alignof(float) != 0) return nullptr;
  return reinterpret_cast<const float*>(first);
}

absl::StatusOr<const float*> Client::Weights(Range range, float* replica) {
  PARAPET_ASSIGN_OR_RETURN(const float* const in_place, InPlace(range));
  if (in_place != nullptr) return in_place;
  PARAPET_RETURN_IF_ERROR(Fetch(range, replica));
  return replica + range.begin;
}

void Client::Push(Range range) {
  for (int64_t at = range.begin; at < range.end;) {
    const int64_t chunk = map_.ChunkAt(at);
    const Range whole = map_.ChunkRange(chunk);
    const int64_t end = std::min(range.end, whole.end);
    filled_[chunk] += end - at;
    if (filled_[chunk] == whole.size()) SendChunk(chunk);
    at = end;
  }
}

void Client::SendChunk(int64_t chunk) {
  const Range range = map_.ChunkRange(chunk);
  const float* values =
      reinterpret_cast<const float*>(gradient_.get()) + range.begin;
  const DType wire = config_.session.wire;
  if (wire == DType::kFloat32) {
    return HandOver(chunk,
                    Payload(gradient_, values, range.size() * sizeof(float)));
  }
  const std::shared_ptr<std::byte> encoded = wires_->Get();
  overflowed_ += device_->Encode(values, range.size(), wire,
                                 config_.session.wire_scale, encoded.get());
  Payload data(encoded, encoded.get(), range.size() * SizeOf(wire));
  if (wire == DType::kBFloat16) return HandOver(chunk, std::move(data));
  held_back_.push_back({chunk, std::move(data)});
}

void Client::HandOver(int64_t chunk, Payload data) {
  Command([round = round_, chunk, samples = samples_, data = std::move(data)](
              ClientCore& core, absl::Time now) {
    core.ChunkReady(round, chunk, samples, data, now);
  });
}

void Client::PushAsIs(uint64_t round, int64_t chunk, const float* values) {
  const Range range = map_.ChunkRange(chunk);
  const DType wire = config_.session.wire;
  const double scale = config_.session.wire_scale;
  const std::shared_ptr<std::byte> encoded = wires_->Get();
  device_->Encode(values + range.begin, range.size(), wire, scale,
                  encoded.get());
  Payload data(encoded, encoded.get(), range.size() * SizeOf(wire));
  PushMessage push{round,    static_cast<uint64_t>(chunk),
                   samples_, wire,
                   scale,    std::move(data)};
  Command([push = std::move(push)](ClientCore& core, absl::Time now) {
    core.PushAsIs(push, now);
  });
}

void Client::EndRound(double loss_sum, uint64_t correct,
                      const std::array<float, kPhases>& phases) {
  gradient_.reset();
  if (overflowed_ > 0 && config_.session.wire == DType::kFloat16) {
    logger_->warn(
        "round {}: {} values of the gradient are too large for float16 with "
        "--wire_scale={}: abstains",
        round_, overflowed_, config_.session.wire_scale);
    Command([round = round_](ClientCore& core, absl::Time now) {
      core.Abstain(round, now);
    });
  } else {
    for (auto& [chunk, data] : held_back_) HandOver(chunk, std::move(data));
  }
  held_back_.clear();
  TellLead(RoundDoneMessage{round_, loss_sum, correct, samples_, phases});
}

void Client::Abstain(const Next& next) {
  Command([round = next.version](ClientCore& core, absl::Time now) {
    core.Abstain(round, now);
  });
}

void Client::TellLead(Body body) {
  Command([body = std::move(body)](ClientCore& core, absl::Time now) {
    core.TellLead(body, now);
  });
}

void Client::SetPhase(uint64_t round, Phase phase) {
  Command([round, phase](ClientCore& core, absl::Time now) {
    core.SetPhase(round, phase, now);
  });
}

void Client::RequestStop() {
  stop_ = true;
  transport_->Wake();
}

absl::Status Client::Leave() {
  MutexLock lock(&mutex_);
  while (!finish_) news_.Wait(&mutex_);
  return ExitCodeOf(finish_->first) == 0 ? absl::OkStatus() : EndStatus();
}

void Client::Quit(const std::string& why) {
  TellLead(LeaveMessage{why});
  Command([this](ClientCore&, absl::Time) {
    observer_->OnFinish(Code::kFailed, "left");
  });
  MutexLock lock(&mutex_);
  while (!finish_) news_.Wait(&mutex_);
}

Code Client::code() const {
  MutexLock lock(&mutex_);
  return finish_ ? finish_->first : Code::kOk;
}

}  // namespace parapet
