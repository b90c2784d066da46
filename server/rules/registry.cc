#include "server/rules/registry.h"

namespace parapet::rules {

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
