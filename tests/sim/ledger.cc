#include "tests/sim/ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace parapet::sim {

void Ledger::NoteLease(const Lease& lease) {
  for (uint64_t round = lease.from; round < lease.until; ++round) {
    const RoundFacts& now = lease.facts[round - lease.from];
    const auto [fact, fresh] = facts.emplace(round, now);
    const auto [member, also] = members.emplace(round, lease.members);
    if (fact->second == now && member->second == lease.members) continue;
    complaints.push_back(absl::StrCat("two leases differ on round ", round));
  }
}

void Ledger::NoteHeld(const Peer& peer, uint64_t version, std::string bytes) {
  std::vector<Held>& copies = held[version];
  auto same = std::find_if(copies.begin(), copies.end(),
                           [&](const Held& h) { return h.bytes == bytes; });
  if (same == copies.end()) {
    copies.push_back({std::move(bytes), {}});
    same = copies.end() - 1;
  }
  same->by.push_back(peer);
  const auto known = newest.find(peer);
  if (known != newest.end() && known->second >= version) {
    complaints.push_back(absl::StrCat(NameOf(peer), " went from version ",
                                      known->second, " to ", version));
  }
  newest[peer] = version;
}

}  // namespace parapet::sim
