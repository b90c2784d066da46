#include "server/rules/registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace parapet::rules {

std::string StageInfo::Signature() const {
  if (options.empty()) return name;
  return absl::StrCat(
      name, "(",
      absl::StrJoin(options, ", ",
                    [](std::string* out, const OptionSpec& option) {
                      absl::StrAppend(out, option.name,
                                      option.fallback.empty() ? "" : "=",
                                      option.fallback);
                    }),
      ")");
}

std::string StageInfo::ExampleChain() const {
  return absl::StrCat(example.empty() ? name : example,
                      kind == StageKind::kMixing ? " + mean" : "");
}

std::vector<StageInfo> AllStages() {
  return {MeanStage(),
          MedianStage(),
          TrimmedMeanStage(),
          MeamedStage(),
          PhocasStage(),
          SignVoteStage(),
          KrumStage(),
          MultiKrumStage(),
          BulyanStage(),
          MdaStage(),
          GeometricMedianStage(),
          CenteredClipStage(),
          CgeStage(),
          FabaStage(),
          SmeaStage(),
          CafStage(),
          MonnaStage(),
          FltrustStage(),
          DncStage(),
          NnmStage(),
          BucketingStage(),
          ClipStage(),
          ArcStage()};
}

}  // namespace parapet::rules
