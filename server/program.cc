#include "server/program.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/flags.h"
#include "common/json_parse.h"
#include "common/model_spec.h"
#include "common/net/make_transport.h"
#include "common/process_setup.h"
#include "common/status_macros.h"
#include "kernels/shard_choice.h"
#include "server/audit.h"
#include "server/audit_writer.h"
#include "server/node.h"
#include "server/progress.h"
#include "server/rule_check.h"
#include "server/rules/chain.h"

namespace parapet {
namespace {

constexpr absl::Duration kLongestPoll = absl::Milliseconds(100);

// The snapshot to start from: what --resume names, or nothing for a fresh
// start.
absl::StatusOr<std::optional<Snapshot>> FindStart(const ServerFlags& flags,
                                                  Disk& disk, Logger& logger) {
  const SnapshotConfig& config = flags.snapshot;
  if (config.resume.empty()) {
    std::vector<std::string> passed_over;
    if (!config.dir.empty() &&
        FindSnapshot(disk, config.dir, &passed_over).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--snapshot_dir=", config.dir,
          " has snapshots of a job: say --resume to go on with it, or "
          "choose another folder"));
    }
    return std::nullopt;
  }
  std::vector<std::string> passed_over;
  absl::StatusOr<Snapshot> found =
      config.resume == "latest"
          ? FindSnapshot(disk, config.dir, &passed_over)
          : OpenSnapshot(disk, absl::StrCat(config.dir, "/", config.resume));
  for (const std::string& words : passed_over)
    logger.warn("passed over: {}", words);
  if (absl::IsNotFound(found.status()) && config.resume == "latest") {
    logger.info("there is no snapshot in {} yet: a fresh start", config.dir);
    return std::nullopt;
  }
  PARAPET_RETURN_IF_ERROR(found.status());
  logger.info("continues from {} (version {})", found->path,
              found->manifest.version);
  return *std::move(found);
}

absl::Status CheckResume(const ServerNodeConfig& config, const Layout& layout,
                         Logger& logger) {
  if (!config.resume) return absl::OkStatus();
  if (config.resume->manifest.layout_hash == layout.hash()) {
    if (config.resume->manifest.job != config.job.ToText()) {
      logger.warn("the job's flags are not those that {} was written with",
                  config.resume->path);
    }
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(config.resume->path,
                   " is of another model than --model=", config.job.model));
}

absl::Status WritePortFile(const std::string& path, const std::string& address,
                           Disk& disk) {
  if (path.empty()) return absl::OkStatus();
  const std::string port = address.substr(address.rfind(':') + 1);
  return ReplaceFile(disk, path, port);
}

// The lead has the job's summary; every server has what it refused.
absl::Status WriteSummary(const ServerFlags& flags, const ServerNode& node,
                          Disk& disk) {
  const auto& summary = node.outcome()->summary;
  if (flags.summary_file.empty() || (flags.index == 0 && !summary))
    return absl::OkStatus();
  nlohmann::json json =
      summary ? SummaryJson(*summary) : nlohmann::json::object();
  json["refusals"] = nlohmann::json::object();
  for (const auto& [code, count] : node.refusals())
    json["refusals"][NameOf(code)] = count;
  return ReplaceFile(disk, flags.summary_file, JsonText(json) + "\n");
}

ServerNodeConfig MakeNodeConfig(const ServerFlags& flags, uint64_t samples,
                                std::optional<Snapshot> resume) {
  ServerNodeConfig config;
  config.index = flags.index;
  config.listen =
      flags.listen.empty() ? flags.servers[flags.index] : flags.listen;
  config.lead = flags.servers[0];
  config.job = flags.job;
  config.patience = flags.patience;
  config.snapshot = flags.snapshot;
  config.evaluators = flags.job.evaluators;
  config.samples = flags.job.data_split == "own" ? 0 : samples;
  // A term must be new at every start of the lead: above the last one, and of
  // this moment.
  const auto seconds = static_cast<uint64_t>(absl::ToUnixSeconds(absl::Now()));
  config.term = std::max(seconds, resume ? resume->manifest.term + 1 : 0);
  config.nonce = SystemRandom();
  config.rule_secret = flags.rule_secret ? *flags.rule_secret : SystemRandom();
  config.resume = std::move(resume);
  return config;
}

