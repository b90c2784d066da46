#include "common/net/sim_core.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace parapet::net {
namespace {

constexpr size_t kEventsPerPoll = 256;
constexpr absl::string_view kScheme = "sim://";

ConnectionId IdOf(const SimLink& link, int end) {
  return 2 * link.number + end;
}

absl::Status CheckAddress(const std::string& address) {
  if (absl::StartsWith(address, kScheme) && address.size() > kScheme.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", address, "\": write sim://name"));
}

absl::Status Down(ConnectionId id) {
  return absl::NotFoundError(absl::StrCat("connection ", id, " is down"));
}

absl::Status Full(ConnectionId id, size_t waiting) {
  return absl::ResourceExhaustedError(
      absl::StrCat(waiting, " messages wait for connection ", id));
}

bool Fits(const Limits& limits, size_t header, size_t payload) {
  return header <= limits.max_header && payload <= limits.max_payload;
}

}  // namespace

SimCore::SimCore(const SimOptions& options)
    : options_(options), random_(options.seed) {
  options_.max_delay = std::max(options_.max_delay, options_.min_delay);
}

SimNode* SimCore::AddNode(const std::string& name, const Limits& limits) {
  auto node = std::make_unique<SimNode>();
  node->name = name;
  node->place = PlaceOf(name);
  node->limits = limits;
  if (!names_.emplace(name, node.get()).second)
    std::abort();  // two living nodes of one name
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void SimCore::RemoveNode(SimNode* node) {
  if (!node->crashed) EndNode(node, false);
  std::erase_if(nodes_, [node](const auto& n) { return n.get() == node; });
}

absl::StatusOr<std::string> SimCore::Listen(SimNode* node,
                                            const std::string& address) {
  if (absl::Status s = CheckAddress(address); !s.ok()) return s;
  if (!node->listening.empty()) {
    return absl::FailedPreconditionError("this transport listens already");
  }
  if (!listeners_.emplace(address, node).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("another node listens at ", address));
  }
  node->listening = address;
  return address;
}

absl::StatusOr<ConnectionId> SimCore::Connect(SimNode* node,
                                              const std::string& address) {
  if (absl::Status s = CheckAddress(address); !s.ok()) return s;
  auto owned = std::make_unique<SimLink>();
  SimLink* link = owned.get();
  link->number = next_link_++;
  link->address = address;
  link->ends[0].node = node;
  link->ends[0].place = node->place;
  link->ends[0].known = true;
  link->ends[0].last = now_ + Delay();
  links_.emplace(link->number, std::move(owned));
  node->links.insert(link->number);
  Schedule(link->ends[0].last, *link, kArrive, 1);
  Schedule(now_ + options_.connect_timeout, *link, kTimeout, 0);
  return IdOf(*link, 0);
}

absl::Status SimCore::Send(SimNode* node, ConnectionId to,
                           absl::string_view header, Payload payload) {
  SimLink* link = nullptr;
  SimEnd* from = FindEnd(node, to, &link);
  if (from == nullptr) return Down(to);
  if (!Fits(node->limits, header.size(), payload.size())) {
    return absl::InvalidArgumentError("a message over the limits");
  }
  const int end = static_cast<int>(to % 2);
  if (link->lost)
    return SendIntoLost(link, end, node->limits.max_queued_messages);
  if (from->untaken >= node->limits.max_queued_messages)
    return Full(to, from->untaken);
  const size_t bytes = header.size() + payload.size();
  from->flight.push_back({std::string(header), std::move(payload)});
  ++from->untaken;
  const absl::Time left = hosts_[from->place].Out(now_, bytes);
  from->last = std::max(from->last, left + Delay());
  Schedule(from->last, *link, kDeliver, 1 - end);
  return absl::OkStatus();
}

absl::Status SimCore::SendIntoLost(SimLink* link, int end, size_t limit) {
  const ConnectionId id = IdOf(*link, end);
  if (link->silent) {
    if (link->ends[end].untaken >= limit) return Full(id, limit);
    ++link->ends[end].untaken;
    return absl::OkStatus();
  }
  if (link->ends[end].told) return absl::OkStatus();
  if (Chance(0.5)) {  // as a socket does: the first send after a loss may seem
                      // to succeed
    Tell(link, end, false);
    return absl::OkStatus();
  }
  Loss(link, end);
  return Down(id);
}

