#include "common/flags.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/flag_checks.h"
#include "common/flag_kinds.h"
#include "common/flag_set.h"
#include "common/process_setup.h"

namespace parapet {
namespace {

constexpr char kVersion[] = "parapet 0.1.0\n";
constexpr int kMaxProcesses =
    65535;  // of a kind: ids are 16 bits in the protocol's limits

enum class Role { kServer, kWorker, kRun };

// The flags of every role, whichever is asked for.
struct AllFlags {
  CommonFlags common;
  ServerFlags server;
  WorkerFlags worker;
  RunFlags run;
  std::string servers;  // addresses, or how many
  std::vector<FlagSetting> settings;
  bool help = false;
  bool version = false;
};

void AddJob(FlagSet* set, JobConfig* job) {
  set->Group("The job (the same for every process)");
  set->Text("job_id", "NAME", "keeps jobs apart", &job->job_id);
  set->Count("workers", "N", "workers in the job", &job->workers,
             {1, kMaxProcesses});
  set->Count("evaluators", "N", "processes that measure on the test set",
             &job->evaluators, {0, kMaxProcesses});
  set->Text("model", "MODEL", "softmax, mlp:H1,H2,... or cnn:small",
            &job->model);
  set->Text("data", "DATA",
            "fashion-mnist, idx:DIR or synthetic:FEATURES,CLASSES,SAMPLES; "
            "{id} is the worker's id",
            &job->data);
  set->OneOf("data_split", {"shared", "own"},
             "shared: all draw from one set; own: each worker has its own",
             &job->data_split);
  set->Count("train_samples", "SAMPLES",
             "in an epoch; 0: as many as the data has", &job->train_samples);
  set->Count("epochs", "EPOCHS", "length of the training; or --rounds",
             &job->epochs);
  set->Count("rounds", "ROUNDS", "length of the training; or --epochs",
             &job->rounds);
  SeedFlag(set, &job->seed);
}

void AddOptimizer(FlagSet* set, OptimizerConfig* optimizer) {
  EnumFlag(
      set, "optimizer",
      {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov,
       OptimizerKind::kAdam, OptimizerKind::kAdamW},
      "PyTorch's formulas", &optimizer->kind);
  const RealBounds below_1{.low = 0, .high = 1, .high_too = false};
  set->Real("momentum", "X", "of momentum and nesterov", &optimizer->momentum,
            below_1);
  set->Real("beta1", "X", "of adam and adamw", &optimizer->beta1, below_1);
  set->Real("beta2", "X", "of adam and adamw", &optimizer->beta2, below_1);
  set->Real("epsilon", "X", "of adam and adamw", &optimizer->epsilon,
            {.low = 0, .low_too = false});
  set->Real("weight_decay", "X",
            "added to the gradient; with adamw taken off the weights",
            &optimizer->weight_decay);
}

void AddSchedule(FlagSet* set, ScheduleConfig* schedule) {
  set->Real("lr", "X", "learning rate", &schedule->lr,
            {.low = 0, .low_too = false});
  EnumFlag(
      set, "schedule",
      {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kStep},
      "of the learning rate over the training", &schedule->kind);
  set->Count("warmup", "ROUNDS", "in which the learning rate rises from 0",
             &schedule->warmup);
  set->Real("step_gamma", "X", "factor of --schedule=step",
            &schedule->step_gamma, {.low = 0, .high = 1, .low_too = false});
  set->Count("step_epochs", "EPOCHS", "between the steps of --schedule=step",
             &schedule->step_epochs, {1});
  set->Bool("scale_lr", "multiply --lr by the number of workers",
            &schedule->scale_lr);
}

void AddTraining(FlagSet* set, JobConfig* job) {
  set->Group("Training (the same for every process)");
  set->Count("batch", "SAMPLES", "of one worker in a round", &job->batch,
             {1, int64_t{1} << 30});
  AddOptimizer(set, &job->optimizer);
  AddSchedule(set, &job->schedule);
  set->Real("clip_norm", "X", "largest norm of the aggregate; 0: any",
            &job->clip_norm);
  set->Real("worker_momentum", "X", "of a worker before it pushes; 0: none",
            &job->worker_momentum, {.low = 0, .high = 1, .high_too = false});
  set->Text("rule", "RULE", "how gradients become one", &job->rule);
  set->Count("byzantine", "N", "workers that may lie", &job->byzantine);
  set->Count("hash_every", "ROUNDS",
             "between comparisons of the weights; 0: only at the end",
             &job->hash_every);
  set->Count("max_bad_rounds", "ROUNDS",
             "in a row with a gradient that is not finite",
             &job->max_bad_rounds);
}

void AddWire(FlagSet* set, CommonFlags* flags) {
  JobConfig* job = &flags->job;
  set->Group("Network (the same for every process)");
  EnumFlag(set, "wire", {DType::kFloat32, DType::kBFloat16, DType::kFloat16},
           "numbers on the network", &job->wire);
  set->Real("wire_scale", "X",
            "gradients are multiplied by it on a float16 wire",
            &job->wire_scale, {.low = 0, .low_too = false});
  set->Count("chunk", "ELEMENTS", "in a message, a multiple of 16Ki; 0 chooses",
             &job->chunk, {0, int64_t{1} << 28});
  set->Count("connections", "N",
             "that carry data between a worker and a server", &job->connections,
             {1, 64});
  ThreadsFlag(set, "network_threads",
              "that move bytes over ZeroMQ in each process, about 2 GB/s each; "
              "auto: one for four cores, at most 8",
              &flags->network_threads, 1);
  set->OneOf("auth", {"none"}, "how processes prove who they are",
             &flags->auth);
  set->Bool("insecure", "allow --auth=none beyond this machine",
            &flags->insecure);
}

void AddPatience(FlagSet* set, PatienceConfig* patience) {
  set->Group("Waiting");
  set->Duration("patience", "a longer wait is reported by name",
                &patience->patience);
  set->Duration("start_timeout", "for everybody to be there",
                &patience->start_timeout);
  set->Duration("ping_every", "between signs of life", &patience->ping_every);
  set->Duration("dead_after", "without a sign of life a peer is lost",
                &patience->dead_after);
  set->Duration("round_deadline", "for a round; 0: max(10s, 10 median rounds)",
                &patience->round_deadline, true);
  QuorumFlag(set, &patience->quorum);
  set->Duration("deadline", "for the others, once a quorum is complete",
                &patience->quorum_deadline, true);
  set->Duration("insufficient_for",
                "wait for workers that the rule needs, then end",
                &patience->insufficient_for, true);
  set->Duration("grace", "from a stop being asked for to leaving",
                &patience->grace);
}

void AddSnapshot(FlagSet* set, SnapshotConfig* snapshot) {
  set->Group("Snapshots");
  set->Text("snapshot_dir", "DIR", "where they are kept; empty: none",
            &snapshot->dir);
  set->Count("snapshot_every", "ROUNDS", "between them; 0: only at the end",
             &snapshot->every);
  set->Count("snapshot_keep", "N", "of the last that stay", &snapshot->keep,
             {1});
  set->Add(
      "resume", "NAME|latest", "",
      "go on from a snapshot; --resume alone: from the latest",
      [snapshot](const std::string& text) {
        snapshot->resume = text;
        return absl::OkStatus();
      },
      "latest");
}

void AddServer(FlagSet* set, Role role, AllFlags* all) {
  set->Group(role == Role::kServer ? "This server" : "");
  set->Count("index", "I", "which of --servers this is; 0 leads",
             &all->server.index, {0, kMaxProcesses - 1});
  set->Text("listen", "ADDRESS",
            "where to accept, if not at its address in --servers",
            &all->server.listen);
  set->Text("port_file", "FILE",
            "gets the port, which port 0 lets the system pick",
            &all->server.port_file);
  ThreadsFlag(set, "server_threads",
              "that reduce in a server; 0: its event loop does; auto: one a "
              "core, at most 8",
              &all->server.threads, 0);
  DeviceFlag(set, "server_device",
             "where a server's shard is; auto: on a GPU if there is one",
             &all->server.device);
  set->Text("summary_file", "FILE",
            "gets the lead's summary as JSON; of others what they refused",
            &all->server.summary_file);
  SecretFlag(set, &all->server.rule_secret);
  set->Text("audit", "FILE", "gets a line of JSON for each round; of the lead",
            &all->server.audit);
  set->Count("audit_bytes", "BYTES",
             "of --audit before it is moved to FILE.1 and begun anew",
             &all->server.audit_bytes, {1024});
}

void AddDevice(FlagSet* set, WorkerFlags* worker) {
  DeviceFlag(set, "device",
             "where a worker computes; auto: on a GPU if there is one",
             &worker->device);
  set->OneOf("compute", {"float32", "bfloat16"},
             "numbers that a GPU multiplies; it adds in float32",
             &worker->compute);
}

void AddWorker(FlagSet* set, Role role, AllFlags* all) {
  set->Group(role == Role::kWorker ? "This worker" : "");
  set->Count("id", "K", "which of the workers (or evaluators) this is",
             &all->worker.id, {0, kMaxProcesses - 1});
  set->Bool("evaluator", "measure versions instead of training",
            &all->worker.evaluator);
  set->Group(role == Role::kServer ? "" : "A worker's computing");
  set->Count("threads", "N", "that compute, in each worker",
             &all->worker.threads, {1, 1024});
  set->OneOf("isa", {"default", "sse41", "avx2", "avx512"},
             "highest instruction set to use", &all->worker.isa);
  AddDevice(set, &all->worker);
  set->Group(role == Role::kServer ? "" : "Attacks, for tests and demos only");
  set->Text("attack", "ATTACK",
            "what attackers push instead of gradients: sign_flip, alie, ...",
            &all->common.attack);
  set->Count("attackers", "N", "of the workers that attack, the last ones",
             &all->common.attackers, {0, kMaxProcesses});
}

void AddRun(FlagSet* set, Role role, AllFlags* all) {
  set->Group(role == Role::kRun ? "This launcher" : "");
  set->OneOf("transport", {"auto", "shm", "ipc", "tcp"},
             "between the processes: shared memory (auto is the same), or "
             "ZeroMQ over Unix sockets or TCP",
             &all->run.transport);
  set->OneOf("summary", {"text", "json", "none"}, "printed at the end",
             &all->run.summary);
  set->Text(
      "bin_dir", "DIR",
      "where parapet-server and parapet-worker are; empty: beside parapet",
      &all->run.bin_dir);
}

void AddGeneral(FlagSet* set, AllFlags* all) {
  set->Group("General");
  set->Text("trace", "FILE", "gets a timeline of this process",
            &all->common.trace);
  set->OneOf("log_level", {"trace", "debug", "info", "warn", "error", "off"},
             "least important message that is shown", &all->common.log_level);
  set->OneOf("progress", {"auto", "terminal", "plain", "json", "none"},
             "of the training", &all->common.progress);
  // Known to the help; ExpandFlags has put the files' flags in its place.
  set->Add("flagfile", "FILE", "",
           "reads flags, one name=value a line; may be repeated",
           [](const std::string&) { return absl::OkStatus(); });
  set->Bool("help", "print this", &all->help);
  set->Bool("version", "print the version", &all->version);
}

void AddAll(FlagSet* set, Role role, AllFlags* all) {
  set->Group(role == Role::kServer ? "This server"
             : role == Role::kRun  ? "This launcher"
                                   : "This worker");
  set->Text("servers", role == Role::kRun ? "N" : "ADDRESS,...",
            role == Role::kRun
                ? "how many to start"
                : "host:port, ipc:///path or shm:///path of each, in order",
            &all->servers);
  AddServer(set, role, all);
  AddWorker(set, role, all);
  AddRun(set, role, all);
  AddJob(set, &all->common.job);
  AddTraining(set, &all->common.job);
  AddWire(set, &all->common);
  AddPatience(set, &all->common.patience);
  AddSnapshot(set, &all->common.snapshot);
  AddGeneral(set, all);
}

// Arguments in, `all` filled. `all->common.print` is set if that is all there
// is to do.
absl::Status Read(int argc, const char* const* argv, FlagSet* set,
                  AllFlags* all) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
  absl::StatusOr<std::vector<FlagSetting>> settings = ExpandFlags(arguments);
  if (!settings.ok()) return settings.status();
  const std::string help = set->Help();  // before the defaults are overwritten
  if (absl::Status applied = set->Apply(*settings); !applied.ok()) {
    return applied;
  }
  if (all->version) all->common.print = kVersion;
  if (all->help) all->common.print = help;
  all->settings = *std::move(settings);
  return absl::OkStatus();
}

// --servers as addresses; their number is a fact of the job.
absl::StatusOr<std::vector<std::string>> Addresses(const std::string& text,
                                                   CommonFlags* flags) {
  int count = 0;
  if (text.empty() || absl::SimpleAtoi(text, &count)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--servers must list the servers' addresses, host:port,..., not '",
        text, "'; only `parapet run` takes their number"));
  }
  absl::StatusOr<std::vector<std::string>> addresses = ParseAddresses(text);
  if (addresses.ok() && addresses->size() > kMaxProcesses) {
    return absl::InvalidArgumentError("--servers lists too many");
  }
  if (addresses.ok()) flags->job.servers = static_cast<int>(addresses->size());
  return addresses;
}

