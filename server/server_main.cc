// parapet-server: owns a shard of the parameters; server 0 leads the job.

#include "server/program.h"

int main(int argc, char** argv) {
  return parapet::RunServerProgram(argc, argv);
}
