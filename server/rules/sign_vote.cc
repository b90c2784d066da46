#include "server/rules/coordinate_stage.h"
#include "server/rules/registry.h"

namespace parapet::rules {

StageInfo SignVoteStage() {
  return {
      .name = "sign_vote",
      .kind = StageKind::kCoordinate,
      .formula = "scale * sign(sum of sign(x_i))",
      .limits = "n > 2f",
      .cost = "n d",
      .paper =
          "Bernstein, Zhao, Azizzadenesheli, Anandkumar, signSGD with "
          "majority vote, ICLR 2019",
      .options = {{.name = "scale", .above = 0, .fallback = "1"}},
      .make = [](const Options& options) {
        return std::make_unique<CoordinateStage>(Coordinate{
            .op = CoordinateOp::kSignVote, .scale = options.Number("scale")});
      }};
}

}  // namespace parapet::rules
