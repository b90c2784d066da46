#ifndef PARAPET_SERVER_RULES_CHAIN_H_
#define PARAPET_SERVER_RULES_CHAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rules/stage.h"

namespace parapet::rules {

// A rule with the steps before it: "clip(2.0) + nnm + trimmed_mean". Immutable;
// cheap to copy.
class Chain {
 public:
  struct Link {
    std::string name;  // without options
    std::string text;  // with them, as written
    std::shared_ptr<const Stage> stage;
  };

  // InvalidArgument in words: what was found and what was expected.
  static absl::StatusOr<Chain> Parse(absl::string_view text);

  const std::vector<Link>& links() const { return links_; }
  // "stage + stage + rule", as written but for spaces.
  std::string text() const;
  // False: a rule on each coordinate by itself, which needs no distances and no
  // exchange.
  bool needs_distances() const { return needs_distances_; }
  // Whether the rule's output of the round before must be kept.
  bool needs_previous() const;
  // Whether contributions count by their samples: only under a mean by itself.
  bool weighted() const;

  // Whether every stage's limits hold with the rows it sees, beginning with n
  // vectors of which f may lie. FailedPrecondition: "bulyan with f=2 needs at
  // least 11 workers; this job has 8". `what` is "job" or "round".
  absl::Status CheckLimits(int n, int f, absl::string_view what = "job") const;
  // The same for a job of workers 0 .. n-1, with the trusted worker's id
  // checked as well.
  absl::Status CheckJob(int n, int f) const;
  // What a user should know though it is no error: a mean with f > 0, limits
  // that would fail if f workers were silent.
  std::vector<std::string> Warnings(int n, int f) const;

 private:
  std::vector<Link> links_;
  bool needs_distances_ = false;
};

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_CHAIN_H_
