#ifndef PARAPET_TOOLS_AUDIT_REPORT_H_
#define PARAPET_TOOLS_AUDIT_REPORT_H_

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/audit.h"

namespace parapet {

// What an account says of one worker, over all its rounds.
struct WorkerAccount {
  uint64_t in = 0;                           // rounds that it entered
  std::map<std::string, uint64_t> left_out;  // rounds, by reason
  std::map<std::string, uint64_t> words;     // the same, in words
  uint64_t abstained = 0;                    // rounds without a sample
  uint64_t unused = 0;  // rounds that it entered with a weight of 0
  double weight = 0;    // sum of its weights, over `weighed` rounds
  uint64_t weighed = 0;
  uint64_t bad_values = 0;  // left out at their coordinates
  double suspicion = 0;     // the last one

  uint64_t out() const;
};

// Of the last job in the files, with what was done before it was resumed.
struct AuditReport {
  std::optional<AuditJob> job;  // its last start; none in old files
  uint64_t earlier_jobs = 0;    // that are left out
  uint64_t rounds = 0;
  uint64_t first_round = 0, last_round = 0;
  uint64_t lost = 0;   // rounds of which the disk has no line
  uint64_t bad = 0;    // rounds without a result, or without one everywhere
  uint64_t again = 0;  // rounds that were done again after a resume
  uint64_t cut = 0;    // lines that cannot be read
  std::map<uint32_t, WorkerAccount> workers;

  // Forgets all, unless it is a resume of the job that came before.
  void Begin(const AuditJob& start);
  void Add(const RoundRecord& record);
};

// Adds the lines of a file of server/audit.h and returns how many they were. A
// disk that was full leaves cut and empty lines: those that cannot be read are
// counted in `cut`, empty ones and a last one without an end, as a lead that
// was killed leaves it, are left out.
uint64_t ReadAudit(std::istream& in, AuditReport* report);

// `parapet audit FILE [--json]`: who was left out how often, and why. Reads the
// files that FILE was rotated into first (FILE.3, FILE.2, FILE.1); if no line
// of them is of an audit file, that is an error. `args` are the words after
// "audit". Returns the exit code.
int RunAudit(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err);

// The same with the standard streams. argv[0] is skipped.
int RunAudit(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_AUDIT_REPORT_H_
