#include "tools/bench_players.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/net/make_transport.h"
#include "common/net/zmq_echo.h"
#include "common/process_setup.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/node.h"
#include "worker/client.h"

namespace parapet {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) +
           1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// ---- Processes
// ----------------------------------------------------------------------------------

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::string text;
};

[[noreturn]] void Play(
    const std::function<absl::StatusOr<PlayerReport>()>& player, int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  absl::StatusOr<PlayerReport> report = player();
  nlohmann::json json;
  if (report.ok()) {
    json = {{"round_ms", report->round_ms}, {"cpu_seconds", CpuSeconds()}};
  } else {
    json = {{"error", std::string(report.status().message())}};
  }
  const std::string text = json.dump();
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote <= 0) break;
    at += static_cast<size_t>(wrote);
  }
  // Without destructors of the parent's copies.
  _exit(0);
}

absl::StatusOr<Child> Start(
    const std::function<absl::StatusOr<PlayerReport>()>& player) {
  int ends[2];
  if (pipe(ends) != 0)
    return absl::ResourceExhaustedError("no pipe is to be had");
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError("no process is to be had");
  if (pid == 0) {
    close(ends[0]);
    Play(player, ends[1]);
  }
  close(ends[1]);
  return Child{pid, ends[0], ""};
}

// Reads what every child writes until all have closed their ends.
absl::Status ReadAll(std::vector<Child>& children, double timeout_seconds) {
  SteadyClock clock;
  const absl::Time deadline = clock.Now() + absl::Seconds(timeout_seconds);
  while (true) {
    std::vector<pollfd> fds;
    for (const Child& child : children) {
      if (child.fd >= 0) fds.push_back({child.fd, POLLIN, 0});
    }
    if (fds.empty()) return absl::OkStatus();
    const int64_t left = absl::ToInt64Milliseconds(deadline - clock.Now());
    if (left <= 0)
      return absl::DeadlineExceededError(
          "a process of the benchmark did not end in time");
    poll(fds.data(), fds.size(), static_cast<int>(left));
    for (const pollfd& ready : fds) {
      if (ready.revents == 0) continue;
      auto child =
          std::find_if(children.begin(), children.end(),
                       [&](const Child& c) { return c.fd == ready.fd; });
      char buffer[65536];
      const ssize_t got = read(ready.fd, buffer, sizeof(buffer));
      if (got > 0) {
        child->text.append(buffer, static_cast<size_t>(got));
      } else {
        close(ready.fd);
        child->fd = -1;
      }
    }
  }
}

absl::StatusOr<PlayerReport> ParseReport(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded())
    return absl::InternalError("a process of the benchmark died");
  if (json.contains("error"))
    return absl::InternalError(json["error"].get<std::string>());
  return PlayerReport{json["round_ms"].get<std::vector<double>>(),
                      json["cpu_seconds"].get<double>()};
}

// ---- Parapet's players
// --------------------------------------------------------------------------

std::string ServerAddress(const RoundBench& bench, const std::string& dir,
                          const char* kind, int index) {
  if (bench.transport != "tcp")
    return absl::StrCat(bench.transport, "://", dir, "/", kind, "-", index);
  return absl::StrCat("tcp://127.0.0.1:", bench.ports.at(index));
}

JobConfig MakeJob(const RoundBench& bench) {
  JobConfig job;
  job.job_id = "bench";
  job.servers = bench.servers;
  job.workers = bench.workers;
  job.model = "flat";
  job.data = "none";
  job.batch = 1;
  job.rounds = bench.rounds + bench.warmup;
  job.chunk = bench.chunk;
  job.hash_every = 0;
  // What is measured is the way there and back, not an optimizer's memory.
  job.optimizer.kind = OptimizerKind::kSgd;
  return job;
}

absl::StatusOr<Layout> MakeLayout(const RoundBench& bench) {
  return Layout::Create(
      {{"flat", {std::max<int64_t>(1, bench.bytes / 4)}, {}}});
}

absl::StatusOr<ShardMap> MakeMap(const RoundBench& bench,
                                 const Layout& layout) {
  return ShardMap::Create(layout.elements(), bench.servers, bench.chunk);
}

ServerNodeConfig MakeNodeConfig(const RoundBench& bench, const std::string& dir,
                                int index) {
  ServerNodeConfig config;
  config.index = index;
  config.listen = ServerAddress(bench, dir, "server", index);
  config.lead = ServerAddress(bench, dir, "server", 0);
  config.job = MakeJob(bench);
  config.samples = static_cast<uint64_t>(bench.workers) *
                   static_cast<uint64_t>(config.job.rounds);
  config.nonce = SystemRandom();
  return config;
}

