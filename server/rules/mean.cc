#include "server/rules/coordinate_stage.h"
#include "server/rules/registry.h"

namespace parapet::rules {

StageInfo MeanStage() {
  return {.name = "mean",
          .kind = StageKind::kCoordinate,
          .formula = "sum of s_i x_i / sum of s_i, s_i samples",
          .limits = "n >= 1; tolerates no liar",
          .cost = "n d",
          .paper = "-",
          .options = {{.name = "unweighted", .kind = OptionSpec::Kind::kFlag}},
          .make = [](const Options& options) {
            const bool weighted = !options.Has("unweighted");
            return std::make_unique<CoordinateStage>(
                Coordinate{.weighted = weighted});
          }};
}

}  // namespace parapet::rules
