#ifndef PARAPET_COMMON_FLAGS_H_
#define PARAPET_COMMON_FLAGS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job.h"

namespace parapet {

// How the programs end. `parapet run` ends as its first failing process did.
enum ExitCode : int {
  kExitDone = 0,      // also after a stop that was asked for
  kExitFailed = 1,    // said in words before
  kExitUsage = 2,     // a flag is unknown, wrong or contradicts another
  kExitPeerLost = 3,  // a server or the lead is lost, so the job ended
  kExitTooFew = 4,    // too few workers were left for the rule
  kExitLeftOut =
      5,  // this worker was closed out of the job; the others went on
};

// A number of threads that suits the machine.
inline constexpr int kAuto = -1;

// What every program takes. A job is one flag file that all of them read, so
// each accepts the flags of all and uses its own.
struct CommonFlags {
  JobConfig job;
  PatienceConfig patience;
  SnapshotConfig snapshot;
  int network_threads = kAuto;     // that move bytes over ZeroMQ
  std::string log_level = "info";  // trace, debug, info, warn, error or off
  std::string auth = "none";
  bool insecure = false;          // auth=none also beyond this machine
  std::string progress = "auto";  // auto, terminal, plain, json or none
  std::string attack = "none";    // what the last `attackers` workers do, for
                                  // tests and demos (worker/attack_plan.h)
  int attackers = 0;
  std::string trace;  // file for a timeline of this process; empty: none
  // --help or --version was given: print this and exit 0. Nothing else was
  // checked then.
  std::string print;
};

struct ServerFlags : CommonFlags {
  int index = -1;  // 0 <= index < servers.size(); 0 is the lead
  // As Transport takes them, in order of index: "tcp://host:port",
  // "ipc:///path". Port 0 only for oneself and for servers that will connect to
  // this one.
  std::vector<std::string> servers;
  std::string
      listen;  // where to accept; servers[index] unless --listen says otherwise
  std::string port_file;  // gets the port, a decimal number, whole (by rename);
                          // empty: none
  int threads = kAuto;    // that reduce; 0: in the event loop
  std::string device = "auto";  // "auto", "cpu" or "cuda:N"
  // Of the lead: what bucketing shuffles by. Workers must not know it.
  std::optional<uint64_t> rule_secret;
  std::string audit;  // of the lead: gets a line for each round; empty: none
  int64_t audit_bytes = int64_t{64} << 20;  // of that file before a new one
  std::string summary_file;  // gets what this server refused, by code, and of
                             // the lead the job's summary, as JSON; empty: none
};

struct WorkerFlags : CommonFlags {
  int id = -1;  // 0 <= id < job.workers (job.evaluators for an evaluator)
  bool evaluator = false;
  std::vector<std::string> servers;  // as in ServerFlags
  std::string data;  // job.data with {id} replaced by this worker's id
  int threads = 1;   // that compute
  std::string isa = "default";
  std::string device = "auto";      // "auto", "cpu" or "cuda:N"
  std::string compute = "float32";  // or "bfloat16", on a GPU
};

struct RunFlags : CommonFlags {    // job.servers, .workers and .evaluators say
                                   // how many to start
  std::string transport = "auto";  // or "shm", "ipc", "tcp"
  std::string summary = "text";    // or "json", "none"
  std::string device;              // as in WorkerFlags
  // Of the lead, as in ServerFlags.
  std::optional<uint64_t> rule_secret;
  std::string audit;
  int64_t audit_bytes = 0;
  std::string bin_dir;  // where parapet-server and parapet-worker are; empty:
                        // beside parapet
  // The arguments of every process: all that was given, but what only the
  // launcher uses.
  std::vector<std::string> forward;
};

// What this folder cannot tell, e.g. whether there is such a rule;
// InvalidArgument in words.
using JobCheck = std::function<absl::Status(const CommonFlags&)>;

// Reads and validates a program's arguments (argv[0] is skipped), with the
// files that they name
// (--flagfile, see flag_set.h). InvalidArgument, in words: exit with
// kExitUsage.
absl::StatusOr<ServerFlags> ParseServerFlags(int argc, const char* const* argv,
                                             const JobCheck& check = nullptr);
absl::StatusOr<WorkerFlags> ParseWorkerFlags(int argc, const char* const* argv,
                                             const JobCheck& check = nullptr);
absl::StatusOr<RunFlags> ParseRunFlags(int argc, const char* const* argv,
                                       const JobCheck& check = nullptr);

// How many threads these flags mean on this machine.
int ReducingThreads(const ServerFlags& flags);
int NetworkThreads(const CommonFlags& flags);

// Splits "host:port,tcp://host:port,ipc:///path" into what Transport takes.
absl::StatusOr<std::vector<std::string>> ParseAddresses(
    const std::string& text);

// Whether only this machine can reach an address: ipc, and tcp on 127.x.x.x,
// ::1 or localhost.
bool IsLocal(const std::string& address);

}  // namespace parapet

#endif  // PARAPET_COMMON_FLAGS_H_