// Drives the node until the job is over for it.
absl::Status Loop(ServerNode& node, net::Transport& transport, Clock& clock,
                  const std::atomic<int>& stop, ProgressPrinter& progress,
                  AuditWriter* audit) {
  std::vector<net::Event> events;
  bool stop_told = false;
  while (!node.outcome()) {
    events.clear();
    const absl::Duration wait = std::clamp(node.NextDeadline() - clock.Now(),
                                           absl::ZeroDuration(), kLongestPoll);
    PARAPET_RETURN_IF_ERROR(transport.Poll(wait, &events));
    const absl::Time now = clock.Now();
    for (net::Event& event : events) node.Handle(std::move(event), now);
    // After what came: a process that stood still must read before it judges
    // that nothing came.
    node.Tick(now);
    if (audit != nullptr) audit->Turn();
    if (stop != 0 && !std::exchange(stop_told, true)) {
      node.RequestStop(
          absl::StrCat("was asked to stop (signal ", stop.load(), ")"), now);
    }
    const auto shown = node.GetProgress(now);
    if (shown && shown->samples_per_second > 0) progress.Show(*shown, now);
  }
  progress.End();
  return absl::OkStatus();
}

uint64_t VersionOf(const std::optional<Snapshot>& start) {
  return start ? start->manifest.version : 0;
}

// Null where there is nothing to write. `version` is where the job begins.
absl::StatusOr<std::unique_ptr<AuditWriter>> MakeAudit(
    const ServerFlags& flags, uint64_t version, Disk& disk, Logger& logger,
    std::function<void()> wake) {
  if (flags.audit.empty() || flags.index != 0) return nullptr;
  const JobConfig& job = flags.job;
  absl::StatusOr<std::unique_ptr<AuditWriter>> audit = AuditWriter::Create(
      {.path = flags.audit,
       .first_line = AuditJobLine(
           {job.job_id, version, job.rule, job.byzantine, job.workers}),
       .max_bytes = flags.audit_bytes},
      &disk, MakePoolExecutor(1, std::move(wake)),
      [&logger](const std::string& words) {
        logger.warn("--audit: {}", words);
      });
  if (audit.ok()) return audit;
  return absl::InvalidArgumentError(
      absl::StrCat("--audit=", flags.audit, ": ", audit.status().message()));
}

