// parapet-worker: trains its share of a job, or (--evaluator) measures
// versions.

#include "worker/program.h"

int main(int argc, char** argv) {
  return parapet::RunWorkerProgram(argc, argv);
}
