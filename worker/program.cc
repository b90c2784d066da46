#include "worker/program.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/flags.h"
#include "common/net/make_transport.h"
#include "common/process_setup.h"
#include "common/status_macros.h"
#include "worker/device_choice.h"
#include "worker/gpu.h"
#include "worker/trainer.h"

namespace parapet {
namespace {

struct Loaded {
  std::unique_ptr<Model> model;
  std::unique_ptr<Dataset> data;
};

absl::StatusOr<ComputeConfig> MakeCompute(const WorkerFlags& flags,
                                          Logger& logger) {
  const bool bfloat16 = flags.compute == "bfloat16";
  const char* const rank = ::getenv("LOCAL_RANK");
  PARAPET_ASSIGN_OR_RETURN(
      const DeviceChoice choice,
      ChooseDevice(flags.device, bfloat16, rank == nullptr ? "" : rank,
                   flags.device == "cpu" ? cuda::DriverFacts() : AskGpus()));
  const ComputeConfig compute{flags.threads, flags.isa, choice.gpu, bfloat16};
  logger.info("computes on {} ({})",
              choice.gpu < 0 ? "the CPU" : absl::StrCat("GPU ", choice.gpu),
              choice.why);
  return compute;
}

absl::StatusOr<Loaded> Load(const WorkerFlags& flags,
                            const ComputeConfig& compute) {
  PARAPET_ASSIGN_OR_RETURN(DataSplits splits,
                           LoadData(flags.data, flags.job.seed));
  Loaded loaded;
  loaded.data = std::move(flags.evaluator ? splits.test : splits.train);
  PARAPET_ASSIGN_OR_RETURN(
      loaded.model, MakeModel(flags.job.model, loaded.data->shape(), compute));
  return loaded;
}

ClientConfig MakeClientConfig(const WorkerFlags& flags, const Loaded& loaded,
                              const std::string& fingerprint) {
  ClientConfig config;
  config.session.self = {flags.evaluator ? Role::kEvaluator : Role::kWorker,
                         static_cast<uint32_t>(flags.id)};
  config.session.connections = flags.job.connections;
  config.session.nonce = SystemRandom();
  config.session.layout_hash = loaded.model->layout().hash();
  config.session.samples = static_cast<uint64_t>(loaded.data->samples());
  if (flags.job.train_samples > 0 && flags.job.data_split == "shared") {
    config.session.samples = std::min(
        config.session.samples, static_cast<uint64_t>(flags.job.train_samples));
  }
  config.session.fingerprint = fingerprint;
  config.session.job = flags.job.ToText();
  config.session.wire = flags.job.wire;
  config.session.wire_scale =
      flags.job.wire == DType::kFloat16 ? flags.job.wire_scale : 1;
  config.session.patience = flags.patience;
  config.servers = flags.servers;
  config.batch = static_cast<uint64_t>(flags.job.batch);
  config.own_data = flags.job.data_split == "own";
  return config;
}

int ExitCode(const absl::Status& status, const Client& client, Logger& logger) {
  if (status.ok()) return kExitDone;
  logger.error("{}", std::string(status.message()));
  const int code = ExitCodeOf(client.code());
  return code == 0 ? kExitFailed : code;
}

// One number for (who, pid) lines in a timeline: servers first, then workers,
// then evaluators.
int TraceRow(const WorkerFlags& flags) {
  return (flags.evaluator ? 200'000 : 100'000) + flags.id;
}

std::unique_ptr<Trace> MakeTrace(const WorkerFlags& flags,
                                 const Logger& logger) {
  if (flags.trace.empty()) return nullptr;
  return std::make_unique<Trace>(logger.name(), TraceRow(flags), 1 << 20);
}

absl::Status Work(const WorkerFlags& flags, const AttackPlan& attack,
                  const TrainerParts& parts) {
  if (flags.evaluator) return RunEvaluator(parts);
  const TrainerConfig config{static_cast<uint32_t>(flags.id), flags.job,
                             flags.snapshot.dir, attack};
  return Trainer(config, parts).Run();
}

absl::StatusOr<int> Run(const WorkerFlags& flags, const AttackPlan& attack,
                        StopSignals& signals, Logger& logger) {
  PARAPET_ASSIGN_OR_RETURN(const ComputeConfig compute,
                           MakeCompute(flags, logger));
  PARAPET_ASSIGN_OR_RETURN(Loaded loaded, Load(flags, compute));
  PARAPET_ASSIGN_OR_RETURN(
      const ShardMap map,
      ShardMap::Create(loaded.model->layout().elements(),
                       static_cast<int>(flags.servers.size()), flags.job.chunk,
                       flags.job.leaf));
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const std::unique_ptr<Disk> disk = MakePosixDisk();
  SteadyClock clock;
  const std::unique_ptr<Trace> trace = MakeTrace(flags, logger);
  const ClientConfig config = MakeClientConfig(
      flags, loaded,
      absl::StrCat(ComputeFingerprint(compute), ", ", device->name()));
  Client client(
      config, map,
      net::MakeTransport(flags.servers[0], map, NetworkThreads(flags)),
      device.get(), &clock, &logger, trace.get());
  signals.OnStop([&client](int) { client.RequestStop(); });
  const absl::Status status = Work(
      flags, attack,
      {&client, loaded.model.get(), config.session.samples, loaded.data.get(),
       device.get(), disk.get(), &clock, &logger, trace.get()});
  signals.OnStop(nullptr);
  if (trace != nullptr)
    PARAPET_RETURN_IF_ERROR(trace->Write(*disk, flags.trace));
  return ExitCode(status, client, logger);
}

}  // namespace

int RunWorkerProgram(int argc, char** argv) {
  SetUpProcess();
  // The rule is the servers' business; the lead compares its text.
  absl::StatusOr<WorkerFlags> flags = ParseWorkerFlags(argc, argv);
  if (!flags.ok()) {
    std::fprintf(stderr, "parapet-worker: %s\n",
                 std::string(flags.status().message()).c_str());
    return kExitUsage;
  }
  if (!flags->print.empty()) {
    std::fputs(flags->print.c_str(), stdout);
    return kExitDone;
  }
  const absl::StatusOr<AttackPlan> attack = MakeAttackPlan(*flags);
  if (!attack.ok()) {
    std::fprintf(stderr, "parapet-worker: %s\n",
                 std::string(attack.status().message()).c_str());
    return kExitUsage;
  }
  StopSignals signals;
  const auto logger = MakeLogger(
      absl::StrCat(flags->evaluator ? "evaluator " : "worker ", flags->id),
      flags->log_level);
  if (!flags->evaluator && attack->Attacks(static_cast<uint32_t>(flags->id)))
    logger->warn("{}", attack->Warning());
  absl::StatusOr<int> code = Run(*flags, *attack, signals, *logger);
  if (code.ok()) return *code;
  logger->error("{}", std::string(code.status().message()));
  return absl::IsInvalidArgument(code.status()) ? kExitUsage : kExitFailed;
}

}  // namespace parapet
