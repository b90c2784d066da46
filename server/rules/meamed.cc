#include "server/rules/coordinate_stage.h"
#include "server/rules/registry.h"

namespace parapet::rules {

StageInfo MeamedStage() {
  return {
      .name = "meamed",
      .kind = StageKind::kCoordinate,
      .formula = "mean of the n-f values nearest to the median",
      .limits = "n > 2f",
      .cost = "n log n d",
      .paper = "Xie, Koyejo, Gupta, Generalized Byzantine-tolerant SGD, 2018",
      .options = {},
      .make = MakeCoordinate<CoordinateOp::kMeamed>};
}

}  // namespace parapet::rules
