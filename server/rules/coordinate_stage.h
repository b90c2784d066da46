#ifndef PARAPET_SERVER_RULES_COORDINATE_STAGE_H_
#define PARAPET_SERVER_RULES_COORDINATE_STAGE_H_

#include <memory>

#include "server/rules/stage.h"

namespace parapet::rules {

// A rule that does one operation on each coordinate of the rows it sees.
class CoordinateStage : public Stage {
 public:
  // coordinate.f is filled in with the round's.
  explicit CoordinateStage(Coordinate coordinate) : coordinate_(coordinate) {}

  // A mean tolerates no liar, whatever n is.
  int Needed(int f) const override {
    return coordinate_.op == CoordinateOp::kMean ? 1 : 2 * f + 1;
  }
  bool weighted() const override { return coordinate_.weighted; }

  absl::StatusOr<Decision> Decide(const View& view) const override {
    Decision decision;
    decision.coordinate = coordinate_;
    decision.coordinate.f = view.f;
    // Once mixed, rows are no worker's: its samples say nothing about them.
    if (view.position > 0) decision.coordinate.weighted = false;
    return decision;
  }

 private:
  Coordinate coordinate_;
};

// For StageInfo::make of a rule that has no options.
template <CoordinateOp op>
std::unique_ptr<Stage> MakeCoordinate(const Options&) {
  return std::make_unique<CoordinateStage>(Coordinate{.op = op});
}

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_COORDINATE_STAGE_H_
