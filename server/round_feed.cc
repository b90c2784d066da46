// The rounds of a shard: who has received which version, and what to send.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "server/round.h"

namespace parapet {
namespace {

// How many complete versions before the newest are kept for peers that are
// still receiving them.
constexpr size_t kMaxOlderVersions = 2;

}  // namespace

// ---------------------------------------------------------------------------

uint64_t Round::Credit() const {
  const int64_t window = config_.window == 0 ? config_.chunks : config_.window;
  return version_ * config_.chunks + first_unreduced_turn_ + window;
}

bool Round::IsPublished(uint64_t version, int64_t local) const {
  return version <= version_ ||
         (version == version_ + 1 && chunks_[local] == ChunkState::kPublished);
}

void Round::Publish(int64_t local) {
  chunks_[local] = ChunkState::kPublished;
  ++published_;
  const auto next = static_cast<int64_t>(version_) + 1;
  for (auto& [peer, recipient] : recipients_) {
    if (recipient.feeding == next && recipient.wanted[local]) {
      recipient.wanted[local] = false;
      effects_.push_back(SendWeights{peer, version_ + 1, local, Credit()});
    } else if (peer.role == Role::kWorker && recipient.feeding < next &&
               recipient.proven + 1 == next) {
      Feed(peer, recipient, version_ + 1,
           std::vector<bool>(config_.chunks, true));
    }
  }
}

void Round::Feed(const Peer& peer, Recipient& recipient, uint64_t version,
                 std::vector<bool> wanted) {
  recipient.feeding = static_cast<int64_t>(version);
  recipient.wanted = std::move(wanted);
  SendWanted(peer, recipient);
}

void Round::SendWanted(const Peer& peer, Recipient& recipient) {
  // From the layout's beginning: what the next forward pass reads first.
  for (int64_t local = 0; local < config_.chunks; ++local) {
    if (!recipient.wanted[local] || !IsPublished(recipient.feeding, local))
      continue;
    recipient.wanted[local] = false;
    effects_.push_back(SendWeights{
        peer, static_cast<uint64_t>(recipient.feeding), local, Credit()});
  }
}

void Round::Prove(const Peer& peer, uint64_t version) {
  auto it = recipients_.find(peer);
  if (it == recipients_.end() || version > version_) return;
  Recipient& recipient = it->second;
  recipient.proven = std::max(recipient.proven, static_cast<int64_t>(version));
  // A worker that lags behind skips to the newest version once it has its old
  // one whole.
  if (peer.role == Role::kWorker && recipient.proven >= recipient.feeding &&
      version < version_) {
    Feed(peer, recipient, version_, std::vector<bool>(config_.chunks, true));
  }
}

bool Round::IsKept(uint64_t version) const {
  return version >= version_ ||
         std::find(older_.begin(), older_.end(), version) != older_.end();
}

void Round::On(NeedIn& event) {
  // No job gets so far; below, versions are signed.
  if (event.version > uint64_t{std::numeric_limits<int64_t>::max()}) return;
  Recipient& recipient = recipients_[event.peer];
  const auto version = static_cast<int64_t>(event.version);
  if (event.locals.empty()) Prove(event.peer, event.version);
  // A version that is not made yet is its word only: what it lacks counts more.
  const bool believed = event.locals.empty() ||
                        recipient.feeding <= static_cast<int64_t>(version_);
  // Another life of an evaluator may lack what its former one had.
  if (version < recipient.feeding && believed &&
      IsKept(static_cast<uint64_t>(recipient.feeding))) {
    // It has seen nothing of the version that it is being sent: on this link,
    // that was lost with the old one.
    for (int64_t i = 0; i < config_.chunks; ++i)
      recipient.wanted[i] = recipient.wanted[i] || event.mine[i];
    return SendWanted(event.peer, recipient);
  }
  if (event.locals.empty()) return;
  event.locals.resize(config_.chunks);
  if (!IsKept(event.version)) {
    Feed(event.peer, recipient, version_,
         std::vector<bool>(config_.chunks, true));
    return;
  }
  for (int64_t i = 0; i < config_.chunks; ++i) {
    if (recipient.feeding == version) {
      // Another data link of the same peer: what either link lacks is still to
      // be sent.
      event.locals[i] = event.locals[i] || recipient.wanted[i];
    } else if (recipient.feeding >= 0) {
      // It has this version from other servers and nothing of it from this one:
      // its other links lack it as well, and do not ask.
      event.locals[i] = event.locals[i] || !event.mine[i];
    }
  }
  Feed(event.peer, recipient, event.version, std::move(event.locals));
}

void Round::DropOldVersions() {
  auto pinned = [this](uint64_t version) {
    for (const auto& [peer, recipient] : recipients_) {
      if (recipient.feeding == static_cast<int64_t>(version) &&
          recipient.proven < recipient.feeding)
        return true;
    }
    return false;
  };
  // Whoever would keep a third old version alive is sent the newest one
  // instead.
  while (std::count_if(older_.begin(), older_.end(), pinned) >
         static_cast<int64_t>(kMaxOlderVersions)) {
    const uint64_t oldest = *std::find_if(older_.begin(), older_.end(), pinned);
    for (auto& [peer, recipient] : recipients_) {
      if (recipient.feeding != static_cast<int64_t>(oldest)) continue;
      Feed(peer, recipient, version_, std::vector<bool>(config_.chunks, true));
    }
  }
  std::erase_if(older_, [&](uint64_t version) {
    if (pinned(version)) return false;
    effects_.push_back(DropVersion{version});
    return true;
  });
}

}  // namespace parapet
