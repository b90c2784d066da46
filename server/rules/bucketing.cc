#include <algorithm>

#include "server/rules/registry.h"

namespace parapet::rules {
namespace {

class Bucketing : public Stage {
 public:
  explicit Bucketing(int s) : s_(s) {}

  int Needed(int f) const override { return 1; }
  int RowsOut(int n) const override { return n / s_ + (n % s_ != 0 ? 1 : 0); }
  bool merges() const override { return true; }

  absl::StatusOr<Decision> Decide(const View& view) const override {
    const std::vector<int> order = view.shuffle(view.position, view.n());
    Decision decision;
    decision.mixing = Mixing(RowsOut(view.n()), view.n() + 2);
    for (int bucket = 0; bucket < decision.mixing.rows; ++bucket) {
      const int begin = bucket * s_,
                end = std::min(view.n() - begin, s_) + begin;
      for (int k = begin; k < end; ++k)
        decision.mixing.at(bucket, order[k]) = 1.0 / (end - begin);
    }
    return decision;
  }

 private:
  int s_;
};

}  // namespace

StageInfo BucketingStage() {
  return {
      .name = "bucketing",
      .kind = StageKind::kMixing,
      .formula =
          "means of groups of s in a secret random order; n becomes ceil(n/s)",
      .limits = "n >= 1",
      .cost = "n^2 d",
      .paper =
          "Karimireddy, He, Jaggi, Byzantine-robust learning on heterogeneous "
          "datasets via bucketing, ICLR 2022",
      .options = {{.name = "s",
                   .kind = OptionSpec::Kind::kInteger,
                   .required = true,
                   .least = 1}},
      .make =
          [](const Options& options) {
            return std::make_unique<Bucketing>(options.Integer("s"));
          },
      .example = "bucketing(2)"};
}

}  // namespace parapet::rules
