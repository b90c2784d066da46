#include "server/rules/coordinate_stage.h"
#include "server/rules/registry.h"

namespace parapet::rules {

StageInfo MedianStage() {
  return {.name = "median",
          .kind = StageKind::kCoordinate,
          .formula = "middle value; for even n the mean of the middle two",
          .limits = "n > 2f",
          .cost = "n log n d",
          .paper =
              "Yin, Chen, Ramchandran, Bartlett, Byzantine-robust distributed "
              "learning, ICML 2018",
          .options = {},
          .make = MakeCoordinate<CoordinateOp::kMedian>};
}

}  // namespace parapet::rules