// The last lines are worth a moment, but not more.
void FinishAudit(AuditWriter* audit, Clock& clock) {
  const absl::Time until = clock.Now() + absl::Seconds(5);
  while (audit != nullptr && !audit->idle() && clock.Now() < until) {
    audit->Turn();
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// What follows from the flags, the data and the snapshot to start from.
struct Plan {
  Layout layout;
  ShardMap map;
  ServerNodeConfig config;
};

absl::StatusOr<Plan> MakePlan(const ServerFlags& flags, Disk& disk,
                              Logger& logger) {
  // Data that differ from worker to worker have one shape; the first worker's
  // says it.
  PARAPET_ASSIGN_OR_RETURN(
      DataFacts facts,
      DescribeData(absl::StrReplaceAll(flags.job.data, {{"{id}", "0"}})));
  if (flags.job.train_samples > 0)
    facts.train_samples = flags.job.train_samples;
  PARAPET_ASSIGN_OR_RETURN(Layout layout,
                           ModelLayout(flags.job.model, facts.shape));
  PARAPET_ASSIGN_OR_RETURN(
      ShardMap map, ShardMap::Create(layout.elements(),
                                     static_cast<int>(flags.servers.size()),
                                     flags.job.chunk, flags.job.leaf));
  std::optional<Snapshot> resume;
  if (flags.index == 0) {
    PARAPET_ASSIGN_OR_RETURN(resume, FindStart(flags, disk, logger));
  }
  ServerNodeConfig config = MakeNodeConfig(
      flags, static_cast<uint64_t>(facts.train_samples), std::move(resume));
  PARAPET_RETURN_IF_ERROR(CheckResume(config, layout, logger));
  return Plan{std::move(layout), map, std::move(config)};
}

// What a node works with, made from the flags. Members end in reverse order:
// threads wake the transport and so end before it.
struct Tools {
  Tools(const ServerFlags& flags, const ShardMap& map, Disk& its_disk,
        Logger& its_logger)
      : disk(its_disk),
        logger(its_logger),
        transport(
            net::MakeTransport(flags.servers[0], map, NetworkThreads(flags))),
        progress(
            ParseProgressStyle(flags.progress, isatty(STDERR_FILENO) != 0)),
        reducer(MakeExecutor(ReducingThreads(flags), Waker())),
        writer(MakePoolExecutor(1, Waker())),
        planner(MakePoolExecutor(1, Waker())) {
    if (!flags.trace.empty())
      trace = std::make_unique<Trace>(logger.name(), flags.index, 1 << 20);
  }

  std::function<void()> Waker() {
    return [this] { transport->Wake(); };
  }
  ServerNodeParts Parts() {
    return {transport.get(), reducer.get(), writer.get(), device.get(),
            &disk,           &logger,       trace.get(),  SystemRandom,
            planner.get(),   shard.get()};
  }

  Disk& disk;
  Logger& logger;
  SteadyClock clock;
  const std::unique_ptr<Device> device = MakeCpuDevice();
  std::unique_ptr<ShardDevice> shard;
  const std::unique_ptr<net::Transport> transport;
  std::unique_ptr<Trace> trace;
  ProgressPrinter progress;
  const std::unique_ptr<Executor> reducer, writer, planner;
};

// What this server's shard asks of a device's memory.
cuda::MemoryNeeds NeedsOf(const ServerFlags& flags, const ShardMap& map,
                          int64_t credit) {
  const rules::Chain chain = rules::Chain::Parse(flags.job.rule).value();
  cuda::MemoryNeeds needs;
  for (int64_t local = 0; local < map.ChunksOf(flags.index); ++local) {
    needs.shard_elements +=
        map.ChunkRange(map.ChunkOf(flags.index, local)).size();
  }
  needs.chunk_elements = std::min(map.chunk_elements(), map.elements());
  needs.leaf_elements = map.leaf_elements();
  needs.rows = flags.job.workers;
  needs.moments = flags.job.optimizer.moments();
  needs.previous = chain.needs_previous();
  needs.aggregates = flags.job.clip_norm > 0;
  needs.distances = chain.needs_distances();
  needs.credit_chunks = credit;
  needs.calls = std::max(1, ReducingThreads(flags));
  return needs;
}

absl::Status ChooseShard(const ServerFlags& flags, const ShardMap& map,
                         int64_t credit, Tools* tools) {
  PARAPET_ASSIGN_OR_RETURN(
      ShardChoice choice,
      ChooseShardDevice(flags.device, flags.index, *tools->device,
                        NeedsOf(flags, map, credit)));
  tools->logger.info("the shard is on {}", choice.why);
  tools->shard = std::move(choice.device);
  return absl::OkStatus();
}

// `audit` may be null.
ServerNodeHooks MakeHooks(ProgressPrinter& progress, AuditWriter* audit) {
  ServerNodeHooks hooks;
  hooks.on_evaluated = [&progress](const EvalReportMessage& report, bool last) {
    progress.ShowEvaluation(report, last);
  };
  if (audit == nullptr) return hooks;
  hooks.on_record = [audit](const RoundRecord& record) {
    audit->Add(AuditLine(record));
  };
  return hooks;
}

// From listening to the end of the job.
absl::Status Serve(const ServerFlags& flags, const ShardMap& map,
                   StopSignals& signals, Tools& tools, AuditWriter* audit,
                   ServerNode& node) {
  std::atomic<int> stop = 0;
  signals.OnStop([&stop, &tools](int signal) {
    stop = signal;
    tools.transport->Wake();
  });
  const absl::Cleanup deaf = [&signals] { signals.OnStop(nullptr); };
  PARAPET_ASSIGN_OR_RETURN(const std::string address,
                           node.Start(tools.clock.Now()));
  tools.logger.info("listens at {}; {} of {} chunks", address,
                    map.ChunksOf(flags.index), map.chunks());
  PARAPET_RETURN_IF_ERROR(WritePortFile(flags.port_file, address, tools.disk));
  const absl::Status looped =
      Loop(node, *tools.transport, tools.clock, stop, tools.progress, audit);
  FinishAudit(audit, tools.clock);
  return looped;
}

int Tell(const ServerNode::Outcome& outcome, Logger& logger) {
  const int code = ExitCodeOf(outcome.code);
  if (!outcome.words.empty())
    logger.log(code == 0 ? spdlog::level::info : spdlog::level::err, "{}",
               outcome.words);
  return code;
}

void WarnOfRule(const ServerFlags& flags, Logger& logger) {
  if (flags.index != 0) return;
  for (const std::string& words :
       RuleWarnings(flags.job, flags.rule_secret.has_value()))
    logger.warn("{}", words);
}

absl::StatusOr<int> Run(const ServerFlags& flags, StopSignals& signals,
                        Logger& logger) {
  const std::unique_ptr<Disk> disk = MakePosixDisk();
  PARAPET_ASSIGN_OR_RETURN(const Plan plan, MakePlan(flags, *disk, logger));
  Tools tools(flags, plan.map, *disk, logger);
  PARAPET_RETURN_IF_ERROR(
      ChooseShard(flags, plan.map, plan.config.credit_window, &tools));
  PARAPET_ASSIGN_OR_RETURN(const std::unique_ptr<AuditWriter> audit,
                           MakeAudit(flags, VersionOf(plan.config.resume),
                                     *disk, logger, tools.Waker()));
  WarnOfRule(flags, logger);
  ServerNode node(plan.config, plan.layout, plan.map, tools.Parts(),
                  MakeHooks(tools.progress, audit.get()), tools.clock.Now());
  PARAPET_RETURN_IF_ERROR(
      Serve(flags, plan.map, signals, tools, audit.get(), node));
  if (tools.trace != nullptr)
    PARAPET_RETURN_IF_ERROR(tools.trace->Write(*disk, flags.trace));
  PARAPET_RETURN_IF_ERROR(WriteSummary(flags, node, *disk));
  return Tell(*node.outcome(), logger);
}

}  // namespace

int RunServerProgram(int argc, char** argv) {
  SetUpProcess();
  absl::StatusOr<ServerFlags> flags = ParseServerFlags(argc, argv, CheckRule);
  if (!flags.ok()) {
    std::fprintf(stderr, "parapet-server: %s\n",
                 std::string(flags.status().message()).c_str());
    return kExitUsage;
  }
  if (!flags->print.empty()) {
    std::fputs(flags->print.c_str(), stdout);
    return kExitDone;
  }
  StopSignals signals;
  const auto logger =
      MakeLogger(absl::StrCat("server ", flags->index), flags->log_level);
  absl::StatusOr<int> code = Run(*flags, signals, *logger);
  if (code.ok()) return *code;
  logger->error("{}", std::string(code.status().message()));
  return absl::IsInvalidArgument(code.status()) ? kExitUsage : kExitFailed;
}

}  // namespace parapet
