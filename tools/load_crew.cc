#include "tools/load_crew.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "common/net/make_transport.h"
#include "common/net/zmq_transport.h"

namespace parapet {
namespace {

constexpr absl::Duration kLongestPoll = absl::Milliseconds(50);
// Messages that libzmq takes for a slow reader that does not read.
constexpr int kSlowHighWater = 4;

std::unique_ptr<net::Transport> MakeCrewTransport(const LoadPlan& plan,
                                                  bool slow) {
  const std::string& lead = plan.servers.front();
  if (!slow || absl::StartsWith(lead, "shm://"))
    return net::MakeTransport(lead, plan.map);
  net::ZmqOptions options = net::OptionsFor(plan.map);
  options.receive_high_water = kSlowHighWater;
  return net::MakeZmqTransport(options);
}

}  // namespace

// A player's end of the crew's transport: its connections are noted as its own.
class LoadCrew::Line final : public net::Transport {
 public:
  Line(LoadCrew* crew, size_t index) : crew_(crew), index_(index) {}

  absl::StatusOr<std::string> Listen(const std::string&) override {
    return absl::UnimplementedError("players do not listen");
  }
  absl::StatusOr<net::ConnectionId> Connect(
      const std::string& address) override {
    absl::StatusOr<net::ConnectionId> id = crew_->transport_->Connect(address);
    if (id.ok()) crew_->owners_[*id] = index_;
    return id;
  }
  absl::Status Send(net::ConnectionId to, absl::string_view header,
                    Payload payload) override {
    return crew_->transport_->Send(to, header,
                                   crew_->lent_.Lend(std::move(payload)));
  }
  void Close(net::ConnectionId connection) override {
    crew_->owners_.erase(connection);
    crew_->transport_->Close(connection);
  }
  absl::Status Poll(absl::Duration, std::vector<net::Event>*) override {
    return absl::UnimplementedError("the crew polls");
  }
  void Wake() override { crew_->transport_->Wake(); }

 private:
  LoadCrew* const crew_;
  const size_t index_;
};

LoadCrew::LoadCrew(LoadPlan* plan, std::vector<int> ids, absl::Duration pause,
                   Logger* logger)
    : plan_(plan),
      ids_(std::move(ids)),
      pause_(pause),
      logger_(logger),
      thread_([this] { Loop(); }) {}

LoadCrew::~LoadCrew() {
  quit_ = true;
  thread_.join();
}

LoadStats LoadCrew::Stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

std::unique_ptr<LoadPlayer> LoadCrew::MakePlayer(int index) {
  const auto at = static_cast<size_t>(index);
  lines_.push_back(std::make_unique<Line>(this, at));
  return std::make_unique<LoadPlayer>(plan_, ids_[at], lines_.back().get(),
                                      &stats_, logger_, clock_.Now());
}

void LoadCrew::Loop() {
  transport_ = MakeCrewTransport(*plan_, pause_ > absl::ZeroDuration());
  lent_.Add(plan_->values->stored(), transport_.get());
  for (const auto table : plan_->attacks->stored())
    lent_.Add(table, transport_.get());
  for (size_t i = 0; i < ids_.size(); ++i)
    players_.push_back(MakePlayer(static_cast<int>(i)));
  std::vector<net::Event> events;
  while (!quit_ && !done_) {
    events.clear();
    const absl::Duration wait =
        std::clamp(next_ - clock_.Now(), absl::ZeroDuration(), kLongestPoll);
    const absl::Status polled = transport_->Poll(wait, &events);
    {
      MutexLock lock(&mutex_);
      if (polled.ok()) {
        Turn(&events);
      } else {
        stats_.failures[std::string(polled.message())] +=
            static_cast<int>(ids_.size()) - stats_.finished;
        done_ = true;
      }
    }
    if (pause_ > absl::ZeroDuration()) absl::SleepFor(pause_);
  }
  players_.clear();
  lent_ = LoadLent();
  transport_.reset();
}

void LoadCrew::Turn(std::vector<net::Event>* events) {
  for (net::Event& event : *events) {
    const auto owner = owners_.find(event.connection);
    if (owner == owners_.end()) continue;
    LoadPlayer& player = *players_[owner->second];
    if (event.kind == net::Event::Kind::kDown) owners_.erase(owner);
    player.Handle(std::move(event), clock_.Now());
    next_ = std::min(next_, player.NextDeadline());
  }
  if (stop_ && !std::exchange(stop_told_, true))
    players_.front()->AskToStop(clock_.Now());
  if (clock_.Now() >= next_) TickAll();
  done_ = stats_.finished == static_cast<int>(ids_.size());
}

void LoadCrew::TickAll() {
  const absl::Time now = clock_.Now();
  next_ = absl::InfiniteFuture();
  for (const auto& player : players_) {
    if (player->NextDeadline() <= now) player->Tick(now);
    next_ = std::min(next_, player->NextDeadline());
  }
}

}  // namespace parapet
