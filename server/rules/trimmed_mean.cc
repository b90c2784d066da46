#include "server/rules/coordinate_stage.h"
#include "server/rules/registry.h"

namespace parapet::rules {

StageInfo TrimmedMeanStage() {
  return {.name = "trimmed_mean",
          .kind = StageKind::kCoordinate,
          .formula = "mean without the f smallest and f largest values",
          .limits = "n > 2f",
          .cost = "n log n d",
          .paper =
              "Yin, Chen, Ramchandran, Bartlett, Byzantine-robust distributed "
              "learning, ICML 2018",
          .options = {},
          .make = MakeCoordinate<CoordinateOp::kTrimmedMean>};
}

}  // namespace parapet::rules