absl::StatusOr<PlayerReport> PlayServer(const RoundBench& bench,
                                        const std::string& dir, int index) {
  PARAPET_ASSIGN_OR_RETURN(const Layout layout, MakeLayout(bench));
  PARAPET_ASSIGN_OR_RETURN(const ShardMap map, MakeMap(bench, layout));
  const auto transport =
      net::MakeTransport(ServerAddress(bench, dir, "server", index), map);
  const auto reducer =
      MakeExecutor(bench.server_threads, [&] { transport->Wake(); });
  const auto writer = MakeInlineExecutor();
  const auto device = MakeCpuDevice();
  const auto disk = MakePosixDisk();
  const auto logger = MakeLogger(absl::StrCat("server ", index), "warn");
  SteadyClock clock;
  ServerNode node(MakeNodeConfig(bench, dir, index), layout, map,
                  {transport.get(), reducer.get(), writer.get(), device.get(),
                   disk.get(), logger.get(), nullptr, SystemRandom},
                  {}, clock.Now());
  PARAPET_RETURN_IF_ERROR(node.Start(clock.Now()).status());
  std::vector<net::Event> events;
  while (!node.outcome()) {
    events.clear();
    const absl::Duration wait =
        std::clamp(node.NextDeadline() - clock.Now(), absl::ZeroDuration(),
                   absl::Milliseconds(100));
    PARAPET_RETURN_IF_ERROR(transport->Poll(wait, &events));
    const absl::Time now = clock.Now();
    for (net::Event& event : events) node.Handle(std::move(event), now);
    node.Tick(now);
  }
  const ServerNode::Outcome& outcome = *node.outcome();
  if (outcome.code != Code::kOk) {
    return absl::InternalError(absl::StrCat(
        "server ", index, ": ", NameOf(outcome.code), " ", outcome.words));
  }
  return PlayerReport{};
}

ClientConfig MakeClientConfig(const RoundBench& bench, const std::string& dir,
                              const Layout& layout, int id) {
  const JobConfig job = MakeJob(bench);
  ClientConfig config;
  config.session.self = {Role::kWorker, static_cast<uint32_t>(id)};
  config.session.nonce = SystemRandom();
  config.session.layout_hash = layout.hash();
  config.session.samples =
      static_cast<uint64_t>(bench.workers) * static_cast<uint64_t>(job.rounds);
  config.session.job = job.ToText();
  for (int s = 0; s < bench.servers; ++s)
    config.servers.push_back(ServerAddress(bench, dir, "server", s));
  return config;
}

// All rounds of a worker that has joined: waits for all weights, pushes all
// chunks.
absl::StatusOr<PlayerReport> PlayRounds(const RoundBench& bench,
                                        const ShardMap& map, Client& client) {
  SteadyClock clock;
  PlayerReport report;
  absl::Time began;
  for (int done = 0;; ++done) {
    const absl::StatusOr<Client::Next> next = client.WaitNext();
    // The goodbye came before the last version was looked at.
    if (absl::IsCancelled(next.status())) return report;
    PARAPET_RETURN_IF_ERROR(next.status());
    float* gradient = client.BeginRound(*next);
    const absl::Status whole = client.Await({0, map.elements()});
    if (absl::IsCancelled(whole)) return report;  // likewise
    PARAPET_RETURN_IF_ERROR(whole);
    const absl::Time now = clock.Now();
    if (done > bench.warmup)
      report.round_ms.push_back(absl::ToDoubleMilliseconds(now - began));
    if (next->kind == Client::Next::Kind::kEnd) return report;
    if (done == 0) std::fill(gradient, gradient + map.elements(), 1e-3f);
    began = clock.Now();
    for (int64_t chunk = map.chunks() - 1; chunk >= 0; --chunk)
      client.Push(map.ChunkRange(chunk));
    client.EndRound(0, 0, {});
  }
}

