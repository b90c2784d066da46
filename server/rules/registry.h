#ifndef PARAPET_SERVER_RULES_REGISTRY_H_
#define PARAPET_SERVER_RULES_REGISTRY_H_

#include <vector>

#include "server/rules/stage.h"

namespace parapet::rules {

// Every rule and every step before one, each defined in the file of its name:
// those on coordinates, those on distances, those that mix. Built anew at each
// call.
std::vector<StageInfo> AllStages();

// One line each.
StageInfo MeanStage();
StageInfo MedianStage();
StageInfo TrimmedMeanStage();
StageInfo MeamedStage();
StageInfo PhocasStage();
StageInfo SignVoteStage();
StageInfo KrumStage();
StageInfo MultiKrumStage();
StageInfo BulyanStage();
StageInfo MdaStage();
StageInfo GeometricMedianStage();
StageInfo CenteredClipStage();
StageInfo CgeStage();
StageInfo FabaStage();
StageInfo SmeaStage();
StageInfo CafStage();
StageInfo MonnaStage();
StageInfo FltrustStage();
StageInfo DncStage();
StageInfo NnmStage();
StageInfo BucketingStage();
StageInfo ClipStage();
StageInfo ArcStage();

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_REGISTRY_H_