void SimCore::Close(SimNode* node, ConnectionId id) {
  DropEvents(node, id);
  SimLink* link = nullptr;
  if (FindEnd(node, id, &link) == nullptr) return;
  Leave(link, static_cast<int>(id % 2), "the peer closed the connection",
        false);
}

absl::Status SimCore::Poll(SimNode* node, std::vector<Event>* events) {
  for (size_t i = 0; i < kEventsPerPoll && !node->inbox.empty(); ++i) {
    const Event& event = node->inbox.front();
    SimLink* link = event.kind == Event::Kind::kMessage
                        ? Find(event.connection / 2)
                        : nullptr;
    if (link != nullptr) --link->ends[1 - event.connection % 2].untaken;
    events->push_back(std::move(node->inbox.front()));
    node->inbox.pop_front();
  }
  if (node->inbox.empty()) ready_.erase(node->name);
  return absl::OkStatus();
}

void SimCore::Wake(SimNode* node) { ready_.insert(node->name); }

absl::Time SimCore::NextEventTime() const {
  return heap_.empty() ? absl::InfiniteFuture() : heap_.front().at;
}

bool SimCore::Step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  const Scheduled event = heap_.back();
  heap_.pop_back();
  now_ = std::max(now_, event.at);
  Apply(event);
  return true;
}

void SimCore::RunUntil(absl::Time time) {
  while (NextEventTime() <= time && Step()) {
  }
  now_ = std::max(now_, time);
}

int SimCore::PlaceOf(const std::string& name) {
  const int place =
      places_.emplace(name, static_cast<int>(places_.size())).first->second;
  hosts_.resize(places_.size());
  return place;
}

void SimCore::SetRates(const std::string& name, const SimRates& rates) {
  hosts_[PlaceOf(name)].SetRates(rates);
}

absl::Duration SimCore::Delay() {
  const int64_t spread =
      absl::ToInt64Nanoseconds(options_.max_delay - options_.min_delay);
  return options_.min_delay +
         absl::Nanoseconds(static_cast<int64_t>(
             random_.Below(static_cast<uint64_t>(spread) + 1)));
}

void SimCore::Schedule(absl::Time at, const SimLink& link, int kind, int end) {
  heap_.push_back({at, turn_++, link.number, kind, end});
  std::push_heap(heap_.begin(), heap_.end());
}

SimLink* SimCore::Find(uint64_t number) {
  const auto it = links_.find(number);
  return it == links_.end() ? nullptr : it->second.get();
}

SimEnd* SimCore::FindEnd(SimNode* node, ConnectionId id, SimLink** link) {
  *link = Find(id / 2);
  if (*link == nullptr) return nullptr;
  SimEnd* end = &(*link)->ends[id % 2];
  return end->node == node ? end : nullptr;
}

void SimCore::Apply(const Scheduled& event) {
  SimLink* link = Find(event.link);
  if (link == nullptr) return;
  switch (event.kind) {
    case kArrive:
      return Arrive(link);
    case kOpened:
      if (!Hold(link, kOpened, 0) && !link->lost) GiveUp(link);
      return;
    case kDeliver:
      if (!Hold(link, kDeliver, event.end)) Deliver(link, event.end);
      return;
    case kEntered:
      --link->ends[1 - event.end].entering;
      return TakeIn(link, event.end);
    case kLoss:
      if (Hold(link, kLoss, event.end)) return;
      [[fallthrough]];
    case kForcedLoss:
      if (!StillEntering(*link, event.kind, event.end)) Loss(link, event.end);
      return;
    default:
      return Timeout(link);
  }
}

bool SimCore::Hold(SimLink* link, int kind, int end) {
  if (cuts_.empty() || !IsCut(link->ends[0].place, link->ends[1].place))
    return false;
  link->held.push_back({kind, end});
  return true;
}

