#include "server/rules/clipping.h"
#include "server/rules/registry.h"

namespace parapet::rules {
namespace {

class Clip : public Stage {
 public:
  explicit Clip(double c) : c_(c) {}

  int Needed(int f) const override { return 1; }
  absl::StatusOr<Decision> Decide(const View& view) const override {
    Decision decision;
    decision.mixing = Clipped(view.distances, c_);
    return decision;
  }

 private:
  double c_;
};

}  // namespace

StageInfo ClipStage() {
  return {.name = "clip",
          .kind = StageKind::kMixing,
          .formula = "x_i scaled to norm at most c",
          .limits = "n >= 1",
          .cost = "n^2 d",
          .paper =
              "Pascanu, Mikolov, Bengio, On the difficulty of training "
              "recurrent neural networks, ICML 2013",
          .options = {{.name = "c", .required = true, .above = 0}},
          .make =
              [](const Options& options) {
                return std::make_unique<Clip>(options.Number("c"));
              },
          .example = "clip(1)"};
}

}  // namespace parapet::rules