absl::Status FinishServer(const AllFlags& all, ServerFlags* flags) {
  absl::StatusOr<std::vector<std::string>> addresses =
      Addresses(all.servers, flags);
  if (!addresses.ok()) return addresses.status();
  flags->servers = *std::move(addresses);
  absl::Status number =
      CheckNumber("index", "servers", flags->job.servers, &flags->index);
  if (!number.ok()) return number;
  if (flags->listen.empty()) {
    flags->listen = flags->servers[static_cast<size_t>(flags->index)];
  } else {
    absl::StatusOr<std::vector<std::string>> listen =
        ParseAddresses(flags->listen);
    if (!listen.ok()) return listen.status();
    flags->listen = listen->front();
  }
  std::vector<std::string> reached = flags->servers;
  reached.push_back(flags->listen);
  return CheckReach(*flags, reached);
}

absl::Status FinishWorker(const AllFlags& all, WorkerFlags* flags) {
  absl::StatusOr<std::vector<std::string>> addresses =
      Addresses(all.servers, flags);
  if (!addresses.ok()) return addresses.status();
  flags->servers = *std::move(addresses);
  const JobConfig& job = flags->job;
  absl::Status number =
      flags->evaluator
          ? CheckNumber("id", "evaluators (--evaluators)", job.evaluators,
                        &flags->id)
          : CheckNumber("id", "workers (--workers)", job.workers, &flags->id);
  if (!number.ok()) return number;
  flags->data =
      absl::StrReplaceAll(job.data, {{"{id}", absl::StrCat(flags->id)}});
  return CheckReach(*flags, flags->servers);
}

