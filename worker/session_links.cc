// The session: its links, and how long it waits for what.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire.h"
#include "worker/session.h"

namespace parapet {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr absl::Duration kFirstRetry = absl::Milliseconds(20);
constexpr absl::Duration kLastRetry = absl::Seconds(1);

std::string InSeconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(100)));
}

}  // namespace

bool Session::IsReady(const LinkKey& key) const {
  auto it = links_.find(key);
  return it != links_.end() && it->second.state == LinkState::kReady;
}

void Session::OpenLink(const LinkKey& key, Link& link) {
  link.state = LinkState::kConnecting;
  effects_.push_back(Connect{key});
}

void Session::On(UpIn& event) {
  Link& link = links_[event.link];
  if (link.state != LinkState::kConnecting) return;
  link.state = LinkState::kHello;
  HelloMessage hello{
      kProtocolVersion,    config_.self,
      event.link.link,     config_.nonce,
      config_.layout_hash, config_.samples,
      config_.fingerprint, event.link == LinkKey{0, 0} ? config_.job : ""};
  SendTo(event.link, std::move(hello));
}

void Session::On(DownIn& event) { DropLink(event.link, event.reason); }

void Session::DropLink(const LinkKey& key, const std::string& reason) {
  Link& link = links_[key];
  if (link.state == LinkState::kReady) {
    effects_.push_back(
        Log{true, absl::StrCat("lost link ", key.link, " to server ",
                               key.server, ": ", reason)});
  }
  link.state = LinkState::kDown;
  link.reason = reason;
  const int doublings = std::min(link.failures++, 6);
  link.retry = now_ + std::min(kLastRetry, kFirstRetry * (1 << doublings));
}

void Session::On(TickIn&) {
  next_tick_ = now_ + kTick;
  if (CheckLost()) return;
  TickLinks();
  TickPings();
  TickPatience();
}

// The lead comes first: its welcome is what the other servers want to see.
void Session::TickLinks() {
  for (auto& [key, link] : links_) {
    const bool first = key == LinkKey{0, 0};
    if (!admitted_ && !first) continue;
    if (link.state == LinkState::kDown && now_ >= link.retry)
      OpenLink(key, link);
    // A link on which nothing comes back is as good as lost. Data links have no
    // pings of their own; theirs are those of the control link.
    const bool silent = key.link == 0 && link.state == LinkState::kReady &&
                        now_ >= link.heard + config_.patience.dead_after;
    if (!silent) continue;
    for (int k = 0; k <= config_.connections; ++k) {
      const LinkKey each{key.server, static_cast<uint16_t>(k)};
      if (links_[each].state == LinkState::kDown) continue;
      effects_.push_back(Close{each});
      DropLink(each, "nothing came back");
    }
  }
}

void Session::TickPings() {
  if (now_ < next_ping_) return;
  next_ping_ = now_ + config_.patience.ping_every;
  for (const auto& [key, link] : links_) {
    if (key.link == 0 && link.state == LinkState::kReady) SendTo(key, ping_);
  }
}

bool Session::CheckLost() {
  const Link& lead = links_[{0, 0}];
  if (!admitted_) {
    if (now_ < began_ + config_.patience.start_timeout) return false;
    End(Code::kLost,
        absl::StrCat("the lead did not answer within --start_timeout: ",
                     lead.reason));
    return true;
  }
  if (lead.state == LinkState::kReady ||
      now_ < lead.heard + config_.patience.dead_after)
    return false;
  // Goodbyes can get lost with the link: who has the last version is done.
  for (const Lease& lease : leases_) {
    if (!lease.HasMark(Mark::Kind::kStop, version_) || missing_ > 0) continue;
    End(Code::kOk, "the job has ended");
    return true;
  }
  End(Code::kLost,
      absl::StrCat("the lead is lost: not heard for ",
                   InSeconds(now_ - lead.heard), ", ", lead.reason));
  return true;
}

void Session::TickPatience() {
  if (now_ < next_patience_) return;
  next_patience_ = now_ + config_.patience.patience;
  std::vector<std::string> waits;
  for (const auto& [key, link] : links_) {
    if (key.link != 0 || link.state == LinkState::kReady ||
        (!admitted_ && key.server != 0))
      continue;
    waits.push_back(absl::StrCat(
        "server ", key.server,
        link.reason.empty() ? "" : absl::StrCat(" (", link.reason, ")")));
  }
  if (!waits.empty()) {
    effects_.push_back(Log{true, absl::StrCat("waits to be connected to ",
                                              absl::StrJoin(waits, ", "))});
  } else if (IsWorker() && missing_ > 0 &&
             now_ >= last_news_ + config_.patience.patience) {
    for (int s = 0; s < map_.servers(); ++s) {
      int64_t lacking = 0;
      for (int64_t local = 0; local < map_.ChunksOf(s); ++local)
        lacking += received_[map_.ChunkOf(s, local)] ? 0 : 1;
      if (lacking > 0)
        waits.push_back(absl::StrCat(lacking, " chunks of server ", s));
    }
    effects_.push_back(
        Log{true, absl::StrCat("has waited ", InSeconds(now_ - last_news_),
                               " for version ", version_, ": it lacks ",
                               absl::StrJoin(waits, ", "))});
  }
}

}  // namespace parapet
