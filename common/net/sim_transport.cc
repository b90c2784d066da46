#include "common/net/sim_transport.h"

#include <utility>

#include "common/net/sim_core.h"

namespace parapet::net {
namespace {

class SimTransport final : public Transport {
 public:
  SimTransport(SimCore* core, SimNode* node) : core_(core), node_(node) {}
  ~SimTransport() override { core_->RemoveNode(node_); }

  absl::StatusOr<std::string> Listen(const std::string& address) override {
    if (node_->crashed) return Crashed();
    return core_->Listen(node_, address);
  }
  absl::StatusOr<ConnectionId> Connect(const std::string& address) override {
    if (node_->crashed) return Crashed();
    return core_->Connect(node_, address);
  }
  absl::Status Send(ConnectionId to, absl::string_view header,
                    Payload payload) override {
    if (node_->crashed) return Crashed();
    return core_->Send(node_, to, header, std::move(payload));
  }
  void Close(ConnectionId connection) override {
    if (!node_->crashed) core_->Close(node_, connection);
  }
  absl::Status Poll(absl::Duration timeout,
                    std::vector<Event>* events) override {
    if (node_->crashed) return Crashed();
    return core_->Poll(node_, events);
  }
  void Wake() override {
    if (!node_->crashed) core_->Wake(node_);
  }

 private:
  static absl::Status Crashed() {
    return absl::AbortedError("this node has crashed");
  }

  SimCore* core_;
  SimNode* node_;
};

}  // namespace

SimNetwork::SimNetwork(const SimOptions& options)
    : core_(std::make_unique<SimCore>(options)) {}
SimNetwork::~SimNetwork() = default;

std::unique_ptr<Transport> SimNetwork::MakeNode(const std::string& name,
                                                const Limits& limits) {
  return std::make_unique<SimTransport>(core_.get(),
                                        core_->AddNode(name, limits));
}

void SimNetwork::SetRates(const std::string& name, const SimRates& rates) {
  core_->SetRates(name, rates);
}

absl::Time SimNetwork::Now() const { return core_->now(); }
absl::Time SimNetwork::NextEventTime() const { return core_->NextEventTime(); }
bool SimNetwork::Step() { return core_->Step(); }
void SimNetwork::RunUntil(absl::Time time) { core_->RunUntil(time); }
std::vector<std::string> SimNetwork::ReadyNodes() const {
  return core_->ReadyNodes();
}

int SimNetwork::BreakConnections(const std::string& a, const std::string& b) {
  return core_->BreakConnections(a, b);
}
bool SimNetwork::BreakRandomConnection() {
  return core_->BreakRandomConnection();
}
void SimNetwork::Partition(const std::string& a, const std::string& b,
                           Cut cut) {
  core_->Partition(a, b, cut == Cut::kBreak);
}
void SimNetwork::Heal(const std::string& a, const std::string& b) {
  core_->Heal(a, b);
}
void SimNetwork::HealAll() { core_->HealAll(); }
void SimNetwork::CrashNode(const std::string& name) { core_->Crash(name); }

}  // namespace parapet::net