// What each process is told by the launcher itself, or is none of its business.
constexpr absl::string_view kLauncherOnly[] = {
    "servers",   "workers",     "evaluators", "transport",    "summary",
    "bin_dir",   "index",       "listen",     "id",           "evaluator",
    "port_file", "progress",    "trace",      "summary_file", "flagfile",
    "audit",     "audit_bytes", "rule_secret"};

bool StaysWithLauncher(absl::string_view name) {
  return std::find(std::begin(kLauncherOnly), std::end(kLauncherOnly), name) !=
         std::end(kLauncherOnly);
}

std::vector<std::string> Forward(const std::vector<FlagSetting>& settings) {
  std::vector<std::string> arguments;
  for (const FlagSetting& setting : settings) {
    if (StaysWithLauncher(setting.name)) continue;
    arguments.push_back(absl::StrCat("--", setting.name,
                                     setting.value ? "=" : "",
                                     setting.value.value_or("")));
  }
  return arguments;
}

absl::Status FinishRun(const AllFlags& all, RunFlags* flags) {
  flags->forward = Forward(all.settings);
  flags->device = all.worker.device;
  flags->rule_secret = all.server.rule_secret;
  flags->audit = all.server.audit;
  flags->audit_bytes = all.server.audit_bytes;
  const std::string& servers = all.servers;
  if (servers.empty()) return absl::OkStatus();
  if (absl::SimpleAtoi(servers, &flags->job.servers) &&
      flags->job.servers >= 1 && flags->job.servers <= kMaxProcesses) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--servers=", servers,
      ": here it is the number of servers to start on this machine"));
}