absl::StatusOr<PlayerReport> PlayWorker(const RoundBench& bench,
                                        const std::string& dir, int id) {
  PARAPET_ASSIGN_OR_RETURN(const Layout layout, MakeLayout(bench));
  PARAPET_ASSIGN_OR_RETURN(const ShardMap map, MakeMap(bench, layout));
  const auto device = MakeCpuDevice();
  const auto logger = MakeLogger(absl::StrCat("worker ", id), "warn");
  SteadyClock clock;
  Client client(MakeClientConfig(bench, dir, layout, id), map,
                net::MakeTransport(ServerAddress(bench, dir, "server", 0), map),
                device.get(), &clock, logger.get(), nullptr);
  PARAPET_RETURN_IF_ERROR(client.Join().status());
  PARAPET_ASSIGN_OR_RETURN(PlayerReport report, PlayRounds(bench, map, client));
  PARAPET_RETURN_IF_ERROR(client.Leave());
  return report;
}

}  // namespace

absl::StatusOr<std::vector<PlayerReport>> RunPlayers(
    const std::vector<std::function<absl::StatusOr<PlayerReport>()>>& players,
    double timeout_seconds) {
  std::vector<Child> children;
  absl::Status status;
  for (const auto& player : players) {
    absl::StatusOr<Child> child = Start(player);
    status = child.status();
    if (!status.ok()) break;
    children.push_back(*std::move(child));
  }
  if (status.ok()) status = ReadAll(children, timeout_seconds);
  std::vector<PlayerReport> reports;
  for (Child& child : children) {
    if (child.fd >= 0) {
      kill(child.pid, SIGKILL);
      close(child.fd);
    }
    waitpid(child.pid, nullptr, 0);
    if (!status.ok()) continue;
    absl::StatusOr<PlayerReport> report = ParseReport(child.text);
    status = report.status();
    if (report.ok()) reports.push_back(*std::move(report));
  }
  if (!status.ok()) return status;
  return reports;
}

absl::StatusOr<std::vector<int>> FreePorts(int count) {
  std::vector<int> sockets, ports;
  const auto close_all = absl::MakeCleanup([&sockets] {
    for (const int s : sockets) close(s);
  });
  for (int i = 0; i < count; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    sockets.push_back(socket(AF_INET, SOCK_STREAM, 0));
    if (bind(sockets.back(), raw, size) != 0 ||
        getsockname(sockets.back(), raw, &size) != 0) {
      return absl::UnavailableError("no port of 127.0.0.1 is to be had");
    }
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

absl::StatusOr<std::vector<PlayerReport>> RunParapetRounds(
    const RoundBench& bench, const std::string& dir) {
  std::vector<std::function<absl::StatusOr<PlayerReport>()>> players;
  for (int w = 0; w < bench.workers; ++w)
    players.push_back([=] { return PlayWorker(bench, dir, w); });
  for (int s = 0; s < bench.servers; ++s)
    players.push_back([=] { return PlayServer(bench, dir, s); });
  return RunPlayers(players, 300);
}

absl::StatusOr<std::vector<PlayerReport>> RunRawEcho(const RoundBench& bench,
                                                     const std::string& dir) {
  PARAPET_ASSIGN_OR_RETURN(const Layout layout, MakeLayout(bench));
  PARAPET_ASSIGN_OR_RETURN(const ShardMap map, MakeMap(bench, layout));
  const int rounds = bench.rounds + bench.warmup;
  std::vector<std::string> addresses;
  RoundBench echo = bench;
  if (echo.transport == "shm") echo.transport = "ipc";  // zmq has no other
  for (int s = 0; s < bench.servers; ++s)
    addresses.push_back(ServerAddress(echo, dir, "echo", s));
  const auto bytes = static_cast<size_t>(map.ChunkRange(0).size() * 4);
  std::vector<std::function<absl::StatusOr<PlayerReport>()>> players;
  for (int w = 0; w < bench.workers; ++w) {
    players.push_back([=]() -> absl::StatusOr<PlayerReport> {
      PARAPET_ASSIGN_OR_RETURN(
          const auto times,
          net::RunZmqEchoClient(
              {addresses, map.chunks(), bytes, rounds, bench.hot_echo}));
      PlayerReport report;
      for (size_t i = static_cast<size_t>(bench.warmup); i < times.size();
           ++i) {
        report.round_ms.push_back(absl::ToDoubleMilliseconds(times[i]));
      }
      return report;
    });
  }
  for (int s = 0; s < bench.servers; ++s) {
    const int64_t messages = map.ChunksOf(s) * rounds * bench.workers;
    players.push_back([=]() -> absl::StatusOr<PlayerReport> {
      PARAPET_RETURN_IF_ERROR(net::RunZmqEcho(addresses[s], messages));
      return PlayerReport{};
    });
  }
  return RunPlayers(players, 300);
}

}  // namespace parapet