void SimCore::Arrive(SimLink* link) {
  if (link->lost || link->arrived) return;
  const auto it = listeners_.find(link->address);
  if (it == listeners_.end()) return Refuse(link, "nobody listens there");
  SimNode* node = it->second;
  link->ends[1].place = node->place;
  if (Hold(link, kArrive, 1)) return;
  if (node->accepted >= node->limits.max_connections)
    return Refuse(link, "no room there");
  link->arrived = true;
  link->ends[1].node = node;
  node->links.insert(link->number);
  ++node->accepted;
  link->ends[1].last = now_ + Delay();
  Schedule(link->ends[1].last, *link, kOpened, 0);
}

void SimCore::GiveUp(SimLink* link) {
  if (link->up || link->ends[0].node == nullptr) return;
  link->up = true;
  Event up;
  up.kind = Event::Kind::kUp;
  up.connection = IdOf(*link, 0);
  Push(link->ends[0].node, std::move(up));
}

void SimCore::Deliver(SimLink* link, int end) {
  if (end == 1 && !link->arrived) {  // what a partition held may be overtaken
                                     // by what is behind it
    Arrive(link);
    if (!link->arrived && !link->held.empty())
      link->held.push_back({kDeliver, end});
    if (!link->arrived) return;
  }
  if (!Enter(link, end)) TakeIn(link, end);
}

// Lets a message onto the receiver's link; false: that is free.
bool SimCore::Enter(SimLink* link, int end) {
  SimHost& host = hosts_[link->ends[end].place];
  SimEnd* sender = &link->ends[1 - end];
  if (host.in_is_free() && sender->entering == 0) return false;
  if (sender->entering >= sender->flight.size()) return true;  // it was lost
  const size_t bytes = sender->flight[sender->entering++].bytes();
  Schedule(host.In(now_, bytes), *link, kEntered, end);
  return true;
}

void SimCore::TakeIn(SimLink* link, int end) {
  SimEnd* sender = &link->ends[1 - end];
  if (sender->flight.empty()) return;  // it was lost
  SimMessage message = std::move(sender->flight.front());
  sender->flight.pop_front();
  if (link->ends[end].node == nullptr) {
    --sender->untaken;
    return;
  }
  if (end == 0) GiveUp(link);
  GiveMessage(link, end, std::move(message));
}

void SimCore::GiveMessage(SimLink* link, int end, SimMessage message) {
  SimEnd* to = &link->ends[end];
  if (!Fits(to->node->limits, message.header.size(), message.payload.size())) {
    if (to->known)
      PushDown(to->node, IdOf(*link, end),
               "the peer sent a message over the limits");
    return Leave(link, end, "the peer refused a message", false);
  }
  to->known = true;
  Event event;
  event.connection = IdOf(*link, end);
  event.header = std::move(message.header);
  event.payload = std::move(message.payload);
  Push(to->node, std::move(event));
}

void SimCore::Loss(SimLink* link, int end) {
  SimEnd* to = &link->ends[end];
  if (to->node == nullptr) return;
  if (to->known) PushDown(to->node, IdOf(*link, end), link->reason);
  Detach(link, end);
  EraseIfDead(link);
}

// What is kept of a lost link's messages comes before the word of its loss.
bool SimCore::StillEntering(const SimLink& link, int kind, int end) {
  if (link.ends[1 - end].entering == 0) return false;
  Schedule(hosts_[link.ends[end].place].in_free(), link, kind, end);
  return true;
}

void SimCore::Timeout(SimLink* link) {
  if (link->up || link->lost || link->ends[0].node == nullptr) return;
  PushDown(link->ends[0].node, IdOf(*link, 0),
           link->address + " did not answer in time");
  Leave(link, 0, "the peer gave up", false);
}

void SimCore::Refuse(SimLink* link, const std::string& reason) {
  link->lost = true;
  link->reason =
      absl::StrCat("cannot connect to ", link->address, ": ", reason);
  KeepPart(link, 0, 0);
  Tell(link, 0, false);
}

void SimCore::Push(SimNode* node, Event event) {
  node->inbox.push_back(std::move(event));
  ready_.insert(node->name);
}

void SimCore::PushDown(SimNode* node, ConnectionId id,
                       const std::string& reason) {
  Event down;
  down.kind = Event::Kind::kDown;
  down.connection = id;
  down.reason = reason;
  Push(node, std::move(down));
}

}  // namespace parapet::net
