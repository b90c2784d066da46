#ifndef PARAPET_TESTS_SIM_PROCESS_H_
#define PARAPET_TESTS_SIM_PROCESS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/log.h"
#include "common/net/transport.h"
#include "server/node.h"
#include "tests/sim/fake_trainer.h"
#include "tests/sim/hostile_transport.h"
#include "tests/sim/sim_executor.h"
#include "worker/client_core.h"

namespace parapet::sim {

// One simulated process: what its program's loop does around the parts that
// are under test.
class Process {
 public:
  Process(std::string name, absl::Time start)
      : name_(std::move(name)), start_(start) {}
  virtual ~Process() = default;

  const std::string& name() const { return name_; }
  // Takes what has arrived and does what is due. Starts it the first time.
  void Drive(absl::Time now);
  absl::Time NextTime() const;
  // Over by itself: since when.
  const std::optional<absl::Time>& ended() const { return ended_; }
  virtual bool crashed() const { return false; }
  // SIGTERM.
  virtual void RequestStop(absl::Time now) {}
  // Does the job wait for it to end?
  virtual bool counts() const { return true; }

 protected:
  virtual void Start(absl::Time now) = 0;
  virtual void Turn(absl::Time now) = 0;
  virtual absl::Time NextDeadline() const = 0;
  virtual bool Finished() const = 0;

 private:
  const std::string name_;
  const absl::Time start_;
  bool started_ = false;
  absl::Time last_;
  std::optional<absl::Time> ended_;
};

class ServerProcess final : public Process {
 public:
  ServerProcess(const ServerNodeConfig& config, const Scenario& scenario,
                const Layout& layout, const ShardMap& map, const Device* device,
                Disk* disk, std::unique_ptr<net::Transport> transport,
                std::shared_ptr<Logger> logger, ServerNodeHooks hooks,
                absl::Time start, std::function<absl::Time()> now);
  const ServerNode& node() const { return *node_; }
  void RequestStop(absl::Time now) override;

 private:
  void Start(absl::Time now) override;
  void Turn(absl::Time now) override;
  absl::Time NextDeadline() const override;
  bool Finished() const override { return node_->outcome().has_value(); }

  Random random_;
  const std::shared_ptr<Logger> logger_;
  const std::unique_ptr<net::Transport> transport_;
  SimExecutor reducer_, writer_, planner_;
  std::unique_ptr<ServerNode> node_;
};

class ClientProcess final : public Process {
 public:
  ClientProcess(const SessionConfig& config, const FakeTrainer::Parts& parts,
                std::vector<std::string> servers,
                std::unique_ptr<net::Transport> transport,
                std::shared_ptr<Logger> logger, absl::Time start);
  const FakeTrainer& trainer() const { return trainer_; }
  const Peer& self() const { return self_; }
  bool crashed() const override { return trainer_.crashed(); }
  void RequestStop(absl::Time now) override;

 private:
  void Start(absl::Time now) override;
  void Turn(absl::Time now) override;
  absl::Time NextDeadline() const override;
  bool Finished() const override { return trainer_.finish().has_value(); }

  const Peer self_;
  const SessionConfig config_;
  const ShardMap map_;
  const std::vector<std::string> servers_;
  const std::shared_ptr<Logger> logger_;
  const std::unique_ptr<net::Transport> transport_;
  FakeTrainer trainer_;
  std::unique_ptr<ClientCore> core_;  // from its start on
};

class StrangerProcess final : public Process {
 public:
  StrangerProcess(std::unique_ptr<net::Transport> transport, int servers,
                  uint64_t seed, absl::Time start)
      : Process("stranger", start),
        stranger_(std::move(transport), servers, seed) {}
  bool counts() const override { return false; }

 private:
  void Start(absl::Time now) override {}
  void Turn(absl::Time now) override;
  absl::Time NextDeadline() const override { return next_; }
  bool Finished() const override { return false; }

  Stranger stranger_;
  absl::Time next_;
};

}  // namespace parapet::sim

#endif  // PARAPET_TESTS_SIM_PROCESS_H_
