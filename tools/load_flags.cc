#include "tools/load_flags.h"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/flag_checks.h"
#include "common/flag_set.h"
#include "common/layout.h"
#include "common/model_spec.h"
#include "common/status_macros.h"
#include "server/rule_check.h"
#include "tools/load_attendance.h"

namespace parapet {
namespace {

constexpr int kMostPlayers = 2000;           // of one process
constexpr int64_t kEndless = 1'000'000'000;  // rounds, where a duration says
constexpr double kLearningRate = 1.0 / 1024;
// Rounds of an epoch: no epoch ends in the middle of a round.
constexpr int64_t kEpochRounds = 1 << 20;
// Every poll of shared memory looks at every connection.
constexpr int kMostOverShm = 256;
constexpr absl::Duration kLongestSlow = absl::Seconds(2);
// Of a round: a straggler is late, not missing; but who never pushes is waited
// for in each of three rounds.
constexpr absl::Duration kLongDeadline = absl::Minutes(10);
constexpr absl::Duration kShortDeadline = absl::Seconds(5);

struct Texts {
  std::string servers = "1";
  std::string layout;
  int64_t tensors = 1;
  double skew = 1;
  std::string wire = "float32";
  std::string check = "sampled";
  bool help = false;
};

void AddDelay(FlagSet* set, const std::string& name, const std::string& help,
              absl::Duration most, bool shapes, LoadDelay* delay) {
  set->Add(name, shapes ? "SHARE,DELAY,SHAPE" : "SHARE,DELAY", "", help,
           [=](const std::string& text) {
             PARAPET_ASSIGN_OR_RETURN(*delay,
                                      ParseLoadDelay(text, most, shapes));
             return absl::OkStatus();
           });
}

void AddWho(FlagSet* set, LoadFlags* flags, Texts* texts) {
  JobConfig* job = &flags->common.job;
  set->Group("Who");
  set->Text("servers", "N|ADDRESS,...",
            "how many to start here, or the addresses of running ones",
            &texts->servers);
  set->OneOf("transport", {"auto", "shm", "ipc", "tcp"},
             "to servers that are started here: shared memory, or ZeroMQ over "
             "Unix sockets or TCP; auto is shm for up to 256 players, else ipc",
             &flags->transport);
  set->Count("server_threads", "N", "of servers that are started here",
             &flags->server_threads, {0, 1024});
  set->Text("bin_dir", "DIR", "where parapet-server is; empty: beside parapet",
            &flags->bin_dir);
  set->Count("workers", "N", "in the job", &job->workers, {1, 65535});
  set->Count("first_worker", "K", "the first that is played by this process",
             &flags->first_worker, {0, 65534});
  set->Count("players", "N",
             "workers that are played by this process; 0: all from the first",
             &flags->players, {0, kMostPlayers});
  set->Count("threads", "N", "that play; 0: half as many as there are cores",
             &flags->threads, {0, 64});
  set->Text("job_id", "NAME", "keeps jobs apart", &job->job_id);
  set->Bool("insecure", "allow servers beyond this machine",
            &flags->common.insecure);
}

void AddWhat(FlagSet* set, LoadFlags* flags, Texts* texts) {
  JobConfig* job = &flags->common.job;
  set->Group("What");
  set->Count("parameters", "N", "of the model", &flags->parameters,
             {1, int64_t{1} << 36});
  set->Text("layout", "FILE",
            "with its tensors, instead of --parameters: JSON "
            "[{\"name\": \"a\", \"shape\": [2, 3]}, ...], or a .safetensors "
            "file; an absolute path that servers see, too",
            &texts->layout);
  set->Count("tensors", "N", "that the parameters lie in", &texts->tensors,
             {1, Layout::kMaxTensors});
  set->Real("skew", "S",
            "of their sizes, which go down as rank^-S; 0: all alike",
            &texts->skew, {0, 10});
  set->Duration("backward",
                "in which gradients come, tensor by tensor from the last, each "
                "in proportion to its size",
                &flags->backward, true);
  set->Count("rounds", "N", "to measure", &flags->rounds, {1, kEndless});
  set->Duration("duration", "to measure, instead of --rounds",
                &flags->duration);
  set->Count("warmup", "N", "rounds before that", &flags->warmup,
             {1, kEndless});
  set->Real("rate", "X", "rounds a second; 0: as fast as it goes", &flags->rate,
            {0, 1e6});
  set->Text("rule", "RULE", "how gradients become one", &job->rule);
  set->Count("byzantine", "N", "workers that may lie", &job->byzantine);
  set->OneOf("wire", {"float32", "bfloat16", "float16"},
             "numbers on the network", &texts->wire);
  set->Count("chunk", "ELEMENTS", "in a message, a multiple of 16Ki; 0 chooses",
             &job->chunk, {0, int64_t{1} << 28});
  set->Count("connections", "N",
             "that carry data between a worker and a server", &job->connections,
             {1, 64});
  set->Add("seed", "N", "1", "of everything that is pushed",
           [job](const std::string& text) {
             if (absl::SimpleAtoi(text, &job->seed)) return absl::OkStatus();
             return absl::InvalidArgumentError(
                 "must be a whole number from 0 to 2^64 - 1");
           });
  set->OneOf("check", {"sampled", "full", "none"},
             "how many elements of the weights are compared", &texts->check);
}

void AddTrouble(FlagSet* set, LoadFlags* flags) {
  set->Group("Trouble");
  AddDelay(set, "stragglers",
           "players that push late, by a delay of that mean and shape: "
           "exponential if not said, constant, uniform, lognormal, pareto",
           absl::Minutes(1), true, &flags->stragglers);
  AddDelay(set, "slow_readers",
           "players that wait so long before they read again", kLongestSlow,
           false, &flags->slow_readers);
  set->Real("malformed", "X",
            "mutated messages a second, on connections of their own",
            &flags->malformed, {0, 10000});
  set->Text("attack", "ATTACK",
            "what attackers push: sign_flip, alie, ... (docs/rules.md)",
            &flags->common.attack);
  set->Count("attackers", "N", "of the workers that attack, the last ones",
             &flags->common.attackers, {0, 65535});
  set->Duration("round_deadline",
                "a round goes on without who has not pushed by then; 0: 10 "
                "minutes, or 5 seconds where attackers may never do",
                &flags->common.patience.round_deadline, true);
}

void AddReport(FlagSet* set, LoadFlags* flags, bool* help) {
  set->Group("Report");
  set->Bool("json", "print an object instead of a table", &flags->json);
  set->Text("plot", "FILE.svg", "gets latencies and throughput over time",
            &flags->plot);
  set->Duration("max_p99", "exit with 1 if a round's p99 is longer",
                &flags->max_p99);
  set->Real("min_goodput", "GB/S",
            "exit with 1 if less is pushed and got by all players together",
            &flags->min_goodput);
  set->OneOf("log_level", {"trace", "debug", "info", "warn", "error", "off"},
             "least important message that is shown, also of servers",
             &flags->common.log_level);
  set->Duration("dead_after", "without a sign of life a peer is lost",
                &flags->common.patience.dead_after);
  set->Bool("help", "print this", help);
}

template <typename... Words>
absl::Status Refuse(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

absl::Status FinishServers(const std::string& text, LoadFlags* flags) {
  JobConfig& job = flags->common.job;
  if (absl::SimpleAtoi(text, &flags->own_servers)) {
    if (flags->own_servers < 1 || flags->own_servers > 256)
      return Refuse("--servers=", text, ": from 1 to 256 can be started here");
    job.servers = flags->own_servers;
    return absl::OkStatus();
  }
  flags->own_servers = 0;
  PARAPET_ASSIGN_OR_RETURN(flags->servers, ParseAddresses(text));
  job.servers = static_cast<int>(flags->servers.size());
  return CheckReach(flags->common, flags->servers);
}

absl::Status FinishPlayers(LoadFlags* flags) {
  const int workers = flags->common.job.workers;
  if (flags->first_worker >= workers)
    return Refuse("--first_worker=", flags->first_worker, ": there are ",
                  workers, " workers, numbered from 0");
  const int left = workers - flags->first_worker;
  if (flags->players == 0) flags->players = left;
  if (flags->players > left)
    return Refuse("--players=", flags->players,
                  " from --first_worker=", flags->first_worker, ": there are ",
                  workers, " workers");
  if (flags->players > kMostPlayers)
    return Refuse("one process plays up to ", kMostPlayers,
                  " workers: say --players=N, and start others with "
                  "--first_worker=K for the rest");
  if (flags->own_servers > 0 && flags->players < workers)
    return Refuse(
        "servers that are started here have all their workers here: "
        "give --servers as addresses, or leave out --players and "
        "--first_worker");
  if (flags->threads == 0)
    flags->threads = static_cast<int>(
        std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u));
  flags->threads = std::min(flags->threads, flags->players);
  if (flags->transport == "auto")
    flags->transport = flags->players <= kMostOverShm ? "shm" : "ipc";
  return absl::OkStatus();
}

absl::Status FinishLength(LoadFlags* flags) {
  const bool timed = flags->duration > absl::ZeroDuration();
  if (timed && flags->rounds > 0)
    return Refuse("--rounds and --duration contradict each other");
  if (!timed && flags->rounds == 0) flags->rounds = 200;
  flags->common.job.rounds = timed ? kEndless : flags->warmup + flags->rounds;
  return absl::OkStatus();
}

// Whether attackers leave rounds to end by a deadline: those that never push it
// all, and those whose connections are cut for what they do.
bool MayNotComplete(AttackKind kind) {
  return kind == AttackKind::kSilent || kind == AttackKind::kPartial ||
         kind == AttackKind::kFlood || kind == AttackKind::kEquivocate;
}

absl::Status FinishAttack(LoadFlags* flags) {
  PARAPET_ASSIGN_OR_RETURN(flags->attack, MakeAttackPlan(flags->common));
  absl::Duration& deadline = flags->common.patience.round_deadline;
  if (deadline > absl::ZeroDuration()) return absl::OkStatus();
  deadline = MayNotComplete(flags->attack.attack.kind) ? kShortDeadline
                                                       : kLongDeadline;
  return absl::OkStatus();
}

// The model, and how many parameters it has.
absl::Status FinishModel(const FlagSet& set, const Texts& texts,
                         LoadFlags* flags) {
  JobConfig& job = flags->common.job;
  if (texts.layout.empty()) {
    job.model = absl::StrCat("flat:", flags->parameters);
    if (texts.tensors > 1)
      job.model = absl::StrCat("zipf:", flags->parameters, ",", texts.tensors,
                               ",", texts.skew, ",", job.seed);
  } else {
    for (const char* name : {"parameters", "tensors", "skew"}) {
      if (!set.Origin(name).empty())
        return Refuse("--layout and --", name, " contradict each other");
    }
    job.model = absl::StrCat("layout:",
                             std::filesystem::absolute(texts.layout).string());
  }
  PARAPET_ASSIGN_OR_RETURN(const Layout layout, ModelLayout(job.model, {}));
  flags->parameters = layout.elements();
  return absl::OkStatus();
}

absl::Status FinishJob(const FlagSet& set, const std::string& wire,
                       LoadFlags* flags) {
  CommonFlags& common = flags->common;
  JobConfig& job = common.job;
  job.wire = wire == "bfloat16"  ? DType::kBFloat16
             : wire == "float16" ? DType::kFloat16
                                 : DType::kFloat32;
  job.evaluators = 0;
  job.data = "synthetic:1,2,5";
  job.batch = 1;
  job.train_samples = job.workers * kEpochRounds;
  job.optimizer.kind = OptimizerKind::kSgd;
  job.schedule.lr = kLearningRate;
  common.patience.start_timeout = absl::Minutes(2);
  PARAPET_RETURN_IF_ERROR(CheckCommon(common, set));
  return CheckRule(common);
}

absl::Status Finish(const FlagSet& set, const Texts& texts, LoadFlags* flags) {
  PARAPET_RETURN_IF_ERROR(FinishServers(texts.servers, flags));
  PARAPET_RETURN_IF_ERROR(FinishPlayers(flags));
  PARAPET_RETURN_IF_ERROR(FinishLength(flags));
  flags->check = texts.check == "full"   ? LoadCheck::kFull
                 : texts.check == "none" ? LoadCheck::kNone
                                         : LoadCheck::kSampled;
  PARAPET_RETURN_IF_ERROR(FinishModel(set, texts, flags));
  PARAPET_RETURN_IF_ERROR(FinishJob(set, texts.wire, flags));
  return FinishAttack(flags);
}

}  // namespace

int LoadFlags::Honest() const {
  return std::clamp(attack.honest() - first_worker, 0, players);
}

bool LoadFlags::KnowsValues() const {
  const AttackKind kind = attack.attack.kind;
  const bool come_and_go =
      kind == AttackKind::kFlood || kind == AttackKind::kEquivocate;
  return common.job.rule == "mean" &&
         !(come_and_go && attack.attackers > LoadAttendance::kMostAlone);
}

absl::StatusOr<LoadFlags> ParseLoadFlags(int argc, const char* const* argv) {
  LoadFlags flags;
  flags.players = flags.threads = 0;
  flags.common.job.job_id = "load";
  flags.common.log_level = "error";
  flags.common.patience.dead_after = absl::Seconds(30);
  Texts texts;
  FlagSet set("parapet load",
              "Plays the workers of a job without a model, as fast as it goes "
              "or at a rate, and checks and measures what comes back.");
  AddWho(&set, &flags, &texts);
  AddWhat(&set, &flags, &texts);
  AddTrouble(&set, &flags);
  AddReport(&set, &flags, &texts.help);
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
  PARAPET_ASSIGN_OR_RETURN(const std::vector<FlagSetting> settings,
                           ExpandFlags(arguments));
  const std::string help = set.Help();
  PARAPET_RETURN_IF_ERROR(set.Apply(settings));
  if (texts.help) {
    flags.common.print = help;
    return flags;
  }
  PARAPET_RETURN_IF_ERROR(Finish(set, texts, &flags));
  return flags;
}

std::vector<std::string> LoadServerFlags(const LoadFlags& flags) {
  std::vector<std::string> arguments;
  const std::string text = flags.common.job.ToText();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    // Their addresses are given otherwise.
    if (!absl::ConsumePrefix(&line, "servers="))
      arguments.push_back(absl::StrCat("--", line));
  }
  const PatienceConfig& patience = flags.common.patience;
  for (const auto& [name, duration] :
       {std::pair("start_timeout", patience.start_timeout),
        std::pair("round_deadline", patience.round_deadline),
        std::pair("dead_after", patience.dead_after)}) {
    arguments.push_back(
        absl::StrCat("--", name, "=", absl::FormatDuration(duration)));
  }
  return arguments;
}

}  // namespace parapet
