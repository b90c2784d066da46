#include "common/flag_checks.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/loopback.h"

namespace parapet {
namespace {

template <typename... Words>
absl::Status Refuse(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

// "--epochs=5 (job.flags:3)".
std::string Given(const FlagSet& given, const std::string& flag,
                  int64_t value) {
  const std::string origin = given.Origin(flag);
  return absl::StrCat("--", flag, "=", value, origin.empty() ? "" : " (",
                      origin, origin.empty() ? "" : ")");
}

absl::Status CheckLength(const JobConfig& job, const FlagSet& given) {
  if (job.epochs == 0 && job.rounds == 0) {
    return Refuse("how long is the training? Say --epochs=N or --rounds=N");
  }
  if (job.epochs > 0 && job.rounds > 0) {
    return Refuse(Given(given, "epochs", job.epochs), " and ",
                  Given(given, "rounds", job.rounds),
                  " contradict each other; leave one out, or set it to 0");
  }
  if (job.rounds > 0 && job.schedule.warmup > job.rounds) {
    return Refuse(Given(given, "warmup", job.schedule.warmup),
                  " is longer than the training, ",
                  Given(given, "rounds", job.rounds));
  }
  return absl::OkStatus();
}

absl::Status CheckJob(const JobConfig& job, const FlagSet& given) {
  if (job.job_id.empty() || job.job_id.size() > 64) {
    return Refuse("--job_id must have 1 to 64 characters");
  }
  if (job.model.empty() || job.data.empty() || job.rule.empty()) {
    return Refuse("--model, --data and --rule must not be empty");
  }
  if (job.chunk % job.leaf != 0) {
    return Refuse(Given(given, "chunk", job.chunk), ": must be a multiple of ",
                  job.leaf, " (", job.leaf / 1024, "Ki) elements, or 0");
  }
  if (job.byzantine >= job.workers) {
    return Refuse(Given(given, "byzantine", job.byzantine),
                  ": must be below the number of workers, ",
                  Given(given, "workers", job.workers));
  }
  return CheckLength(job, given);
}

absl::Status CheckPatience(const CommonFlags& flags, const FlagSet& given) {
  const PatienceConfig& patience = flags.patience;
  if (patience.quorum > flags.job.workers) {
    return Refuse(Given(given, "quorum", patience.quorum),
                  " cannot be reached with ",
                  Given(given, "workers", flags.job.workers));
  }
  if (patience.ping_every * 2 > patience.dead_after) {
    return Refuse("--ping_every=", absl::FormatDuration(patience.ping_every),
                  " is too long for --dead_after=",
                  absl::FormatDuration(patience.dead_after),
                  "; a peer would be lost for a single late ping");
  }
  return absl::OkStatus();
}

absl::Status CheckSnapshot(const SnapshotConfig& snapshot,
                           const FlagSet& given) {
  if (!snapshot.dir.empty()) return absl::OkStatus();
  if (snapshot.every > 0) {
    return Refuse(Given(given, "snapshot_every", snapshot.every),
                  " needs to know where: say --snapshot_dir=DIR");
  }
  if (!snapshot.resume.empty()) {
    return Refuse("--resume=", snapshot.resume,
                  " needs to know from where: say --snapshot_dir=DIR");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParseAddress(absl::string_view text) {
  for (const absl::string_view local : {"ipc://", "shm://"}) {
    if (!absl::StartsWith(text, local)) continue;
    if (text.size() > local.size()) return std::string(text);
    return Refuse("'", text, "' has no path; write ", local, "/path");
  }
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "tcp://") && absl::StrContains(text, "://")) {
    return Refuse("'", text,
                  "': addresses are host:port, tcp://host:port, ipc:///path or "
                  "shm:///path");
  }
  const size_t colon = rest.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(rest.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return Refuse("'", text,
                  "' is no address; write host:port (ports are 0 to 65535)");
  }
  return absl::StrCat("tcp://", rest);
}

}  // namespace

absl::Status CheckCommon(const CommonFlags& flags, const FlagSet& given) {
  if (absl::Status s = CheckJob(flags.job, given); !s.ok()) return s;
  if (absl::Status s = CheckPatience(flags, given); !s.ok()) return s;
  return CheckSnapshot(flags.snapshot, given);
}

absl::Status CheckNumber(const std::string& flag, const std::string& of,
                         int count, int* value) {
  if (*value < 0 && count == 1) *value = 0;
  if (*value < 0) {
    return Refuse("which of the ", count, " ", of, " is this? Say --", flag,
                  "=K");
  }
  if (*value >= count) {
    return Refuse("--", flag, "=", *value, ": there are ", count, " ", of,
                  ", numbered from 0");
  }
  return absl::OkStatus();
}

absl::Status CheckReach(const CommonFlags& flags,
                        const std::vector<std::string>& addresses) {
  if (flags.insecure) return absl::OkStatus();
  for (const std::string& address : addresses) {
    if (IsLocal(address)) continue;
    return Refuse("--auth=none lets anybody who reaches ", address,
                  " take part; say --insecure if the network is trusted");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParseAddresses(
    const std::string& text) {
  std::vector<std::string> addresses;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    absl::StatusOr<std::string> address = ParseAddress(part);
    if (!address.ok()) return address.status();
    addresses.push_back(*std::move(address));
    const bool shared = absl::StartsWith(addresses.back(), "shm://");
    if (shared != absl::StartsWith(addresses.front(), "shm://")) {
      return Refuse(
          addresses.front(), " and ", addresses.back(),
          ": a job goes over shared memory as a whole, or not at all");
    }
  }
  return addresses;
}

bool IsLocal(const std::string& address) {
  absl::string_view rest = address;
  if (absl::StartsWith(rest, "ipc://") || absl::StartsWith(rest, "shm://"))
    return true;
  absl::ConsumePrefix(&rest, "tcp://");
  return IsLoopbackHost(rest.substr(0, rest.rfind(':')));
}

}  // namespace parapet
