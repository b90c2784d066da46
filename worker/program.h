#ifndef PARAPET_WORKER_PROGRAM_H_
#define PARAPET_WORKER_PROGRAM_H_

namespace parapet {

// The whole worker program. Returns its exit code; docs/architecture.md lists
// them.
int RunWorkerProgram(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_WORKER_PROGRAM_H_
