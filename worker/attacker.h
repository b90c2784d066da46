#ifndef PARAPET_WORKER_ATTACKER_H_
#define PARAPET_WORKER_ATTACKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/disk.h"
#include "worker/attack_plan.h"
#include "worker/client.h"
#include "worker/honest_vectors.h"

namespace parapet {

// A worker that lies, between the training loop and the client: it takes part
// in the job like any other, and reports its honest loss, but pushes what its
// attack makes. For tests, demos and load tests only.
class Attacker {
 public:
  // All must outlive it.
  Attacker(const AttackPlan& plan, uint64_t seed,
           const Contribution& contribution, GatherShare gather,
           Client* client);

  // Once, before the first round; `folder` as Client::Join gave it.
  absl::Status Prepare(Disk& disk, const std::string& folder);

  // In place of a round of honest work. `weights` and `momentum` are this
  // worker's; the latter moves as if it were honest (null: none).
  absl::Status RunRound(const Client::Next& next, float* weights,
                        float* momentum);

 private:
  absl::Status Lie(const Client::Next& next, const float* weights,
                   float* vector);
  void Send(const Client::Next& next, float* vector);
  void Replay(uint64_t round, float* vector);
  void NegateOddServers(float* vector) const;
  void PushTwice(uint64_t round, const float* vector);
  void PushAllBut(int server);
  void Flood(uint64_t round, const float* vector);

  const AttackPlan plan_;
  const uint64_t seed_;
  const Contribution contribution_;
  const GatherShare gather_;
  Client* const client_;
  HonestVectors honest_;
  std::vector<float> old_;  // replay: what was sent first
};

}  // namespace parapet

#endif  // PARAPET_WORKER_ATTACKER_H_