// What the three have in common: `finish` settles what is the role's own.
template <typename Flags>
absl::StatusOr<Flags> Parse(int argc, const char* const* argv,
                            const JobCheck& check, FlagSet* set, AllFlags* all,
                            Flags* own,
                            absl::Status (*finish)(const AllFlags&, Flags*)) {
  absl::Status read = Read(argc, argv, set, all);
  if (!read.ok()) return read;
  Flags flags = std::move(*own);
  static_cast<CommonFlags&>(flags) = all->common;
  if (!flags.print.empty()) return flags;
  if (absl::Status s = finish(*all, &flags); !s.ok()) return s;
  if (absl::Status s = CheckCommon(flags, *set); !s.ok()) return s;
  if (absl::Status s = check ? check(flags) : absl::OkStatus(); !s.ok()) {
    return s;
  }
  return flags;
}

}  // namespace

absl::StatusOr<ServerFlags> ParseServerFlags(int argc, const char* const* argv,
                                             const JobCheck& check) {
  AllFlags all;
  FlagSet set("parapet-server",
              "Owns one shard of a model's parameters and takes their steps.");
  AddAll(&set, Role::kServer, &all);
  return Parse(argc, argv, check, &set, &all, &all.server, FinishServer);
}

absl::StatusOr<WorkerFlags> ParseWorkerFlags(int argc, const char* const* argv,
                                             const JobCheck& check) {
  AllFlags all;
  FlagSet set("parapet-worker",
              "Trains a replica of the model on its share of the data.");
  AddAll(&set, Role::kWorker, &all);
  return Parse(argc, argv, check, &set, &all, &all.worker, FinishWorker);
}

absl::StatusOr<RunFlags> ParseRunFlags(int argc, const char* const* argv,
                                       const JobCheck& check) {
  AllFlags all;
  all.common.job.evaluators = 1;
  FlagSet set("parapet run",
              "Starts servers, workers and an evaluator on this machine.");
  AddAll(&set, Role::kRun, &all);
  return Parse(argc, argv, check, &set, &all, &all.run, FinishRun);
}

int ReducingThreads(const ServerFlags& flags) {
  return flags.threads != kAuto ? flags.threads : std::min(UsableCores(), 8);
}

int NetworkThreads(const CommonFlags& flags) {
  if (flags.network_threads != kAuto) return flags.network_threads;
  return std::clamp(UsableCores() / 4, 1, 8);
}

}  // namespace parapet
