// How links of the simulated network are lost.
#include <algorithm>
#include <utility>

#include "common/net/sim_core.h"

namespace parapet::net {

void SimCore::Break(SimLink* link, const std::string& reason, bool forced) {
  if (link->lost) return;
  link->lost = true;
  link->reason = reason;
  for (const int end : {0, 1}) {
    KeepRandomPart(link, end);
    TellOrNot(link, end, forced);
  }
}

void SimCore::KeepPart(SimLink* link, int sender, size_t kept) {
  SimEnd* end = &link->ends[sender];
  while (end->flight.size() > kept) {
    end->flight.pop_back();
    --end->untaken;
  }
}

void SimCore::KeepRandomPart(SimLink* link, int sender) {
  KeepPart(link, sender, random_.Below(link->ends[sender].flight.size() + 1));
}

// Not before what is kept of the messages to it.
void SimCore::Tell(SimLink* link, int end, bool forced) {
  link->ends[end].told = true;
  const auto spread =
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.max_loss_delay));
  const absl::Duration after =
      absl::Nanoseconds(static_cast<int64_t>(random_.Below(spread + 1)));
  const absl::Time at = std::max(now_ + after, link->ends[1 - end].last);
  Schedule(at, *link, forced ? kForcedLoss : kLoss, end);
}

void SimCore::TellOrNot(SimLink* link, int end, bool forced) {
  if (link->ends[end].node == nullptr) return;
  // An accepting end that its owner knows nothing of would stay for ever.
  if (end == 0 || !link->ends[end].known || Chance(options_.told_early))
    Tell(link, end, forced);
}

void SimCore::Leave(SimLink* link, int end, const std::string& reason,
                    bool silent) {
  const int peer = 1 - end;
  KeepPart(link, peer, 0);
  if (!link->lost) {
    link->lost = true;
    link->silent = silent && link->ends[peer].known;
    link->reason = reason;
    KeepRandomPart(link, end);
    if (!link->silent) TellOrNot(link, peer, false);
  }
  Detach(link, end);
  EraseIfDead(link);
}

void SimCore::Detach(SimLink* link, int end) {
  SimNode* node = std::exchange(link->ends[end].node, nullptr);
  if (end == 1) --node->accepted;
  if (link->ends[1 - end].node != node) node->links.erase(link->number);
}

void SimCore::EraseIfDead(SimLink* link) {
  if (link->ends[0].node == nullptr && link->ends[1].node == nullptr)
    links_.erase(link->number);
}

void SimCore::DropEvents(SimNode* node, ConnectionId id) {
  SimLink* link = Find(id / 2);
  std::erase_if(node->inbox, [&](const Event& e) {
    const bool drop = e.connection == id;
    if (drop && e.kind == Event::Kind::kMessage && link != nullptr) {
      --link->ends[1 - id % 2].untaken;
    }
    return drop;
  });
  if (node->inbox.empty()) ready_.erase(node->name);
}

void SimCore::EndNode(SimNode* node, bool crash) {
  const std::vector<uint64_t> numbers(node->links.begin(), node->links.end());
  for (const uint64_t number : numbers) {
    for (const int end : {0, 1}) {
      SimLink* link = Find(number);
      if (link == nullptr || link->ends[end].node != node) continue;
      const bool silent = crash && Chance(options_.silent_crash);
      Leave(link, end, "the peer is gone", silent);
    }
  }
  if (!node->listening.empty()) listeners_.erase(node->listening);
  names_.erase(node->name);
  ready_.erase(node->name);
  node->inbox.clear();
}

void SimCore::Crash(const std::string& name) {
  const auto it = names_.find(name);
  if (it == names_.end()) return;
  SimNode* node = it->second;
  EndNode(node, true);
  node->crashed = true;
}

SimCore::Places SimCore::Between(const std::string& a, const std::string& b) {
  const int first = PlaceOf(a), second = PlaceOf(b);
  return std::minmax(first, second);
}

bool SimCore::IsCut(int a, int b) const {
  return cuts_.contains(std::minmax(a, b));
}

std::vector<SimLink*> SimCore::LinksBetween(Places places) {
  std::vector<SimLink*> found;
  for (const auto& [number, link] : links_) {
    if (Places(std::minmax(link->ends[0].place, link->ends[1].place)) != places)
      continue;
    if (!link->lost) found.push_back(link.get());
  }
  return found;
}

int SimCore::BreakConnections(const std::string& a, const std::string& b) {
  const std::vector<SimLink*> links = LinksBetween(Between(a, b));
  for (SimLink* link : links) Break(link, "the connection broke", false);
  return static_cast<int>(links.size());
}

bool SimCore::BreakRandomConnection() {
  std::vector<SimLink*> up;
  for (const auto& [number, link] : links_) {
    if (link->up && !link->lost) up.push_back(link.get());
  }
  if (up.empty()) return false;
  Break(up[random_.Below(up.size())], "the connection broke", false);
  return true;
}

void SimCore::Partition(const std::string& a, const std::string& b,
                        bool break_them) {
  const Places places = Between(a, b);
  cuts_.insert(places);
  if (!break_them) return;
  for (SimLink* link : LinksBetween(places)) {
    for (const int end : {0, 1}) KeepPart(link, end, 0);
    Break(link, "the network is cut", true);
  }
}

void SimCore::Heal(const std::string& a, const std::string& b) {
  cuts_.erase(Between(a, b));
  ReleaseHeld();
}

void SimCore::HealAll() {
  cuts_.clear();
  ReleaseHeld();
}

void SimCore::ReleaseHeld() {
  for (const auto& [number, link] : links_) {
    if (link->held.empty() || IsCut(link->ends[0].place, link->ends[1].place))
      continue;
    absl::Time at = now_;
    for (const SimLink::Held& held : std::exchange(link->held, {})) {
      at = std::max(at, now_ + Delay());
      Schedule(at, *link, held.kind, held.end);
      SimEnd* sender = &link->ends[1 - held.end];
      sender->last = std::max(sender->last, at);
    }
  }
}

}  // namespace parapet::net
