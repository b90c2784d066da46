#include "server/rules/coordinate_stage.h"
#include "server/rules/registry.h"

namespace parapet::rules {

StageInfo PhocasStage() {
  return {.name = "phocas",
          .kind = StageKind::kCoordinate,
          .formula = "mean of the n-f values nearest to the trimmed mean",
          .limits = "n > 2f",
          .cost = "n log n d",
          .paper = "Xie, Koyejo, Gupta, Phocas, 2018",
          .options = {},
          .make = MakeCoordinate<CoordinateOp::kPhocas>};
}

}  // namespace parapet::rules
