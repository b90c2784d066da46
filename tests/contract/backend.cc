#include "tests/contract/backend.h"

#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "common/net/shm_transport.h"
#include "common/net/sim_transport.h"
#include "common/net/zmq_transport.h"

namespace parapet::net {
namespace {

class ZmqBackend : public Backend {
 public:
  explicit ZmqBackend(bool ipc) : ipc_(ipc) {}
  std::unique_ptr<Transport> Make(const Limits& limits) override {
    ZmqOptions options;
    options.limits = limits;
    options.connect_timeout = absl::Seconds(5);
    return MakeZmqTransport(options);
  }
  std::string ListenAddress() override {
    static std::atomic<int> next{0};
    if (!ipc_) return "tcp://127.0.0.1:0";
    return absl::StrCat("ipc:///tmp/parapet-contract-", getpid(), "-", next++);
  }
  std::string DeadAddress() override {
    return ipc_ ? "ipc:///tmp/parapet-contract-nobody" : "tcp://127.0.0.1:1";
  }
  std::string BadAddress() override {
    return ipc_ ? "ipc://" : "tcp://127.0.0.1";
  }
  void Advance() override {}
  bool real() const override { return true; }

 private:
  bool ipc_;
};

class ShmBackend : public Backend {
 public:
  std::unique_ptr<Transport> Make(const Limits& limits) override {
    ShmOptions options;
    options.limits = limits;
    options.connect_timeout = absl::Seconds(5);
    return MakeShmTransport(options);
  }
  std::string ListenAddress() override {
    static std::atomic<int> next{0};
    return absl::StrCat("shm:///tmp/parapet-contract-", getpid(), "-s", next++);
  }
  std::string DeadAddress() override {
    return "shm:///tmp/parapet-contract-nobody";
  }
  std::string BadAddress() override { return "shm://"; }
  void Advance() override {}
  bool real() const override { return true; }
};

class SimBackend : public Backend {
 public:
  std::unique_ptr<Transport> Make(const Limits& limits) override {
    return network_.MakeNode(absl::StrCat("node", nodes_++), limits);
  }
  std::string ListenAddress() override {
    return absl::StrCat("sim://listener", nodes_);
  }
  std::string DeadAddress() override { return "sim://nobody"; }
  std::string BadAddress() override { return "sim://"; }
  void Advance() override {
    network_.RunUntil(network_.Now() + absl::Milliseconds(1));
  }
  bool real() const override { return false; }

 private:
  SimNetwork network_{SimOptions()};
  int nodes_ = 0;
};

}  // namespace

std::vector<BackendCase> AllBackends() {
  return {{"zmq_tcp", [] { return std::make_unique<ZmqBackend>(false); }},
          {"zmq_ipc", [] { return std::make_unique<ZmqBackend>(true); }},
          {"shm", [] { return std::make_unique<ShmBackend>(); }},
          {"sim", [] { return std::make_unique<SimBackend>(); }}};
}

int Peer::Count(Event::Kind kind) const {
  int count = 0;
  for (const Event& e : events) count += e.kind == kind;
  return count;
}

std::vector<std::string> Peer::Headers() const {
  std::vector<std::string> headers;
  for (const Event& e : events) {
    if (e.kind == Event::Kind::kMessage) headers.push_back(e.header);
  }
  return headers;
}

const Event* Peer::Last(Event::Kind kind) const {
  for (auto it = events.rbegin(); it != events.rend(); ++it) {
    if (it->kind == kind) return &*it;
  }
  return nullptr;
}

}  // namespace parapet::net
