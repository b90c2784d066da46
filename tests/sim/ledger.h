#ifndef PARAPET_TESTS_SIM_LEDGER_H_
#define PARAPET_TESTS_SIM_LEDGER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/lease.h"
#include "common/messages.h"
#include "common/payload.h"
#include "server/lead.h"

namespace parapet::sim {

// What really happened in a run, as those who did it say: the workers what
// they were told, pushed and received, the lead what it recorded.
struct Ledger {
  struct Pushed {
    uint32_t samples = 0;
    std::vector<Payload> chunks;  // as on the wire
  };
  // Copies of a version with the same bytes.
  struct Held {
    std::string bytes;
    std::vector<Peer> by;
  };

  std::map<std::pair<uint32_t, uint64_t>, Pushed> pushed;  // (worker, round)
  std::set<std::pair<uint32_t, uint64_t>> abstained;
  std::map<uint64_t, RoundFacts> facts;
  std::map<uint64_t, std::vector<Member>> members;
  std::vector<RoundRecord> records;
  std::map<uint64_t, std::vector<Held>> held;  // by version
  std::map<Peer, uint64_t> newest;             // version held whole
  std::vector<std::string> complaints;

  void NoteLease(const Lease& lease);
  void NoteHeld(const Peer& peer, uint64_t version, std::string bytes);
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_LEDGER_H_
