#ifndef PARAPET_TESTS_SIM_FAKE_TRAINER_H_
#define PARAPET_TESTS_SIM_FAKE_TRAINER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/disk.h"
#include "common/rng.h"
#include "common/sampler.h"
#include "kernels/device.h"
#include "tests/sim/ledger.h"
#include "tests/sim/scenario.h"
#include "worker/client_core.h"

namespace parapet::sim {

// The training loop of a worker, or an evaluator's, in virtual time. Its
// gradient is a pure function of (seed, worker, round, element), and a round
// takes it a random time. It does what Client and Trainer do between them:
// a round begins when its version is whole, a newer version does not stop it.
class FakeTrainer final : public ClientObserver {
 public:
  struct Parts {
    const Scenario* scenario = nullptr;
    const Layout* layout = nullptr;
    const ShardMap* map = nullptr;
    const Device* device = nullptr;
    Disk* disk = nullptr;
    Ledger* ledger = nullptr;
  };

  FakeTrainer(const Parts& parts, const Peer& self, uint64_t seed);
  void Attach(ClientCore* core) { core_ = core; }

  void OnAdmitted(uint64_t version, const std::string& snapshot) override;
  void OnLease(const Lease& lease) override;
  void OnVersion(uint64_t version) override;
  void OnChunk(uint64_t version, int64_t chunk, Payload data) override;
  uint64_t HashOf(uint64_t version) override;
  void OnFinish(Code code, const std::string& words) override;

  // Call after everything that the core was told, and at NextTime.
  void Act(absl::Time now);
  absl::Time NextTime() const;

  bool admitted() const { return admitted_; }
  // Its process is to be killed now.
  bool crashed() const { return crashed_; }
  // How it ended, once it has.
  const std::optional<std::pair<Code, std::string>>& finish() const {
    return finish_;
  }

 private:
  // A round that is being worked on: what is pushed when.
  struct Work {
    uint64_t round = 0;
    Share share;
    std::vector<std::pair<absl::Time, int64_t>> pushes;
    size_t next = 0;
    size_t stop_before = ~size_t{0};  // crashes or leaves there
  };

  void TryBegin(absl::Time now);
  void BeginRound(const Lease& lease, absl::Time now);
  void Evaluate(absl::Time now);
  Share ShareIn(const Lease& lease) const;
  void MakeGradient(const Share& share);
  void Lie();
  Payload EncodeChunk(int64_t chunk) const;
  void Plan(const Share& share, absl::Time now);
  void Spoil();
  void Push(absl::Time now);
  void EndRound(absl::Time now);
  void Restore(const std::string& folder);
  void TakeSnapshot(absl::Time now);
  bool Is(Behaviour behaviour) const;
  bool whole() const { return present_ == parts_.map->chunks(); }

  const Parts parts_;
  const Peer self_;
  Random random_;
  ClientCore* core_ = nullptr;
  bool admitted_ = false, crashed_ = false, ended_ = false;
  std::vector<Lease> leases_;
  uint64_t version_ = 0;
  std::vector<Payload> chunks_;
  int64_t present_ = 0;
  std::optional<uint64_t> begun_;
  std::optional<Work> work_;
  std::vector<float> gradient_, momentum_;
  std::optional<std::pair<Code, std::string>> finish_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_FAKE_TRAINER_H_
