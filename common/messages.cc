#include "common/messages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace parapet {

std::string NameOf(const Peer& peer) {
  const char* role = peer.role == Role::kWorker      ? "worker "
                     : peer.role == Role::kEvaluator ? "evaluator "
                                                     : "server ";
  return absl::StrCat(role, peer.id);
}

const char* NameOf(Code code) {
  static constexpr const char* kNames[] = {
      "ok",           "protocol",      "job_differs", "already_here",
      "unknown_peer", "wrong_session", "bad_chunk",   "equivocation",
      "over_credit",  "bad_samples",   "left_out",    "lost",
      "too_few",      "bad_rounds",    "failed",      "stopped"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

int ExitCodeOf(Code code) {
  switch (code) {
    case Code::kOk:
    case Code::kStopped:
      return 0;
    case Code::kLost:
      return 3;
    case Code::kTooFew:
    case Code::kBadRounds:
      return 4;
    case Code::kFailed:
      return 1;
    default:
      return 5;  // this process was refused or sent away
  }
}

void IdSet::Insert(uint32_t id) {
  if (id >= bits_.size()) bits_.resize(id + 1);
  bits_[id] = true;
}

void IdSet::Erase(uint32_t id) {
  if (id < bits_.size()) bits_[id] = false;
}

bool IdSet::Empty() const { return Count() == 0; }

int64_t IdSet::Count() const {
  return std::count(bits_.begin(), bits_.end(), true);
}

std::vector<uint32_t> IdSet::ToVector() const {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < bits_.size(); ++id) {
    if (bits_[id]) ids.push_back(id);
  }
  return ids;
}

void IdSet::Intersect(const IdSet& other) {
  for (uint32_t id = 0; id < bits_.size(); ++id)
    bits_[id] = bits_[id] && other.Contains(id);
}

IdSet IdsOf(const std::vector<Member>& members) {
  IdSet set;
  for (const Member& member : members) set.Insert(member.id);
  return set;
}

const char* NameOf(Phase phase) {
  static constexpr const char* kNames[kPhases] = {"wait", "data", "forward",
                                                  "backward", "push"};
  return kNames[static_cast<int>(phase)];
}

}  // namespace parapet
