#ifndef PARAPET_SERVER_RULES_STAGE_H_
#define PARAPET_SERVER_RULES_STAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/options.h"
#include "server/rules/distances.h"
#include "server/rules/plan.h"

namespace parapet::rules {

// Draws a permutation of 0 .. n-1 for the stage at a position of its chain.
using Shuffle = std::function<std::vector<int>(int stage, int n)>;

// What a stage sees.
struct View {
  const Distances& distances;  // of its n rows, prev and zero
  int f = 0;
  absl::Span<const int> workers;  // whose row each is; empty after bucketing
  int position = 0;               // of the stage in its chain
  const Shuffle& shuffle;

  int n() const { return distances.n(); }
};

// What a stage decides: new rows as combinations of those it saw, and, in a
// rule, what is then done to each coordinate. A `mixing` of no rows leaves the
// rows as they are.
struct Decision {
  Mixing mixing;
  Coordinate coordinate;
  std::vector<double> scores;
  std::vector<int> selected;  // positions of rows
  std::vector<double> trust;
};

// A rule, or a step before one, with its options. Immutable and stateless.
class Stage {
 public:
  virtual ~Stage() = default;

  // The fewest rows with which it holds its promise against f liars.
  virtual int Needed(int f) const { return 2 * f + 1; }
  // A limit of another kind that n and f break, in words; empty: none.
  virtual std::string Refusal(int n, int f) const { return ""; }
  // How many rows come out of n.
  virtual int RowsOut(int n) const { return n; }
  // Whether a row that comes out is no longer that of the worker at its place.
  virtual bool merges() const { return false; }
  // The worker that it trusts, or -1.
  virtual int trusted() const { return -1; }
  virtual bool needs_previous() const { return false; }
  virtual bool weighted() const { return false; }

  // Called only when the limits hold. FailedPrecondition if the trusted worker
  // is not there.
  virtual absl::StatusOr<Decision> Decide(const View& view) const = 0;
};

enum class StageKind : uint8_t {
  kCoordinate,  // a rule on each coordinate by itself: no exchange between
                // servers
  kDistance,    // a rule on distances: one exchange
  kMixing,      // before a rule: makes any chain one on distances
};

// A line of the table that `parapet rules` prints.
struct StageInfo {
  std::string name;
  StageKind kind = StageKind::kDistance;
  std::string formula = "", limits = "", cost = "", paper = "";
  std::vector<OptionSpec> options = {};
  std::function<std::unique_ptr<Stage>(const Options&)> make = nullptr;
  // With the options that it cannot do without, as a chain has it; empty: the
  // name alone will do.
  std::string example = "";

  // "centered_clip(tau=1, iterations=3)": its options, with their defaults.
  std::string Signature() const;
  // A chain of it alone, or of a step with a mean after it.
  std::string ExampleChain() const;
  // Whether servers must tell each other something before they can apply it.
  bool exchange() const { return kind != StageKind::kCoordinate; }
};

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_STAGE_H_
