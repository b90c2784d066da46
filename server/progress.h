#ifndef PARAPET_SERVER_PROGRESS_H_
#define PARAPET_SERVER_PROGRESS_H_

#include <string>

#include "absl/time/time.h"
#include "common/messages.h"
#include "nlohmann/json.hpp"
#include "server/lead.h"

namespace parapet {

// How the lead shows how far the job is.
enum class ProgressStyle { kNone, kTerminal, kPlain, kJson };

// "auto" is kTerminal when standard error is one, else kPlain. Unknown names
// count as "auto".
ProgressStyle ParseProgressStyle(const std::string& name, bool is_terminal);

// "round 120/2345  epoch 1  loss 0.4312  accuracy 86.20 %  31200 samples/s left
// out: worker 3  suspect: worker 3 (98 %)".
std::string ProgressLine(const Lead::Progress& progress);
nlohmann::json ProgressJson(const Lead::Progress& progress);

// Prints the lead's progress: to standard error a line that is written over on
// a terminal, or a line every few seconds; or JSON lines to standard output.
// Not thread-safe.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(ProgressStyle style) : style_(style) {}
  // Prints if it is time to.
  void Show(const Lead::Progress& progress, absl::Time now);
  void ShowEvaluation(const EvalReportMessage& report, bool last);
  // Ends a line that is being written over.
  void End();

 private:
  const ProgressStyle style_;
  absl::Time next_;
  bool open_line_ = false;
};

// The fields of `parapet run --summary=json`.
nlohmann::json SummaryJson(const JobSummary& summary);

}  // namespace parapet

#endif  // PARAPET_SERVER_PROGRESS_H_
