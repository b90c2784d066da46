// What a server leaves behind when it ends in the midst of a round.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/memory_disk.h"
#include "gtest/gtest.h"
#include "server/node.h"

namespace parapet {
namespace {

class NoTransport final : public net::Transport {
 public:
  absl::StatusOr<std::string> Listen(const std::string& address) override {
    return address;
  }
  absl::StatusOr<net::ConnectionId> Connect(const std::string&) override {
    return absl::UnavailableError("nobody is there");
  }
  absl::Status Send(net::ConnectionId, absl::string_view, Payload) override {
    return absl::UnavailableError("nobody is there");
  }
  void Close(net::ConnectionId) override {}
  absl::Status Poll(absl::Duration, std::vector<net::Event>*) override {
    return absl::OkStatus();
  }
  void Wake() override {}
};

class NotingExecutor final : public Executor {
 public:
  void Submit(std::function<void()>, std::function<void()>) override {}
  int RunDone() override { return 0; }
  void Abandon() override { abandoned = true; }
  bool abandoned = false;
};

// Threads may be at work on its memory.
TEST(ServerNodeEndTest, AbandonsWhatIsWorkedOn) {
  const Layout layout = *Layout::Create({{"a", {100}, {}}});
  const ShardMap map = *ShardMap::Create(100, 1, 16, 8);
  NoTransport transport;
  NotingExecutor reducer, writer, planner;
  const std::unique_ptr<Device> device = MakeCpuDevice();
  MemoryDisk disk;
  const std::shared_ptr<Logger> logger = MakeNullLogger();
  ServerNodeConfig config;
  config.job.rule = "mean";
  const ServerNodeParts parts{
      &transport, &reducer,     &writer, device.get(),
      &disk,      logger.get(), nullptr, [] { return uint64_t{1}; },
      &planner};
  {
    const ServerNode node(config, layout, map, parts, ServerNodeHooks(),
                          absl::UnixEpoch());
    EXPECT_FALSE(reducer.abandoned || writer.abandoned);
  }
  EXPECT_TRUE(reducer.abandoned);
  EXPECT_TRUE(writer.abandoned);
  // A plan uses nothing of the node's, and may take seconds.
  EXPECT_FALSE(planner.abandoned);
}

}  // namespace
}  // namespace parapet
