#ifndef PARAPET_TESTS_SIM_SCENARIO_H_
#define PARAPET_TESTS_SIM_SCENARIO_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/job.h"
#include "common/layout.h"
#include "common/net/sim_transport.h"
#include "kernels/shard_device.h"

namespace parapet::sim {

// What a worker that is not as it should be does, from some round on.
enum class Behaviour {
  kSilent,   // answers pings, pushes nothing
  kPartial,  // pushes a part of its chunks only
  kCrash,    // its process ends while it pushes
  kLeave,    // says goodbye while it pushes
  kLiar,     // keeps to the protocol, and pushes what is no gradient
  kHostile,  // from its first message on: see HostileTransport
};

struct Fault {
  Behaviour behaviour = Behaviour::kSilent;
  uint64_t from_round = 0;
};

// Everything that a run depends on: equal scenarios are equal runs.
struct Scenario {
  uint64_t seed = 1;  // of times, the network and its faults; not of the bits
  JobConfig job;      // job.seed gives the gradients
  PatienceConfig patience;
  SnapshotConfig snapshot;
  std::vector<TensorSpec> tensors;
  uint64_t samples = 0;               // of an epoch
  std::vector<uint64_t> own_samples;  // by worker, with data_split=own
  int64_t credit_window = 0;
  uint64_t rule_secret = 0;  // the lead's
  bool late_work = false;    // reductions and writes take time, and overtake
  bool linger = true;        // who has ended stays until what it sent is there
  net::SimOptions network;
  net::SimRates rates;  // of every process's link
  absl::Duration shortest_work = absl::Milliseconds(5);  // of a worker's round
  absl::Duration longest_work = absl::Milliseconds(50);

  std::map<uint32_t, Fault> faults;  // by worker
  double breaks_per_second = 0, cuts_per_second = 0;
  absl::Duration longest_cut = absl::Seconds(2);
  // What workers push to the last server changes once it has measured it, as if
  // it came over shared memory from liars.
  bool pushes_change = false;
  bool stranger = false;  // somebody sends garbage to every server
  // Whether workers without a fault may be left out: a quorum does not wait.
  bool may_lose_honest = false;
  // When the job is asked to stop, counted from its first lease, and how many
  // processes are.
  absl::Duration stop_after = absl::InfiniteDuration();
  int stop_requests = 1;
  // Where shards live; null: in the host's memory.
  const ShardDevice* shard = nullptr;
  // Past this the run counts as hung.
  absl::Duration limit = absl::Minutes(5);

  Layout MakeLayout() const;
  ShardMap MakeMap() const;
  // One line for whoever looks at a failure.
  std::string Describe() const;
};

enum class Mood {
  kCalm,     // nothing breaks: delays and reordering only
  kBroken,   // connections break and networks are cut: nobody may be lost
  kMissing,  // silent, partial, crashing and leaving workers
  kHostile,  // workers that lie about the protocol, and strangers
  kQuorum,   // quorum=k with slow workers
  kMixed,    // all of it at once
};

// Every rule and every step before one, in some chain.
std::vector<std::string> SomeRules();

Scenario MakeScenario(uint64_t seed, Mood mood);

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_SCENARIO_H_
