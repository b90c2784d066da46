#include "tools/load_attendance.h"

#include <algorithm>
#include <numeric>

namespace parapet {
namespace {

// What servers may have decided.
struct Choice {
  int late = 0;      // how many of the last to push were too late
  uint64_t out = 0;  // attackers that were, a bit for each, modulo 64
};

// None, all, then others.
uint64_t OutOf(int way) {
  return way == 0   ? 0
         : way == 1 ? ~uint64_t{0}
                    : static_cast<uint64_t>(way - 1);
}

// Attackers in all ways while nobody was late; with late ones only together, as
// also where they are many.
std::optional<Choice> ChoiceOf(int attackers, int most_late, int i) {
  const int ways = attackers == 0 ? 1 : 2;
  const int first =
      attackers > LoadAttendance::kMostAlone ? ways : 1 << attackers;
  if (i < first) return Choice{0, OutOf(i)};
  const int late = 1 + (i - first) / ways;
  if (late > most_late) return std::nullopt;
  return Choice{late, OutOf((i - first) % ways)};
}

}  // namespace

LoadAttendance::Round& LoadAttendance::RoundAt(uint64_t round) {
  Round& found = rounds_[round];
  while (rounds_.size() > kKept && rounds_.begin()->first < round)
    rounds_.erase(rounds_.begin());
  return found;
}

void LoadAttendance::NoteLease(const Lease& lease) {
  std::vector<int> ids;
  for (const Member& member : lease.members)
    ids.push_back(static_cast<int>(member.id));
  const auto members = std::make_shared<const std::vector<int>>(std::move(ids));
  MutexLock lock(&mutex_);
  for (uint64_t round = lease.from; round < lease.until; ++round)
    RoundAt(round).members = members;
}

void LoadAttendance::NotePush(int worker, uint64_t round) {
  if (plan_.Attacks(static_cast<uint32_t>(worker))) return;
  MutexLock lock(&mutex_);
  RoundAt(round).pushed.push_back(worker);
}

// Those of the round before where nobody here has heard of this one's lease.
std::vector<int> LoadAttendance::MembersOf(uint64_t round) const {
  for (auto at = rounds_.upper_bound(round); at != rounds_.begin();) {
    --at;
    if (at->second.members != nullptr) return *at->second.members;
  }
  std::vector<int> all(static_cast<size_t>(plan_.workers));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> LoadAttendance::HonestOf(const std::vector<int>& members,
                                          const std::vector<int>& pushed,
                                          int late) const {
  std::vector<int> there(
      pushed.begin(),
      pushed.end() - std::min<ptrdiff_t>(late, std::ssize(pushed)));
  std::sort(there.begin(), there.end());
  std::vector<int> honest;
  for (const int id : members) {
    const bool ours = id >= first_ && id < first_ + players_;
    if (plan_.Attacks(static_cast<uint32_t>(id))) continue;
    if (!ours || std::binary_search(there.begin(), there.end(), id))
      honest.push_back(id);
  }
  return honest;
}

// Whether no chunk of an attacker comes to a server.
bool LoadAttendance::NeverCome(int server) const {
  const AttackKind kind = plan_.attack.kind;
  return kind == AttackKind::kSilent ||
         (kind == AttackKind::kPartial && server == 0);
}

std::optional<LoadTurnout> LoadAttendance::Candidate(uint64_t round, int server,
                                                     int i) const {
  std::vector<int> members, pushed;
  {
    MutexLock lock(&mutex_);
    members = MembersOf(round);
    const auto found = rounds_.find(round);
    if (found != rounds_.end()) pushed = found->second.pushed;
  }
  std::vector<int> attackers;
  for (const int id : members) {
    if (plan_.Attacks(static_cast<uint32_t>(id)) && !NeverCome(server))
      attackers.push_back(id);
  }
  const std::optional<Choice> choice =
      ChoiceOf(static_cast<int>(attackers.size()),
               std::min(kMostLate, static_cast<int>(pushed.size())), i);
  if (!choice.has_value()) return std::nullopt;
  LoadTurnout turnout{HonestOf(members, pushed, choice->late), {}};
  for (size_t k = 0; k < attackers.size(); ++k) {
    if ((choice->out >> (k % 64) & 1) == 0)
      turnout.attackers.push_back(attackers[k]);
  }
  return turnout;
}

}  // namespace parapet
